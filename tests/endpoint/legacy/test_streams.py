"""GET streams: changes on one of them, ended by DELETE, by draining and with the credential (G023, G029).

And streams that broke and are continued (2025-11-25 basic/transports §Resumability and Redelivery).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gateway.config.access import Client, Limits
from gateway.endpoint import stream as streams
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.protocol import rawjson, sse
from tests.kit.clients import Connection, Json, LegacySession, ask, connect, raw
from tests.kit.endpoint import ALICE, BOB, Gate, Site, config, echo, keyed, moment, serving, soon


@asynccontextmanager
async def opened(session: LegacySession) -> AsyncIterator[tuple[Connection, AsyncIterator[Json]]]:
    async with connect(session.port) as connection:
        await connection.send(session.get())
        status, headers = await connection.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        yield connection, connection.messages()


async def begun(site: Site) -> LegacySession:
    session = LegacySession(site.port)
    await session.begin()
    return session


async def test_changes_are_told_on_one_stream_only() -> None:
    async with serving() as site:
        session = await begun(site)
        async with opened(session) as (_, first), opened(session) as (_, second):
            site.services.changed("notes", Kind.TOOL, Kind.PROMPT)
            told = [(await anext(second))["method"] for _ in range(2)]
            assert sorted(told) == ["notifications/prompts/list_changed", "notifications/tools/list_changed"]
            assert (await ask(site.port, session.delete())).status == 204
            assert [message async for message in first] == []
            assert [message async for message in second] == []


async def test_a_change_before_the_stream_is_told_when_it_opens() -> None:
    async with serving() as site:
        session = await begun(site)
        site.services.changed("notes", Kind.RESOURCE)
        async with opened(session) as (_, messages):
            assert await anext(messages) == {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}


async def test_a_subscribed_resource_is_told_of_until_it_is_unsubscribed() -> None:
    async with serving() as site:
        session = await begun(site)
        async with opened(session) as (_, messages):
            await session.ask("resources/subscribe", {"uri": "note://one"})
            await session.ask("resources/subscribe", {"uri": "note://2"})
            await session.ask("resources/unsubscribe", {"uri": "note://one"})
            for uri in ("note://one", "note://3", "note://2"):
                site.services.resource_changed("notes", uri)
            assert await anext(messages) == {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "note://2"},
            }


async def test_draining_ends_streams_and_leaves_the_session() -> None:
    async with serving() as site:
        session = await begun(site)
        async with opened(session) as (_, messages):
            site.endpoint.close_streams()
            assert [message async for message in messages] == []
        assert (await session.ask("ping")).status == 200


async def test_a_client_that_closes_its_stream_keeps_its_session() -> None:
    async with serving() as site:
        session = await begun(site)
        for _ in range(3):
            async with opened(session):
                pass
        assert (await session.ask("ping")).status == 200


@pytest.mark.parametrize("headers", [[], [("Mcp-Session-Id", "nope")]])
async def test_a_stream_needs_a_session(headers: list[tuple[str, str]]) -> None:
    async with serving() as site:
        reply = await ask(site.port, raw("GET /mcp HTTP/1.1", [("Host", "localhost"), *headers]))
        assert reply.status == (404 if headers else 400)


async def test_a_principal_has_only_so_many_streams() -> None:
    async with serving(moment(config(limits=Limits(sessions=1)))) as site:
        session = await begun(site)
        async with AsyncExitStack() as stack:
            for _ in range(17):
                await stack.enter_async_context(opened(session))
            refused = await ask(site.port, session.get())
            assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, -31007, "30")


async def test_a_stream_ends_when_its_credential_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.02)
    async with serving(moment(keyed())) as site:
        session = LegacySession(site.port, list(ALICE))
        await session.begin()
        async with opened(session) as (_, messages):
            site.services.now = moment()
            assert [message async for message in messages] == []


async def test_a_busy_stream_ends_when_its_credential_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.2)
    async with serving(moment(keyed())) as site:
        session = LegacySession(site.port, list(ALICE))
        await session.begin()
        async with opened(session) as (_, messages):
            site.services.now = moment()
            site.services.changed("notes", Kind.TOOL)
            told = 0
            async for _ in messages:
                told += 1
                site.services.changed("notes", Kind.TOOL)
            assert 0 < told < 100


async def test_a_reload_ends_streams_of_a_removed_key_and_sessions_of_a_removed_client() -> None:
    """S34, S183."""
    async with serving(moment(keyed())) as site:
        alice, bob = LegacySession(site.port, list(ALICE)), LegacySession(site.port, list(BOB))
        for session in (alice, bob):
            await session.begin()
            await session.ask("resources/subscribe", {"uri": "note://one"})
        assert site.services.wished == {("notes", "note://one"): 2}
        async with opened(alice) as (_, hers), opened(bob) as (_, his):
            rotated = keyed().clients | {"alice": Client(key_sha256=["0" * 64, *keyed().clients["bob"].key_sha256])}
            del rotated["bob"]
            site.services.reload(moment(config(clients=rotated)))
            assert [message async for message in hers] == []
            assert [message async for message in his] == []
        assert site.services.wished == {("notes", "note://one"): 1}
        alice.headers = list(BOB)
        assert (await alice.ask("ping")).status == 200
        assert (await bob.ask("ping")).status == 404


async def test_subscriptions_are_calls_and_reach_the_owning_server_until_the_session_ends() -> None:
    async with serving() as site:
        gate = site.moment.chain = Seen()
        session = await begun(site)
        for uri in ("note://one", "notes+note://one", "note://one", "note://2"):
            assert (await session.ask("resources/subscribe", {"uri": uri})).result == {}
        assert [(call.method, call.exposed) for call in gate.calls][:2] == [
            ("resources/subscribe", "note://one"),
            ("resources/subscribe", "notes+note://one"),
        ]
        assert {(call.target.server, call.target.name) for call in gate.calls[:2]} == {("notes", "note://one")}
        assert site.services.wished == {("notes", "note://one"): 2, ("notes", "note://2"): 1}
        assert site.services.told == ["notes"] * 4
        await session.ask("resources/unsubscribe", {"uri": "note://one"})
        await session.ask("resources/unsubscribe", {"uri": "note://3"})
        assert site.services.wished == {("notes", "note://one"): 1, ("notes", "note://2"): 1}
        await ask(site.port, session.delete())
        assert site.services.wished == {}


async def test_a_subscription_that_is_denied_or_that_its_server_cannot_take_is_not_held() -> None:
    async with serving() as site:
        session = await begun(site)
        site.services.refuses.add("note://one")
        refused = await session.ask("resources/subscribe", {"uri": "note://one"})
        assert (refused.status, refused.code, refused.message["error"]["data"]["reason"]) == (200, -31007, "overloaded")

        async def denies(call: Call, exchange: Exchange) -> Outcome:
            return Failure(Reason.DENIED, "no")

        site.moment.chain = denies
        denied = await session.ask("resources/subscribe", {"uri": "note://2"})
        assert (denied.status, denied.code, denied.message["error"]["data"]["source"]) == (200, -31008, "gateway")
        assert site.services.wished == {}


class Seen:
    """A chain that keeps what it saw."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def __call__(self, call: Call, exchange: Exchange) -> Outcome:
        self.calls.append(call)
        return Complete({})


ADD: dict[str, Any] = {"name": "notes__add"}


async def events(connection: Connection, most: int = 100) -> list[sse.Event]:
    """Read the events of a response until it ends, or so many."""
    parser, read = sse.Parser(2**26), list[sse.Event]()
    async with asyncio.timeout(5):
        async for chunk in connection.chunks():
            read += parser.feed(chunk)
            if len(read) >= most:
                break
    return read


def resuming(session: LegacySession, event_id: str | None) -> bytes:
    return session.get().replace(b"\r\n\r\n", f"\r\nLast-Event-ID: {event_id}\r\n\r\n".encode())


async def primed(session: LegacySession, connection: Connection, gate: Gate) -> str:
    """Begin a call that takes long, and return the id its stream begins with."""
    await connection.send(session.request("tools/call", {**ADD, "_meta": {"progressToken": "p"}}))
    await soon(gate.began)
    assert (await connection.head())[1]["content-type"] == "text/event-stream"
    (first,) = await events(connection, 1)
    assert (first.data, first.id is not None) == (b"", True)
    return first.id or ""


class Steps(Gate):
    """Reports progress once it may go on, then answers."""

    async def __call__(self, call: Call, exchange: Exchange) -> Outcome:
        await super().__call__(call, exchange)
        for step in (1, 2):
            exchange.notify("notifications/progress", {"progress": rawjson.raw(step)})
        return await echo(call, exchange)


async def test_a_call_that_takes_long_gets_an_id_to_come_back_with_and_a_time_to_wait() -> None:
    async with serving() as site, connect(site.port) as connection:
        gate = site.moment.chain = Gate()
        session = await begun(site)
        await connection.send(session.request("tools/call", ADD))
        await soon(gate.began)
        await connection.head()
        async with asyncio.timeout(5):
            begins = await anext(connection.chunks())
        assert begins == b"event: message\nid: c1.0\nretry: 1000\ndata: \n\n"
        gate.opened.set()
        assert [event.id for event in await events(connection)] == ["c1.1"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26"])
async def test_clients_of_older_versions_see_no_event_without_data(version: str) -> None:
    async with serving() as site, connect(site.port) as connection:
        site.moment.chain = Steps()
        site.moment.chain.opened.set()
        session = LegacySession(site.port, version=version)
        await session.begin()
        await connection.send(session.request("tools/call", {**ADD, "_meta": {"progressToken": "p"}}))
        await connection.head()
        read = await events(connection)
        assert [(event.id, bool(event.data)) for event in read] == [(f"c1.{number}", True) for number in (1, 2, 3)]


async def test_a_call_whose_connection_broke_goes_on_and_its_stream_is_continued() -> None:
    async with serving() as site:
        gate = site.moment.chain = Steps()
        session = await begun(site)
        async with connect(site.port) as broken:
            event_id = await primed(session, broken, gate)
        async with connect(site.port) as connection:
            await connection.send(resuming(session, event_id))
            assert (await connection.head())[0] == 200
            gate.opened.set()
            rest = [rawjson.decode_strict(event.data) for event in await events(connection)]
        assert [isinstance(message, dict) and message.get("method") for message in rest] == [
            "notifications/progress",
            "notifications/progress",
            None,
        ]
        assert gate.cancelled.empty()


async def test_an_answer_nobody_heard_waits_for_its_client_and_can_be_asked_for_again() -> None:
    async with serving() as site:
        gate = site.moment.chain = Steps()
        session = await begun(site)
        async with connect(site.port) as broken:
            event_id = await primed(session, broken, gate)
        gate.opened.set()
        for after, left in ((event_id, 3), ("c1.2", 1), ("c1.3", 0)):
            async with connect(site.port) as connection:
                await connection.send(resuming(session, after))
                await connection.head()
                assert [event.id for event in await events(connection)] == ["c1.1", "c1.2", "c1.3"][3 - left :]
        assert (await session.ask("ping", {}, 1)).status == 200


async def test_a_continued_stream_carries_nothing_of_others() -> None:
    async with serving() as site:
        gate = site.moment.chain = Gate()
        session = await begun(site)
        async with connect(site.port) as broken:
            event_id = await primed(session, broken, gate)
        async with connect(site.port) as connection, opened(session) as (_, messages):
            await connection.send(resuming(session, event_id))
            await connection.head()
            site.services.changed("notes", Kind.TOOL)
            assert (await anext(messages))["method"] == "notifications/tools/list_changed"
            site.endpoint.close_streams()
            gate.opened.set()
            assert [event.id for event in await events(connection)] == ["c1.1"]


async def test_a_get_stream_is_continued_with_what_was_sent_on_it() -> None:
    async with serving() as site:
        session = await begun(site)
        async with connect(site.port) as first:
            await first.send(session.get())
            await first.head()
            site.services.changed("notes", Kind.TOOL, Kind.PROMPT)
            told = await events(first, 3)
        assert [event.data == b"" for event in told] == [True, False, False]
        async with connect(site.port) as second:
            await second.send(resuming(session, told[1].id))
            await second.head()
            assert await events(second, 1) == told[2:]
            site.services.changed("notes", Kind.RESOURCE)
            (new,) = await events(second, 1)
        assert (new.id, b"resources/list_changed" in new.data) == ("g1.3", True)


async def test_another_session_cannot_continue_a_stream() -> None:
    async with serving() as site:
        gate = site.moment.chain = Gate()
        mine, other = await begun(site), await begun(site)
        async with connect(site.port) as broken:
            event_id = await primed(mine, broken, gate)
        refused = await ask(site.port, resuming(other, event_id))
        assert (refused.status, refused.code) == (400, -32600)
        gate.opened.set()


async def test_an_unknown_event_of_no_call_is_a_new_stream() -> None:
    async with serving() as site, connect(site.port) as connection:
        session = await begun(site)
        await connection.send(resuming(session, "g77.5"))
        assert (await connection.head())[0] == 200
        assert [event.id for event in await events(connection, 1)] == ["g1.0"]


async def test_the_end_of_a_session_ends_its_continued_streams() -> None:
    async with serving() as site:
        gate = site.moment.chain = Gate()
        session = await begun(site)
        async with connect(site.port) as broken:
            event_id = await primed(session, broken, gate)
        async with connect(site.port) as connection:
            await connection.send(resuming(session, event_id))
            await connection.head()
            assert (await ask(site.port, session.delete())).status == 204
            assert await events(connection) == []


async def test_a_continued_stream_ends_with_its_credential() -> None:
    """S34."""
    async with serving(moment(keyed())) as site:
        gate = site.moment.chain = Gate()
        session = LegacySession(site.port, list(ALICE))
        await session.begin()
        async with connect(site.port) as broken:
            event_id = await primed(session, broken, gate)
        async with connect(site.port) as connection:
            await connection.send(resuming(session, event_id))
            await connection.head()
            rotated = keyed().clients | {"alice": Client(key_sha256=["0" * 64])}
            site.services.reload(moment(config(clients=rotated)))
            assert await events(connection) == []
