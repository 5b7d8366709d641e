"""The seam between transports and dialects, and that the fake one fits it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.downstream.transport import Answer, Later, Owed, Reply, Request, Transport, encode_answer
from gateway.errors import DownstreamError, Reason
from gateway.protocol.jsonrpc import ErrorObject
from tests.kit.transport import FakeHttp, FakeTransport, members, never, reply


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


async def test_an_answer_is_sent_at_once_or_when_it_is_there_or_never() -> None:
    sent: list[Answer] = []
    owed = Owed()
    given: Answer = members(action="cancel")
    owed.deliver(1, given, sent.append)
    assert sent == [given]
    later: Later = asyncio.get_running_loop().create_future()
    dropped: Later = asyncio.get_running_loop().create_future()
    owed.deliver(2, later, sent.append)
    owed.deliver(3, dropped, sent.append)
    dropped.cancel()
    await asyncio.sleep(0)
    assert sent == [given]
    later.set_result(ErrorObject(-32601, "no"))
    await asyncio.sleep(0)
    assert sent == [given, ErrorObject(-32601, "no")]


def test_an_answer_is_a_result_or_an_error() -> None:
    assert encode_answer("a", members(x=1)) == b'{"jsonrpc":"2.0","id":"a","result":{"x":1}}'
    assert b'"error":{"code":-32601' in encode_answer(7, ErrorObject(-32601, "no"))


async def test_an_answer_that_its_server_does_not_want_any_more_is_given_up() -> None:
    sent: list[Answer] = []
    owed = Owed()
    first: Later = asyncio.get_running_loop().create_future()
    second: Later = asyncio.get_running_loop().create_future()
    owed.deliver("1", first, sent.append)
    owed.deliver(1, second, sent.append)
    owed.withdraw(1)
    owed.withdraw("nobody's")
    await asyncio.sleep(0)
    assert (first.done(), second.cancelled(), len(owed)) == (False, True, 1)
    first.set_result({})
    await asyncio.sleep(0)
    assert (sent, len(owed)) == ([{}], 0)
