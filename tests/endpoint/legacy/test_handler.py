"""Rows 11 to 19 for legacy clients over HTTP: sessions, cancellation by notification, hanging up cancels nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.config.root import View
from gateway.endpoint import stream as streams
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome
from gateway.protocol import rawjson
from tests.kit.clients import Headers, LegacySession, ask, connect, post, raw
from tests.kit.endpoint import ALICE, BOB, FakeMoment, Gate, Site, echo, keyed, moment, serving, soon

ADD: dict[str, Any] = {"name": "notes__add"}


async def begun(site: Site, headers: Headers = (), version: str = "2025-11-25") -> LegacySession:
    session = LegacySession(site.port, list(headers), version)
    assert (await session.begin()).status == 200
    return session


def with_gate(now: FakeMoment | None = None) -> tuple[FakeMoment, Gate]:
    now, gate = now or moment(), Gate()
    now.chain = gate
    return now, gate


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nope", {}, -32601),
        ("server/discover", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "notes__add", "arguments": None}, -32602),
        ("tools/call", {"name": "notes__add", "Name": "x"}, -32602),
        ("tools/call", {"name": "notes__add", "_meta": 7}, -32602),
        ("tools/call", {"name": "nope"}, -32602),
        ("prompts/get", {"name": "nope"}, -32602),
        ("resources/read", {"uri": "x://nope"}, -32002),
        ("resources/subscribe", {"uri": "x://nope"}, -32002),
        ("resources/subscribe", {}, -32602),
        ("logging/setLevel", {"level": "loud"}, -32602),
        ("tools/list", {"cursor": "x"}, -32602),
    ],
)
async def test_from_the_method_on_every_error_travels_with_200(method: str, params: dict[str, Any], code: int) -> None:
    async with serving() as site:
        reply = await (await begun(site)).ask(method, params, "7")
        assert (reply.status, reply.code, reply.message["id"]) == (200, code, "7")


async def test_unknown_names_are_audited() -> None:
    async with serving() as site:
        await (await begun(site)).ask("tools/call", {"name": "nope"})
        assert [call.exposed for call in site.services.refused] == ["nope"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("ping", {}),
        ("logging/setLevel", {"level": "info"}),
        ("resources/subscribe", {"uri": "note://one"}),
        ("resources/unsubscribe", {"uri": "note://one"}),
        ("resources/unsubscribe", {"uri": "never://subscribed"}),
    ],
)
async def test_what_the_gateway_serves_itself_is_empty(method: str, params: dict[str, Any]) -> None:
    async with serving() as site:
        assert (await (await begun(site)).ask(method, params)).result == {}


async def test_requests_before_initialized_are_served_and_the_notification_is_accepted() -> None:
    async with serving() as site:
        session = await begun(site)
        assert (await session.ask("tools/list")).result["tools"][0]["name"] == "notes__add"
        reply = await ask(site.port, session.notification("notifications/initialized"))
        assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ({"method": "notifications/unknown"}, 202),
        ({"method": "notifications/cancelled", "params": {"requestId": "unknown"}}, 202),
        ({"method": "notifications/cancelled", "params": {"requestId": {}}}, 202),
        ({"id": 1, "result": {}}, 202),
        ({"id": 1, "error": {"code": 1, "message": "m"}}, 202),
        ({"method": "tools/call", "params": ADD}, 400),
        ({"method": "server/discover"}, 400),
    ],
)
async def test_notifications_and_responses_are_accepted_and_requests_without_id_are_not(
    message: dict[str, Any], status: int
) -> None:
    """G028, G066, S30."""
    now, gate = with_gate()
    async with serving(now) as site:
        session = await begun(site)
        reply = await ask(site.port, post({"jsonrpc": "2.0", **message}, session.head()))
        assert reply.status == status
        assert gate.began.empty()


@pytest.mark.parametrize(
    "message", [{"id": 1, "method": "ping"}, {"method": "notifications/initialized"}, {"id": 1, "result": {}}]
)
async def test_a_session_is_needed_by_everything(message: dict[str, Any]) -> None:
    """G033."""
    body = {"jsonrpc": "2.0", **message}
    async with serving() as site:
        missing = await ask(site.port, post(body))
        assert (missing.status, missing.code) == (400, -32600)
        for identifier in ("nope", "", "x" * 5000):
            unknown = await ask(site.port, post(body, [("Mcp-Session-Id", identifier)]))
            assert (unknown.status, unknown.code) == (404, -32001)
            assert unknown.headers["content-type"] == "application/json"


async def test_a_session_of_somebody_else_is_like_an_unknown_one() -> None:
    """S88, G035: on every method; its owner notices nothing, the audit log does."""
    async with serving(moment(keyed())) as site:
        mine = await begun(site, ALICE)
        foreign = LegacySession(site.port, list(BOB), id=mine.id)
        unknown = LegacySession(site.port, list(BOB), id="x" * 43)
        for theirs_data, nobodys_data in (
            (foreign.request("ping"), unknown.request("ping")),
            (foreign.get(), unknown.get()),
            (foreign.delete(), unknown.delete()),
        ):
            theirs, nobodys = await ask(site.port, theirs_data), await ask(site.port, nobodys_data)
            for reply in (theirs, nobodys):
                reply.headers.pop("date")
            assert theirs == nobodys
            assert theirs.status == 404
        assert (await mine.ask("ping")).status == 200
        assert [event for event, _ in site.services.events].count("security.session_mismatch") == 3


async def test_a_session_belongs_to_its_view() -> None:
    views = {"one": View(include=["notes/add"]), "two": View(include=[])}
    async with serving(moment(keyed(views=views))) as site:
        session = LegacySession(site.port, list(ALICE), path="/mcp/one")
        await session.begin()
        assert [tool["name"] for tool in (await session.ask("tools/list")).result["tools"]] == ["notes__add"]
        for path in ("/mcp/two", "/mcp"):
            session.path = path
            assert (await session.ask("ping")).status == 404


async def test_an_ended_session_is_unknown_and_its_calls_are_over() -> None:
    now, gate = with_gate()
    async with serving(now) as site, connect(site.port) as connection:
        session = await begun(site)
        await connection.send(session.request("tools/call", ADD))
        await soon(gate.began)
        assert (await ask(site.port, session.delete())).status == 204
        await soon(gate.cancelled)
        assert (await connection.reply()).events == []
        assert (await session.ask("ping")).status == 404
        assert (await ask(site.port, session.delete())).status == 404
        assert site.services.ended == [session.id]


async def test_another_legacy_version_in_the_header_is_served() -> None:
    async with serving() as site:
        session = await begun(site)
        session.version = "2025-06-18"
        assert (await session.ask("ping")).status == 200


async def test_the_call_knows_its_session() -> None:
    now, gate = with_gate()
    gate.opened.set()
    async with serving(now) as site:
        session = LegacySession(site.port)
        await session.begin({"sampling": {}})
        await session.ask("logging/setLevel", {"level": "error"})
        await session.ask("tools/call", {**ADD, "_meta": {"progressToken": 3, "own": 1}}, 9)
        call = await soon(gate.began)
        assert (call.caller.era.value, call.caller.version, call.caller.session) == ("legacy", "2025-11-25", session.id)
        assert (call.caller.capabilities, call.caller.info) == ({"sampling": {}}, {"name": "raw"})
        assert (call.rpc_id, call.progress_token, call.log_level, call.meta) == (9, 3, "error", {"own": 1})


async def test_concurrent_calls_of_one_session_get_their_own_ids_back() -> None:
    """G043: 1 and "1" are two calls."""
    ids: list[Any] = [1, "1", 0, "", -5]
    async with serving() as site:
        session = await begun(site)
        replies = await asyncio.gather(
            *(session.ask("tools/call", {**ADD, "arguments": {"n": n}}, identifier) for n, identifier in enumerate(ids))
        )
    for number, (identifier, reply) in enumerate(zip(ids, replies, strict=True)):
        assert reply.message["id"] == identifier
        assert type(reply.message["id"]) is type(identifier)
        assert json.loads(reply.result["content"][0]["text"])["params"]["arguments"] == {"n": number}


async def test_the_second_of_two_equal_ids_is_refused_and_the_first_goes_on() -> None:
    """G046."""
    now, gate = with_gate()
    async with serving(now) as site, connect(site.port) as connection:
        session, other = await begun(site), await begun(site)
        await connection.send(session.request("tools/call", ADD, 7))
        await soon(gate.began)
        for method in ("tools/call", "ping"):
            refused = await session.ask(method, ADD, 7)
            assert (refused.status, refused.code, refused.message["id"]) == (400, -32600, 7)
        assert (await other.ask("ping", {}, 7)).status == 200
        gate.opened.set()
        assert (await connection.reply()).message["id"] == 7
        assert (await session.ask("ping", {}, 7)).status == 200


async def test_two_equal_ids_at_the_same_moment_are_one_call() -> None:
    now, gate = with_gate()
    async with serving(now) as site, connect(site.port) as one, connect(site.port) as two:
        session = await begun(site)
        data = session.request("tools/call", ADD, 7)
        await asyncio.gather(one.send(data), two.send(data))
        await soon(gate.began)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(connection.reply()) for connection in (one, two)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            gate.opened.set()
        assert sorted(task.result().status for task in tasks) == [200, 400]
        assert gate.began.empty()


async def test_a_cancelled_call_reaches_its_server_and_gets_no_answer() -> None:
    """G047: and its place is free again."""
    now, gate = with_gate()
    async with serving(now) as site, connect(site.port) as connection:
        session = await begun(site)
        await connection.send(session.request("tools/call", ADD, 101))
        await soon(gate.began)
        reply = await ask(site.port, session.notification("notifications/cancelled", {"requestId": 101}))
        assert (reply.status, reply.body) == (202, b"")
        assert (await soon(gate.cancelled)).rpc_id == 101
        answer = await connection.reply()
        assert (answer.status, answer.events) == (200, [])
        assert (await session.ask("ping", {}, 101)).status == 200


async def test_an_id_is_free_again_even_when_its_call_was_cancelled_before_it_began() -> None:
    """S95: both arrive in one look at the sockets, so that the call's task is cancelled before its first step."""
    now, gate = with_gate()
    gate.opened.set()
    async with serving(now) as site, connect(site.port) as calls, connect(site.port) as cancels:
        session = await begun(site)
        for _ in range(20):
            cancel = session.notification("notifications/cancelled", {"requestId": 101})
            await asyncio.gather(calls.send(session.request("tools/call", ADD, 101)), cancels.send(cancel))
            assert (await cancels.reply()).status == 202
            assert (await calls.reply()).status == 200
        assert (await session.ask("ping", {}, 101)).status == 200


async def test_a_cancellation_reaches_only_the_own_session() -> None:
    """G049."""
    now, gate = with_gate(moment(keyed()))
    async with serving(now) as site, connect(site.port) as connection:
        mine, theirs = await begun(site, ALICE), await begun(site, BOB)
        await connection.send(mine.request("tools/call", ADD, 101))
        await soon(gate.began)
        await ask(site.port, theirs.notification("notifications/cancelled", {"requestId": 101}))
        await ask(site.port, mine.notification("notifications/cancelled", {"requestId": "101"}))
        gate.opened.set()
        assert (await connection.reply()).status == 200
        assert gate.cancelled.empty()


async def test_hanging_up_cancels_nothing() -> None:
    """S95, G050."""
    now, gate = with_gate()
    finished: asyncio.Queue[Call] = asyncio.Queue()

    async def chain(call: Call, exchange: Exchange) -> Outcome:
        outcome = await gate(call, exchange)
        exchange.notify("notifications/progress", {"progress": rawjson.raw(1)})
        finished.put_nowait(call)
        return outcome

    now.chain = chain
    async with serving(now) as site:
        session = await begun(site)
        async with connect(site.port) as connection:
            await connection.send(session.request("tools/call", {**ADD, "_meta": {"progressToken": 1}}))
            await soon(gate.began)
        assert (await session.ask("ping", {}, 2)).status == 200
        gate.opened.set()
        await soon(finished)
        assert gate.cancelled.empty()


async def chatty(call: Call, exchange: Exchange) -> Outcome:
    exchange.notify("notifications/progress", {"progress": rawjson.raw(1)})
    exchange.notify("notifications/message", {"level": rawjson.raw("error"), "data": rawjson.raw("d")})
    return await echo(call, exchange)


async def test_progress_and_logs_come_before_the_answer_if_they_were_asked_for() -> None:
    now = moment()
    now.chain = chatty
    async with serving(now) as site:
        session = await begun(site)
        plain = await session.ask("tools/call", ADD)
        assert plain.headers["content-type"] == "application/json"
        await session.ask("logging/setLevel", {"level": "debug"})
        streamed = await session.ask("tools/call", {**ADD, "_meta": {"progressToken": "p"}})
        assert [event.get("method") for event in streamed.events] == [
            "notifications/progress",
            "notifications/message",
            None,
        ]
        assert streamed.result == plain.result


async def test_a_long_call_keeps_its_client_from_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """G019: silence becomes a stream of comments."""
    monkeypatch.setattr(streams, "HEARTBEAT", 0.05)
    now = moment()
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as slow:
        session = await begun(site)
        await slow.send(session.request("tools/call", ADD))
        assert (await slow.head())[1]["content-type"] == "text/event-stream"
        chunks = slow.chunks()
        async with asyncio.timeout(5):
            assert [await anext(chunks) for _ in range(2)][1] == b": keep-alive\n\n"
        gate.opened.set()
        assert b'"result"' in [chunk async for chunk in chunks][-1]


async def test_a_refused_tool_call_is_a_readable_result() -> None:
    async def chain(call: Call, exchange: Exchange) -> Outcome:
        return Failure(Reason.RATE_LIMITED, "Too much. It did not run. Wait.", retry_after_ms=9)

    now = moment()
    now.chain = chain
    async with serving(now) as site:
        session = await begun(site)
        reply = await session.ask("tools/call", ADD)
        assert (reply.status, reply.refusal["retryAfterMs"], "resultType" in reply.result) == (200, 9, False)
        other = await session.ask("prompts/get", {"name": "notes__greet"})
        assert (other.status, other.code) == (200, -31001)


BATCH: list[Any] = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ADD},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": {"name": "nope"}},
    {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    {"jsonrpc": "2.0", "method": "tools/call", "params": ADD},
    {"jsonrpc": "2.0", "id": None, "method": "ping"},
    {"jsonrpc": "2.0", "id": 2, "method": "nope"},
]


async def test_an_array_is_answered_with_an_array_each_element_a_call_of_its_own() -> None:
    now, gate = with_gate()
    gate.opened.set()
    async with serving(now) as site:
        session = await begun(site, version="2025-03-26")
        reply = await ask(site.port, post(BATCH, session.head()))
        answers: Any = json.loads(reply.body)
        assert [answer["id"] for answer in answers] == [1, "1", 1, None, None, 2]
        assert "result" in answers[0]
        assert [answer["error"]["code"] for answer in answers[1:]] == [-32602, -32600, -32600, -32600, -32601]
        told = [fields["reason"] for event, fields in site.services.events if event == "security.bad_json"]
        assert told == ["request_without_id"]
        assert gate.began.qsize() == 1
        assert len(site.services.refused) == 1


async def test_an_array_without_requests_has_no_answer() -> None:
    async with serving() as site:
        session = await begun(site, version="2025-03-26")
        reply = await ask(site.port, post([BATCH[1], {"jsonrpc": "2.0", "id": 1, "result": {}}], session.head()))
        assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_an_array_in_another_session_is_refused_whole(version: str) -> None:
    now, gate = with_gate()
    async with serving(now) as site:
        session = await begun(site, version=version)
        for body in (BATCH, [], [BATCH[0]] * 51):
            reply = await ask(site.port, post(b" \n" + json.dumps(body).encode(), session.head()))
            assert (reply.status, reply.code, reply.message["id"]) == (400, -32600, None)
        without = await ask(site.port, post(BATCH))
        assert (without.status, without.code) == (400, -32600)
        assert gate.began.empty()
        assert [event for event, _ in site.services.events] == ["security.bad_json"] * 4


async def test_progress_of_an_array_comes_before_its_answers() -> None:
    now = moment()
    now.chain = chatty
    params = {**ADD, "_meta": {"progressToken": "p"}}
    async with serving(now) as site:
        session = await begun(site, version="2025-03-26")
        body = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}]
        events: list[Any] = (await ask(site.port, post(body, session.head()))).events
        assert events[0]["method"] == "notifications/progress"
        assert [answer["id"] for answer in events[1]] == [1]


async def test_a_session_can_subscribe_to_so_many_resources_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.endpoint.legacy.handler.MAX_URIS", 2)
    async with serving() as site:
        session = await begun(site)
        codes = [(await session.ask("resources/subscribe", {"uri": f"note://{n}"})).message for n in (1, 2, 2, 3)]
        assert ["error" in message for message in codes] == [False, False, False, True]
        await session.ask("resources/unsubscribe", {"uri": "note://1"})
        assert (await session.ask("resources/subscribe", {"uri": "note://3"})).result == {}


async def test_delete_needs_a_session() -> None:
    async with serving() as site:
        assert (await ask(site.port, raw("DELETE /mcp HTTP/1.1", [("Host", "localhost")]))).status == 400
