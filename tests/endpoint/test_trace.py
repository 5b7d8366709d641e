"""Requests of clients as spans: what is told of them in each era, and when there is none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import pytest

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.protocol import meta as keys
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.telemetry.spans import Side
from tests.kit.clients import Json, LegacySession, ask, connect, modern
from tests.kit.definitions import listing
from tests.kit.endpoint import NOTES, OFFERED, Gate, Site, moment, serving, soon
from tests.kit.spans import PARENT, TRACE, Noted, Recorder

ADD: Final[Json] = {"name": "notes__add", "arguments": {"text": "secret"}}
HOP: Final = ("traceparent", "00-11111111111111111111111111111111-2222222222222222-01")


def recording(site: Site) -> Recorder:
    """Have an endpoint trace from now on."""
    recorder = Recorder()
    site.services.tracer = recorder
    return recorder


def of(recorder: Recorder, method: str) -> Noted:
    """Return the one span of a method."""
    (found,) = [span for span in recorder.spans if span.facts["mcp.method.name"] == method]
    return found


def traced(params: Json | None = None, **meta: object) -> Json:
    """Return params with a client's context."""
    return {**(params or {}), "_meta": {**PARENT, **meta}}


async def test_a_modern_call_is_a_server_span_below_its_clients_and_the_call_carries_it_on() -> None:
    """S179."""
    now = moment()
    now.chain = gate = Gate()
    gate.opened.set()
    async with serving(now) as site:
        recorder = recording(site)
        assert (
            await ask(site.port, modern("tools/call", traced(ADD, tracestate="a=1"), identifier="r1"))
        ).status == 200
    call, span = await soon(gate.began), recorder.only
    assert (span.side, span.title, span.error) == (Side.SERVER, "tools/call notes__add", "")
    assert span.parent == {**PARENT, "tracestate": "a=1"}
    assert span.facts == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "jsonrpc.request.id": "r1",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "client.address": "127.0.0.0/24",
        "gen_ai.tool.name": "notes__add",
        "gen_ai.operation.name": "execute_tool",
        "mcp_gateway.client.id": "anonymous",
        "mcp_gateway.server": "notes",
        "mcp_gateway.call_id": call.id,
        "mcp_gateway.outcome": "ok",
        "mcp_gateway.tool.definition_sha256": call.definition.digest if call.definition else "",
    }
    assert call.trace == span.carrier


async def test_a_legacy_session_is_told_of_by_a_pseudonym() -> None:
    """S153."""
    async with serving() as site:
        recorder = recording(site)
        session = LegacySession(site.port)
        await session.begin()
        await ask(site.port, session.request("tools/call", traced(ADD)))
        await ask(site.port, session.request("ping", {}, 2))
    opened, called = of(recorder, "initialize"), of(recorder, "tools/call")
    assert (opened.title, opened.error, "mcp.session.id" in opened.facts) == ("initialize", "", False)
    assert called.facts["mcp.session.id"] == f"hash of {len(session.id or '')}"
    assert called.facts["mcp.protocol.version"] == "2025-11-25"
    assert called.parent == PARENT
    assert of(recorder, "ping").error == ""
    assert session.id not in str(recorder.spans)


async def test_a_handshake_has_its_clients_context_too() -> None:
    async with serving() as site:
        recorder = recording(site)
        session = LegacySession(site.port)
        params: Json = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        await ask(site.port, session.request("initialize", traced(params)))
        await ask(site.port, session.request("initialize", {"_meta": 7, "protocolVersion": 7}))
    good, bad = recorder.spans
    assert (good.parent, good.error) == (PARENT, "")
    assert (bad.parent, bad.error, bad.facts["rpc.response.status_code"]) == ({}, "-32602", "-32602")


@pytest.mark.parametrize(
    ("meta", "parent", "links"),
    [
        (True, PARENT, [{HOP[0]: HOP[1]}]),
        (False, {HOP[0]: HOP[1]}, []),
    ],
)
async def test_a_context_of_the_hop_is_linked_or_the_parent_where_there_is_no_other(
    meta: bool, parent: Json, links: list[Json]
) -> None:
    """Conventions §Context propagation."""
    async with serving() as site:
        recorder = recording(site)
        await ask(site.port, modern("tools/list", traced() if meta else {}, traceparent=HOP[1]))
    assert (recorder.only.parent, recorder.only.links) == (parent, links)


@pytest.mark.parametrize(
    "bad",
    ["", "00-zz-1", f"00-{TRACE.upper()}-00f067aa0ba902b7-01", f"00-{'0' * 32}-00f067aa0ba902b7-01", "ff-1-2-3"],
)
async def test_a_context_that_is_none_begins_a_trace(bad: str) -> None:
    """S71."""
    async with serving() as site:
        recorder = recording(site)
        meta = {"traceparent": bad, "tracestate": "a=1", "baggage": "x=" + "y" * 10240}
        await ask(site.port, modern("tools/list", {"_meta": meta}, traceparent=bad or "x"))
    assert (recorder.only.parent, recorder.only.links) == ({}, [])


async def _answered(call: Call, exchange: Exchange, outcome: Outcome) -> Outcome:
    return outcome


RESULT: Final = {"content": rawjson.raw([]), "isError": rawjson.raw(True)}


@pytest.mark.parametrize(
    ("outcome", "error", "label", "code"),
    [
        (Complete(RESULT), "tool_error", "tool_error", None),
        (Failure(Reason.DENIED, "secret"), "denied", "denied", None),
        (Failure(Reason.TIMEOUT, "secret"), "timeout", "timeout", None),
        (
            Failure(Reason.PROTOCOL_ERROR, "x", error=ErrorObject(-32050, "secret")),
            "-32050",
            "tool_error",
            "-32050",
        ),
        (InputRequired({}, "secret"), "", "ok", None),
    ],
    ids=["tool", "denied", "timeout", "error", "asks"],
)
async def test_how_a_call_ended_is_told_by_a_short_word_and_never_quoted(
    outcome: Outcome, error: str, label: str, code: str | None
) -> None:
    """S151."""
    now = moment()
    now.chain = lambda call, exchange: _answered(call, exchange, outcome)
    async with serving(now) as site:
        recorder = recording(site)
        await ask(site.port, modern("tools/call", ADD))
    span = recorder.only
    assert (span.error, span.facts["mcp_gateway.outcome"]) == (error, label)
    assert span.facts.get("rpc.response.status_code") == code
    assert "secret" not in str(span)


async def test_a_refusal_of_something_else_than_a_tool_is_an_error_with_a_code() -> None:
    now = moment()
    now.chain = lambda call, exchange: _answered(call, exchange, Failure(Reason.DENIED, "no"))
    async with serving(now) as site:
        recorder = recording(site)
        await ask(site.port, modern("resources/read", {"uri": "note://one"}))
    span = recorder.only
    assert (span.title, span.error) == ("resources/read", "denied")
    assert span.facts["mcp.resource.uri"] == "note://one"
    assert span.facts["rpc.response.status_code"] == "-31008"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_name_that_nobody_knows_is_an_error_and_is_not_repeated(era: str) -> None:
    """S178."""
    unknown = {"name": "notes__secret", "arguments": {}}
    async with serving() as site:
        session = LegacySession(site.port)
        await session.begin()
        recorder = recording(site)
        await ask(
            site.port, modern("tools/call", unknown) if era == "modern" else session.request("tools/call", unknown)
        )
        refused = site.services.refused
    span = recorder.only
    assert (span.title, span.error) == ("tools/call", "-32602")
    assert "secret" not in str(span)
    # The audit record of it belongs to the same trace.
    assert refused[0].trace == span.carrier


async def test_what_is_no_request_of_its_era_is_no_span() -> None:
    async with serving() as site:
        recorder = recording(site)
        await ask(site.port, modern("ping"))
        await ask(site.port, modern("tools/call", ADD, mcp_name="notes__region"))
    assert recorder.spans == []


async def test_a_method_that_nobody_has_names_no_span() -> None:
    """S178: names of spans come from nobody outside."""
    async with serving() as site:
        recorder = recording(site)
        await ask(site.port, modern("secret/method"))
    span = recorder.only
    assert (span.title, span.facts["mcp.method.name"], span.error) == ("_OTHER", "_OTHER", "-32601")


async def test_a_method_that_only_an_extension_knows_names_no_span_either() -> None:
    """S178: whoever declares the extension may call the method anything."""
    extension: dict[str, rawjson.Value] = {"com.example/notes": {}}
    offered: dict[str, rawjson.Value] = {**OFFERED, "extensions": extension}
    now = moment(lists={"notes": listing("notes", *NOTES, era="modern", capabilities=offered)})
    async with serving(now) as site:
        recorder = recording(site)
        declared = {keys.CLIENT_CAPABILITIES: {"extensions": extension}}
        asked = modern("com.example/secret", {"_meta": declared})
        assert (await ask(site.port, asked)).status == 200
    span = recorder.only
    assert (span.title, span.facts["mcp_gateway.server"]) == ("_OTHER", "notes")


async def test_a_client_that_leaves_ends_its_span_as_cancelled() -> None:
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site:
        recorder = recording(site)
        async with connect(site.port) as connection:
            await connection.send(modern("tools/call", ADD))
            await soon(gate.began)
        await soon(gate.cancelled)
        async with asyncio.timeout(5):
            while recorder.only.error is None:
                await asyncio.sleep(0.01)
    assert recorder.only.error == "cancelled"


async def test_a_subscription_is_no_span() -> None:
    async with serving() as site:
        recorder = recording(site)
        with suppress(TimeoutError):
            async with connect(site.port) as connection:
                await connection.send(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
                assert (await connection.head())[0] == 200
    assert recorder.spans == []


async def test_the_next_round_is_linked_to_the_one_before() -> None:
    now = moment()
    question = rawjson.raw({"method": "roots/list"})
    now.chain = lambda call, exchange: _answered(call, exchange, InputRequired({"q": question}, "s"))
    async with serving(now) as site:
        recorder = recording(site)
        first = (await ask(site.port, modern("tools/call", traced(ADD)))).result
        again = {**ADD, "requestState": first["requestState"], "inputResponses": {"q": {"roots": []}}}
        await ask(site.port, modern("tools/call", again))
    one, two = recorder.spans
    assert two.links == [one.carrier]
    assert (two.facts["mcp_gateway.round"], "mcp_gateway.round" in one.facts) == (2, False)
    assert two.facts["mcp_gateway.call_id"] == one.facts["mcp_gateway.call_id"]
