"""A question to a client is a span below its call's, and its client is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.endpoint.legacy.question_span import followed
from gateway.model.call import Call, Caller
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import Id, Response
from gateway.protocol.rawjson import Object, Raw
from gateway.protocol.versions import Era
from gateway.telemetry.spans import OFF, Side
from tests.kit.calls import call
from tests.kit.spans import PARENT, TRACE, Recorder

CALL = replace(call(caller=Caller(Era.LEGACY, "2025-11-25", session="secret", view="v")), trace={**PARENT})
YES = Response("ask-1", {"action": "accept"}, None)


class Client:
    """Answers a question, and keeps what it was sent."""

    def __init__(self, response: Response | None = YES, *, is_sent: bool = True) -> None:
        self.params: Any = None
        self._response, self._is_sent = response, is_sent

    async def __call__(self, params: Raw | None, sent: Callable[[Id], None]) -> Response | None:
        self.params = None if params is None else rawjson.decode_value(rawjson.raw_bytes(params))
        if self._is_sent:
            sent("ask-1")
        return self._response


def question(params: Object | None = None, method: str = "elicitation/create") -> dict[str, Raw]:
    plain: Object = {"method": method} if params is None else {"method": method, "params": params}
    return rawjson.decode_members(rawjson.raw(plain))


async def put(client: Client, asked: dict[str, Raw] | None = None, of: Call = CALL) -> Recorder:
    tracer = Recorder()
    assert await followed(tracer, of, asked or question({"message": "m"}), client) is client._response
    return tracer


async def test_the_client_finds_its_place_below_the_question_and_that_below_the_call() -> None:
    client = Client()
    span = (await put(client)).only
    assert (span.side, span.title, span.parent, span.links) == (Side.CLIENT, "elicitation/create", PARENT, [])
    assert client.params == {"message": "m", "_meta": span.carrier}
    assert span.error == ""
    assert span.facts == {
        "mcp.method.name": "elicitation/create",
        "mcp.protocol.version": "2025-11-25",
        "mcp.session.id": "hash of 6",
        "jsonrpc.request.id": "ask-1",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "mcp_gateway.server": CALL.target.server,
        "mcp_gateway.client.id": CALL.principal.label,
        "mcp_gateway.call_id": CALL.id,
        "mcp_gateway.view": "v",
    }


@pytest.mark.parametrize(
    ("response", "is_sent", "error", "code"),
    [
        (Response("ask-1", {"action": "decline"}, None), True, "", None),
        (Response("ask-1", None, {"code": -32601, "message": "no"}), True, "-32601", "-32601"),
        (Response("ask-1", None, {"code": "secret", "message": "no"}), True, "_OTHER", "_OTHER"),
        (None, True, "cancelled", None),
        (None, False, "_OTHER", None),
    ],
)
async def test_it_ends_the_way_the_question_does(
    response: Response | None, is_sent: bool, error: str, code: str | None
) -> None:
    span = (await put(Client(response, is_sent=is_sent))).only
    assert (span.error, span.facts.get("rpc.response.status_code")) == (error, code)


async def test_a_call_that_ends_first_ends_its_question() -> None:
    tracer, waiting = Recorder(), asyncio.Event()

    async def never(params: Raw | None, sent: Callable[[Id], None]) -> Response | None:
        waiting.set()
        await asyncio.Event().wait()
        return None

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        asking = group.create_task(followed(tracer, CALL, question(), never))
        await waiting.wait()
        asking.cancel()
    assert tracer.only.error == "cancelled"


async def test_a_server_that_goes_on_with_the_trace_names_the_span_that_asks() -> None:
    """What is recorded is not for it to say."""
    client = Client()
    theirs: Object = {"traceparent": f"00-{TRACE}-{'a' * 16}-00", "tracestate": "x=1", "own": 1}
    span = (await put(client, question({"_meta": theirs}))).only
    assert span.parent == {"traceparent": f"00-{TRACE}-{'a' * 16}-01"}
    assert client.params == {"_meta": {"own": 1, **span.carrier}}


async def test_a_server_cannot_put_a_question_into_another_trace() -> None:
    client = Client()
    theirs: Object = {"traceparent": f"00-{'b' * 32}-{'a' * 16}-01"}
    span = (await put(client, question({"_meta": theirs}))).only
    assert (span.parent, span.links) == (PARENT, [theirs])
    assert client.params["_meta"] == span.carrier


async def test_a_method_that_nobody_knows_names_nothing() -> None:
    span = (await put(Client(), question(method="my/secret"))).only
    assert (span.title, span.facts["mcp.method.name"]) == ("_OTHER", "_OTHER")


async def test_without_tracing_a_question_is_sent_as_it_is() -> None:
    client = Client()
    assert await followed(OFF, CALL, question({"message": "m"}), client) is YES
    assert client.params == {"message": "m"}
    await followed(OFF, CALL, question(), client)
    assert client.params is None
