"""The seam between transports and dialects, and that the fake one fits it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.downstream.transport import Reply, Request, Transport
from gateway.errors import DownstreamError, Reason
from tests.kit.transport import FakeHttp, FakeTransport, never, reply


def test_a_request_wants_nothing_beside_its_body_by_default() -> None:
    request = Request("ping", None)
    assert (request.headers, request.timeout, request.on_sent, request.cancel) == ({}, None, None, None)
    assert Reply(None) == Reply(None, None, 0, {})


@pytest.mark.parametrize("transport", [FakeTransport({"ping": lambda sent: reply()}), FakeHttp({"ping": never})])
async def test_the_scripted_transport_is_one(transport: Transport) -> None:
    if transport.kind == "stdio":
        assert (await transport.request(Request("ping", None))).result == {}
        return
    with pytest.raises(DownstreamError) as caught:
        await transport.request(Request("ping", None, timeout=0.01))
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.TIMEOUT, True)


async def test_the_scripted_transport_fails_what_waits_when_it_ends() -> None:
    transport = FakeTransport({"ping": never})
    waiting = asyncio.get_running_loop().create_task(transport.request(Request("ping", None)))
    await transport.reached("ping")
    transport.end()
    with pytest.raises(DownstreamError):
        await waiting
