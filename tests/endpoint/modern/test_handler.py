"""Rows 11 to 19 for modern clients over HTTP; every request stands alone and hanging up cancels it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.endpoint import stream as streams
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.protocol import rawjson
from tests.kit.clients import Json, ask, connect, modern, modern_headers, post
from tests.kit.endpoint import Gate, echo, moment, serving, soon
from tests.kit.wire import modern_meta

ADD: dict[str, Any] = {"name": "notes__add"}
OLD: dict[str, Any] = {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (modern("tools/list", {"_meta": {"io.modelcontextprotocol/clientCapabilities": None}}), 400, -32602),
        (post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, modern_headers("tools/list", {})), 400, -32602),
        (modern("tools/call", ADD, mcp_name="notes__region"), 400, -32020),
        (modern("tools/call", ADD, mcp_name=None), 400, -32020),
        (modern("tools/list", mcp_method=None), 400, -32020),
        (modern("tools/list", mcp_method="TOOLS/LIST"), 400, -32020),
        (modern("tools/list", mcp_protocol_version="2025-11-25"), 400, -32020),
        (modern("tools/list", mcp_method=None, mcp_Method_="x"), 400, -32020),
        (modern("ping"), 404, -32601),
        (modern("initialize", {"protocolVersion": "2025-11-25"}), 404, -32601),
        (post({"jsonrpc": "2.0", "id": 1, "method": "initialize"}, modern_headers("initialize", {})), 404, -32601),
        (modern("initialize", {"_meta": {"io.modelcontextprotocol/clientCapabilities": None}}), 404, -32601),
        (modern("nope", {"_meta": {"io.modelcontextprotocol/clientCapabilities": None}}, mcp_method="x"), 400, -32602),
        (modern("nope", OLD, mcp_method="x", mcp_protocol_version="1999-01-01"), 400, -32020),
        (modern("nope", OLD, mcp_protocol_version="1999-01-01"), 400, -32022),
        (modern("nope", {"cursor": 7}), 404, -32601),
        (modern("tools/call", {"name": "nope", "arguments": 7}), 400, -32602),
        (modern("tools/call", {"name": "nope", "arguments": {"region": "eu"}}, mcp_param_region="us"), 400, -32602),
        (modern("nope"), 404, -32601),
        (modern("tools/call", {"name": "notes__add", "arguments": []}), 400, -32602),
        (modern("tools/call", {"name": 7}), 400, -32602),
        (modern("tools/call", {"name": "notes__add", "requestState": "x"}), 400, -32602),
        (modern("tools/call", {"name": "nope"}), 400, -32602),
        (modern("prompts/get", {"name": "nope"}), 400, -32602),
        (modern("resources/read", {"uri": "x://nope"}), 400, -32602),
        (modern("tools/call", {"name": "notes__region", "arguments": {"region": "eu"}}), 400, -32020),
        (modern("tools/list", {"cursor": "x"}), 400, -32602),
        (modern("tools/list", {"Cursor": "x"}), 400, -32602),
    ],
)
async def test_the_first_failing_row_decides_and_nothing_is_called(data: bytes, status: int, code: int) -> None:
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site:
        reply = await ask(site.port, data)
        assert (reply.status, reply.code, reply.message["id"]) == (status, code, 1)
        assert gate.began.empty()


async def test_an_unknown_version_is_told_what_is_supported() -> None:
    """G124."""
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}
    async with serving() as site:
        reply = await ask(site.port, modern("tools/list", meta, mcp_protocol_version="1999-01-01"))
        assert (reply.status, reply.code) == (400, -32022)
        assert reply.message["error"]["data"]["requested"] == "1999-01-01"
        discovered = await ask(site.port, modern("server/discover"))
        assert discovered.result["supportedVersions"] == reply.message["error"]["data"]["supported"]


async def test_mirrored_arguments_pass_when_they_match() -> None:
    params = {"name": "notes__region", "arguments": {"region": "eu"}}
    async with serving() as site:
        assert (await ask(site.port, modern("tools/call", params, mcp_param_region="eu"))).status == 200


async def test_unknown_and_hidden_names_differ_in_nothing_but_the_name() -> None:
    """S60, and both are audited."""
    now = moment()
    now.hides = lambda principal, target: target.name == "add"
    async with serving(now) as site:
        hidden = await ask(site.port, modern("tools/call", {"name": "notes__add"}))
        unknown = await ask(site.port, modern("tools/call", {"name": "notes__xxx"}))
        for reply in (hidden, unknown):
            reply.headers.pop("date")
        assert hidden.body.replace(b"add", b"xxx") == unknown.body
        assert (hidden.status, hidden.headers) == (unknown.status, unknown.headers)
        assert [call.exposed for call in site.services.refused] == ["notes__add", "notes__xxx"]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ({"method": "notifications/cancelled", "params": {"requestId": 1}}, 202),
        ({"method": "notifications/unknown"}, 202),
        ({"method": "tools/call", "params": {"name": "notes__add"}}, 400),
        ({"method": "initialize"}, 400),
        ({"id": 1, "result": {}}, 400),
        ({"id": 1, "error": {"code": 1, "message": "m"}}, 400),
    ],
)
async def test_notifications_are_accepted_and_responses_are_not(message: dict[str, Any], status: int) -> None:
    """G028, G066, S30."""
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site:
        reply = await ask(site.port, post({"jsonrpc": "2.0", **message}, [("MCP-Protocol-Version", "2026-07-28")]))
        assert reply.status == status
        assert reply.body == b"" if status == 202 else reply.code == -32600
        assert gate.began.empty()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", ADD),
        ("tools/list", {}),
        ("server/discover", {}),
        ("resources/read", {"uri": "note://nothing"}),
        ("no/such", {}),
    ],
)
async def test_sessions_and_resumption_are_ignored(method: str, params: Json) -> None:
    """S91: whatever is asked, and however it ends."""
    async with serving() as site:
        plain = await ask(site.port, modern(method, params))
        extra = await ask(site.port, modern(method, params, mcp_session_id="x", last_event_id="7"))
        assert plain.body == extra.body
        assert set(plain.headers) == set(extra.headers)
        assert "mcp-session-id" not in extra.headers


async def test_what_was_judged_is_what_goes_on() -> None:
    """S23, S27, G093."""
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","extra":1,"params":{"name":"notes__add","more":2,'
        b'"arguments":{"big":9007199254740993,"f":1.0,"s":"\\ud83d\\ude00"},"_meta":%b}}'
        % json.dumps(modern_meta()).encode()
    )
    async with serving() as site:
        reply = await ask(site.port, post(body, modern_headers("tools/call", ADD)))
        seen = json.loads(reply.result["content"][0]["text"])["params"]
        assert seen == {"name": "add", "arguments": {"big": 9007199254740993, "f": 1.0, "s": "😀"}}


async def test_the_call_knows_its_caller() -> None:
    now = moment()
    now.chain = gate = Gate()
    gate.opened.set()
    meta = modern_meta({"elicitation": {}}) | {
        "progressToken": 5,
        "io.modelcontextprotocol/logLevel": "warning",
        "own": 1,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
    }
    async with serving(now) as site:
        await ask(site.port, modern("tools/call", {**ADD, "_meta": meta}, identifier="x"))
        call = await soon(gate.began)
        assert (call.caller.era.value, call.caller.version, call.caller.session) == ("modern", "2026-07-28", "")
        assert (call.caller.capabilities, call.caller.info["name"]) == ({"elicitation": {}}, "wire")
        assert (call.progress_token, call.log_level, call.meta, call.rpc_id) == (5, "warning", {"own": 1}, "x")
        assert call.trace["traceparent"].startswith("00-0af")
        assert call.caller.source == "127.0.0.1"


async def test_concurrent_calls_get_their_own_ids_back() -> None:
    """G043: 1 and "1", 0 and "" and -5 at once, also the same id from many clients (S92)."""
    ids: list[object] = [1, "1", 0, "", -5, "x" * 128, 2**53, 1, "1"]
    async with serving() as site:
        requests = [
            ask(site.port, modern("tools/call", {**ADD, "arguments": {"n": number}}, identifier))
            for number, identifier in enumerate(ids)
        ]
        replies = await asyncio.gather(*requests)
    for number, (identifier, reply) in enumerate(zip(ids, replies, strict=True)):
        assert reply.message["id"] == identifier
        assert type(reply.message["id"]) is type(identifier)
        assert json.loads(reply.result["content"][0]["text"])["params"]["arguments"] == {"n": number}


async def chatty(call: Call, exchange: Exchange) -> Outcome:
    for number in (1, 2, 3):
        exchange.notify("notifications/progress", {"progress": rawjson.raw(number)})
    exchange.notify("notifications/message", {"level": rawjson.raw("error"), "data": rawjson.raw("d")})
    return await echo(call, exchange)


async def test_an_answer_is_json_until_something_comes_before_it() -> None:
    now = moment()
    now.chain = chatty
    async with serving(now) as site:
        plain = await ask(site.port, modern("tools/call", ADD))
        assert plain.headers["content-type"] == "application/json"
        meta = modern_meta() | {"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"}
        streamed = await ask(site.port, modern("tools/call", {**ADD, "_meta": meta}))
        assert streamed.headers["content-type"] == "text/event-stream"
        assert [event.get("method") for event in streamed.events] == [
            *["notifications/progress"] * 3,
            "notifications/message",
            None,
        ]
        assert streamed.events[0]["params"] == {"progress": 1, "progressToken": "p"}
        assert streamed.result == plain.result


async def test_a_long_call_keeps_its_client_from_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """G019: silence becomes a stream of comments, for a client that can read one."""
    monkeypatch.setattr(streams, "HEARTBEAT", 0.05)
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as slow, connect(site.port) as plain:
        await slow.send(modern("tools/call", ADD))
        await plain.send(modern("tools/call", ADD, accept="application/json"))
        status, head = await slow.head()
        assert (status, head["content-type"]) == (200, "text/event-stream")
        chunks = slow.chunks()
        async with asyncio.timeout(5):
            assert [await anext(chunks) for _ in range(2)] == [b": keep-alive\n\n"] * 2
        gate.opened.set()
        last = [chunk async for chunk in chunks][-1]
        assert b'"result"' in last
        assert (await plain.reply()).headers["content-type"] == "application/json"


async def test_a_client_that_reads_no_streams_gets_json() -> None:
    now = moment()
    now.chain = chatty
    meta = modern_meta() | {"progressToken": "p"}
    async with serving(now) as site:
        reply = await ask(site.port, modern("tools/call", {**ADD, "_meta": meta}, accept="application/json"))
        assert reply.headers["content-type"] == "application/json"


async def test_an_error_after_the_stream_began_is_its_last_event() -> None:
    async def chain(call: Call, exchange: Exchange) -> Outcome:
        exchange.notify("notifications/progress", {"progress": rawjson.raw(1)})
        raise DownstreamError(Reason.TIMEOUT, "Too late. It may have run.", may_have_run=True)

    now = moment()
    now.chain = chain
    meta = modern_meta() | {"progressToken": "p"}
    async with serving(now) as site:
        reply = await ask(site.port, modern("resources/read", {"uri": "note://one", "_meta": meta}))
        assert (reply.status, reply.code) == (200, -31003)
        assert reply.message["error"]["data"] == {"source": "gateway", "reason": "timeout", "mayHaveRun": True}


async def test_a_refused_tool_call_is_a_readable_result() -> None:
    async def chain(call: Call, exchange: Exchange) -> Outcome:
        return Failure(Reason.DENIED, "Not allowed. It did not run. Ask.")

    now = moment()
    now.chain = chain
    async with serving(now) as site:
        reply = await ask(site.port, modern("tools/call", ADD))
        assert (reply.status, reply.refusal) == (200, {"reason": "denied", "mayHaveRun": False})


async def test_hanging_up_cancels_the_call() -> None:
    """S95, G050."""
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site:
        async with connect(site.port) as connection:
            await connection.send(modern("tools/call", ADD))
            await soon(gate.began)
        await soon(gate.cancelled)


async def test_hanging_up_on_a_stream_cancels_the_call() -> None:
    now = moment()
    gate = Gate()

    async def chain(call: Call, exchange: Exchange) -> Outcome:
        exchange.notify("notifications/progress", {"progress": rawjson.raw(1)})
        return await gate(call, exchange)

    now.chain = chain
    meta = modern_meta() | {"progressToken": "p"}
    async with serving(now) as site:
        async with connect(site.port) as connection:
            await connection.send(modern("tools/call", {**ADD, "_meta": meta}))
            assert (await connection.head())[1]["content-type"] == "text/event-stream"
        await soon(gate.cancelled)


async def test_cancelling_by_notification_has_no_effect() -> None:
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as connection:
        await connection.send(modern("tools/call", ADD))
        await soon(gate.began)
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await ask(site.port, post(body, [("MCP-Protocol-Version", "2026-07-28")]))).status == 202
        gate.opened.set()
        assert (await connection.reply()).status == 200


async def test_a_call_that_needs_answers_is_asked_for_them_and_goes_on_as_the_same_call() -> None:
    """S98, G137."""
    now, seen = moment(), list[Call]()
    question = rawjson.raw({"method": "elicitation/create", "params": {"message": "m"}})

    async def chain(call: Call, exchange: Exchange) -> Outcome:
        seen.append(call)
        return InputRequired({"k": question}, "own") if call.round == 1 else await echo(call, exchange)

    now.chain = chain
    async with serving(now) as site:
        first = (await ask(site.port, modern("tools/call", ADD))).result
        assert first["resultType"] == "input_required"
        again = {**ADD, "requestState": first["requestState"], "inputResponses": {"k": {"action": "decline"}}}
        last = (await ask(site.port, modern("tools/call", again, identifier=2))).result
        assert last["resultType"] == "complete"
    assert seen[1].id == seen[0].id
    assert (seen[1].rpc_id, seen[1].request_state) == (2, "own")
    assert seen[1].input_responses == {"k": {"action": "decline"}}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "notes__add", "requestState": "x"}),
        ("tools/call", {"name": "nope", "requestState": "x"}),
        ("prompts/get", {"name": "notes__greet", "requestState": "x"}),
        ("resources/read", {"uri": "note://one", "requestState": None}),
    ],
)
async def test_a_state_that_is_not_ours_is_refused_and_audited(method: str, params: dict[str, Any]) -> None:
    """S98: why is in the log alone."""
    async with serving() as site:
        reply = await ask(site.port, modern(method, params))
        assert (reply.status, reply.code) == (400, -32602)
        assert reply.message["error"]["message"] == "Invalid or expired requestState"
        assert [event for event, _ in site.services.events] == ["security.state_rejected"]


async def test_methods_that_have_no_rounds_know_no_state() -> None:
    """Patterns/mrtr §Supported Requests: state and answers mean nothing there, and do not travel."""
    now = moment()
    now.chain = gate = Gate()
    gate.opened.set()
    state: Json = {"requestState": "x", "inputResponses": {"a": {}}}
    completion: Json = {"ref": {"type": "ref/resource", "uri": "note://one"}, "argument": {"name": "a", "value": ""}}
    async with serving(now) as site:
        assert "tools" in (await ask(site.port, modern("tools/list", state))).result
        await ask(site.port, modern("completion/complete", completion | state))
        call = await soon(gate.began)
        assert (call.request_state, call.input_responses) == (None, None)
        lost: Json = {**completion, "ref": {"type": "ref/prompt", "name": "nothing"}}
        reply = await ask(site.port, modern("completion/complete", lost | state))
        assert reply.message["error"]["message"] == "Unknown prompt: nothing"
