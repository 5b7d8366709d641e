"""How a request is answered follows from what it said it can read."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aiohttp import web

from gateway.endpoint import inbound
from gateway.endpoint.guards import Head
from gateway.endpoint.inbound import Inbound
from gateway.endpoint.stream import EventStream
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import discard
from gateway.model.principal import ANONYMOUS
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics
from tests.kit.endpoint import moment

CALL = Call("id", 1, "tools/call", {}, Target(Kind.TOOL, "notes", "add"), ANONYMOUS, Caller(Era.MODERN, "v"))


def asked(accept: str | None) -> Inbound:
    headers = {} if accept is None else {"accept": accept}
    request = cast("web.BaseRequest", object())
    return Inbound(request, Head("POST", "/mcp", headers), moment(), ANONYMOUS, None, "127.0.0.1")


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        (None, True),
        ("application/json, text/event-stream", True),
        ("application/json,Text/Event-Stream;q=0.5", True),
        ("*/*", True),
        ("text/*", True),
        ("application/json", False),
        ("", False),
    ],
)
async def test_notifications_go_only_to_clients_that_read_streams(accept: str | None, takes: bool) -> None:
    """G027."""
    request = asked(accept)
    assert request.takes_streams is takes
    stream = EventStream(request.request, {}, "call", TaskSet(lambda name, error: None), Metrics())
    exchange = inbound.exchange_for(request, CALL, stream)
    assert (exchange.notify is not discard) is takes
    await asyncio.sleep(0)


def test_a_stream_over_the_cap_is_told_when_to_come_again() -> None:
    rejection = inbound.too_many_streams("7")
    assert (rejection.status, rejection.code, rejection.id, rejection.headers) == (
        429,
        -31007,
        "7",
        {"Retry-After": "30"},
    )
