"""Requests to servers as spans: what is told of them, and what the server gets."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.config.servers import Server
from gateway.downstream.dialect import Peer
from gateway.downstream.leg import Leg
from gateway.downstream.modern import Modern, read_discovery
from gateway.downstream.transport import Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.model.exchange import Exchange
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.spans import Side
from tests.kit.spans import PARENT, TRACE, Recorder
from tests.kit.transport import MODERN, FakeTransport, Sent, call, failure, members, peer, reply, server

META: Object = {"progressToken": "t", **PARENT, "tracestate": "a=1"}


async def asked(recorder: Recorder, request: Request, answer: Reply | BaseException, **config: object) -> Request:
    """Send a request over a leg to a server that answers like this; returns what the server got."""
    got: list[Request] = []

    async def send(sent: Request) -> Reply:
        got.append(sent)
        if sent.on_id is not None:
            sent.on_id(7)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    await Leg(recorder, "wiki", server(**config)).request(send, request, "2026-07-28")
    return got[0]


def request(method: str = "tools/call", **params: Value) -> Request:
    return Request(method, {"name": "search", "arguments": {"q": "secret"}, "_meta": META} | params)


async def test_a_call_is_a_client_span_below_its_parent_and_the_server_is_told_of_it() -> None:
    """S179."""
    recorder = Recorder()
    got = await asked(recorder, request(), reply(content=[]))
    span = recorder.only
    assert (span.side, span.title, span.error) == (Side.CLIENT, "tools/call search", "")
    assert span.parent == {**PARENT, "tracestate": "a=1"}
    assert span.facts == {
        "mcp_gateway.server": "wiki",
        "network.transport": "pipe",
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "gen_ai.tool.name": "search",
        "gen_ai.operation.name": "execute_tool",
        "jsonrpc.request.id": "7",
    }
    # The parent's own state goes with the parent; what the next hop gets is the span's.
    assert got.params == {
        "name": "search",
        "arguments": {"q": "secret"},
        "_meta": {"progressToken": "t", "traceparent": f"00-{TRACE}-0000000000000001-01"},
    }


async def test_a_request_without_meta_is_sent_as_it_is_and_begins_a_trace() -> None:
    recorder = Recorder()
    plain = Request("tools/list", None)
    got = await asked(recorder, plain, reply(tools=[]))
    assert got.params is None
    assert (recorder.only.parent, recorder.only.title) == ({}, "tools/list")


async def test_an_api_is_where_its_document_is_unless_its_url_says_otherwise() -> None:
    known: list[object] = []
    for config in (
        {"openapi": "https://docs.example.com/secret.json"},
        {"openapi": "https://docs.example.com/secret.json", "url": "https://api.example.com/v1"},
        {"openapi": "secret.json"},
    ):
        recorder = Recorder()

        async def send(sent: Request) -> Reply:
            return reply(content=[])

        await Leg(recorder, "api", Server.model_validate(config)).request(send, request(), "")
        known.append(recorder.only.facts.get("server.address"))
        assert "secret.json" not in str(recorder.only.facts)
    assert known == ["docs.example.com", "api.example.com", None]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://bob:secret@wiki.example.com/mcp?token=secret", ("wiki.example.com", 443)),
        ("http://127.0.0.1:8080/secret", ("127.0.0.1", 8080)),
        ("http://[::1]/mcp", ("::1", 80)),
    ],
)
async def test_of_an_address_only_host_and_port_are_told(url: str, place: tuple[str, int]) -> None:
    recorder = Recorder()
    await asked(recorder, request(), reply(content=[]), url=url)
    facts = recorder.only.facts
    assert (facts["server.address"], facts["server.port"]) == place
    assert (facts["network.transport"], facts["network.protocol.name"]) == ("tcp", "http")
    assert "secret" not in str(facts)


async def test_the_id_of_a_servers_session_is_told_as_a_pseudonym() -> None:
    """S153."""
    recorder = Recorder()
    sent = replace(request(), headers={"Mcp-Session-Id": "secret"})
    got = await asked(recorder, sent, reply(content=[]), url="https://wiki.example.com/mcp")
    assert recorder.only.facts["mcp.session.id"] == "hash of 6"
    assert got.headers == {"Mcp-Session-Id": "secret"}


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        (failure(-32602, "no such thing: secret"), "-32602", "-32602"),
        (reply(content=[], isError=True), "tool_error", None),
        (reply(resultType="input_required"), "", None),
        (Reply(None, None, 502), "502", None),
        (Reply(None, None), "_OTHER", None),
        (DownstreamError(Reason.TIMEOUT, "no answer within 5 s"), "timeout", None),
        (asyncio.CancelledError(), "cancelled", None),
        (RuntimeError("secret"), "_OTHER", None),
    ],
    ids=["error", "tool", "asks", "status", "nothing", "timeout", "cancelled", "crash"],
)
async def test_how_a_request_ended_is_told_by_a_short_word(
    answer: Reply | BaseException, error: str, code: str | None
) -> None:
    recorder = Recorder()
    if isinstance(answer, BaseException):
        with pytest.raises(type(answer)):
            await asked(recorder, request(), answer)
    else:
        await asked(recorder, request(), answer)
    assert recorder.only.error == error
    assert recorder.only.facts.get("rpc.response.status_code") == code
    assert "secret" not in str(recorder.only.facts)


async def test_only_a_tool_says_of_itself_that_it_failed() -> None:
    recorder = Recorder()
    await asked(recorder, request("prompts/get"), reply(messages=[], isError=True))
    assert (recorder.only.error, recorder.only.facts["gen_ai.prompt.name"]) == ("", "search")


async def test_with_tracing_off_the_request_is_the_very_same() -> None:
    recorder = Recorder(on=False)
    sent = request()
    assert await asked(recorder, sent, reply(content=[])) is sent
    assert recorder.spans == []


def traced(transport: FakeTransport, recorder: Recorder) -> Peer:
    """Return a peer with tracing."""
    return replace(peer(transport), leg=Leg(recorder, "a", server()))


async def test_every_request_of_a_dialect_is_a_span_and_one_that_is_sent_again_is_two() -> None:
    refused = failure(-32022, "no", {"supported": ["2026-07-28"], "requested": "2026-07-28"})
    answers = iter([refused, reply(resultType="complete", content=[])])
    transport = FakeTransport({**MODERN, "tools/call": lambda sent: next(answers)})
    recorder = Recorder()
    found = read_discovery(members(resultType="complete", supportedVersions=["2026-07-28"], capabilities={"tools": {}}))
    assert found is not None
    dialect = Modern(traced(transport, recorder), found[0])

    await dialect.call(call(trace=PARENT), Exchange())

    assert [span.error for span in recorder.spans] == ["-32022", ""]
    assert [span.parent for span in recorder.spans] == [PARENT, PARENT]
    told = [_meta(sent)["traceparent"] for sent in transport.of("tools/call")]
    assert told == [span.carrier["traceparent"] for span in recorder.spans]


def _meta(sent: Sent) -> Object:
    """Return what a request has in ``_meta``."""
    own = sent.params["_meta"]
    assert isinstance(own, dict)
    return own
