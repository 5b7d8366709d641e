"""The handshake over HTTP: version agreed on, session opened, the cap kept (2025-11-25 basic/lifecycle)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.config.access import Limits
from gateway.config.root import View
from gateway.endpoint.legacy import handshake
from gateway.endpoint.legacy.facts import key_of
from gateway.endpoint.legacy.handshake import Handshake
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Post
from gateway.tasks import TaskSet
from tests.kit.clients import LegacySession, Reply, ask, connect, post
from tests.kit.endpoint import (
    ALICE,
    BOB,
    SEALER,
    FakeMoment,
    FakeServices,
    Gate,
    Site,
    config,
    keyed,
    moment,
    serving,
    soon,
)
from tests.kit.replicas import SharedMemory


def hello(params: Any, **members: object) -> bytes:
    return post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params, **members})


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
async def test_the_version_asked_for_is_taken_or_the_latest_offered(asked: str, agreed: str) -> None:
    async with serving() as site:
        reply = await ask(site.port, hello({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x"}}))
        assert reply.status == 200
        assert reply.result["protocolVersion"] == agreed
        assert reply.result["serverInfo"]["name"] == "aiohttp-mcp-gateway"
        assert reply.headers["mcp-session-id"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": 7},
        {"protocolVersion": "2025-11-25", "capabilities": []},
        {"protocolVersion": "2025-11-25", "clientInfo": "x"},
        {"protocolVersion": "2025-11-25", "ProtocolVersion": "x"},
        {"protocolVersion": "2025-11-25", "clientInfo": {"name": "x" * handshake.MAX_DECLARED}},
    ],
)
async def test_params_of_the_wrong_shape_open_no_session(params: object) -> None:
    async with serving() as site:
        reply = await ask(site.port, hello(params))
        assert (reply.status, reply.code) == (200, -32602)
        assert "mcp-session-id" not in reply.headers


async def test_a_handshake_opens_a_new_session_each_time() -> None:
    async with serving() as site:
        ids = set()
        for _ in range(3):
            session = LegacySession(site.port)
            await session.begin()
            ids.add(session.id)
        assert len(ids) == 3


async def test_the_longest_idle_session_goes_when_there_are_too_many() -> None:
    """S90."""
    async with serving(moment(keyed(limits=Limits(sessions=2)))) as site:
        sessions = [LegacySession(site.port, list(ALICE)) for _ in range(3)]
        other = LegacySession(site.port, list(BOB))
        for session in (other, *sessions):
            assert (await session.begin()).status == 200
        statuses = [(await session.ask("ping")).status for session in (other, *sessions)]
        assert statuses == [200, 404, 200, 200]
        assert site.services.ended == [sessions[0].id]


async def test_without_an_idle_session_the_handshake_is_503() -> None:
    now = moment(config(limits=Limits(sessions=1)))
    now.chain = gate = Gate()
    async with serving(now) as site, connect(site.port) as connection:
        session = LegacySession(site.port)
        await session.begin()
        await connection.send(session.request("tools/call", {"name": "notes__add"}))
        await soon(gate.began)
        refused = await LegacySession(site.port).begin()
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, -31007, "30")
        gate.opened.set()
        assert (await connection.reply()).status == 200


async def test_forgotten_sessions_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "SWEEP", 0.01)
    monkeypatch.setattr("gateway.endpoint.legacy.session.IDLE", 0.0)
    async with serving() as site:
        session = LegacySession(site.port)
        await session.begin()
        for _ in range(500):
            if site.services.ended:
                break
            await ask(site.port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert site.services.ended == [session.id]
        assert (await session.ask("ping")).status == 404


@asynccontextmanager
async def replicas(*moments: FakeMoment) -> AsyncIterator[tuple[Site, ...]]:
    """Serve endpoints that share a store and write to each other, for a block."""
    store, crashes = SharedMemory(), list[str]()
    tasks = TaskSet(lambda name, error: crashes.append(f"{name}: {error!r}"))
    first, second = [FakeServices(now, store=store, post=Post(store, SEALER, new_replica_id())) for now in moments]
    async with serving(services=first) as one, serving(services=second) as other:
        for services in (first, second):
            tasks.start(services.post.run(), "post")
            await services.post.listening.wait()
        yield one, other
        await tasks.aclose()
    assert crashes == []


def at(site: Site, session: LegacySession) -> LegacySession:
    """Return a session as it is used at another replica."""
    return LegacySession(site.port, session.headers, session.version, session.path, session.id)


def sessions(site: Site) -> int:
    """Return how many sessions a replica knows."""
    return len(_handshake(site).sessions)


def _handshake(site: Site) -> Handshake:
    return site.endpoint._legacy.handshake


async def until(done: Callable[[], bool]) -> None:
    """Wait for something in bounded time."""
    async with asyncio.timeout(5):
        while not done():
            await asyncio.sleep(0.001)


async def test_a_session_is_taken_over_once_however_many_requests_bring_it() -> None:
    """Concurrent first requests race for it."""
    async with replicas(moment(keyed()), moment(keyed())) as (one, other):
        session = LegacySession(one.port, list(ALICE))
        await session.begin({"roots": {}})
        there = at(other, session)
        replies = await asyncio.gather(*(there.ask("ping", None, number) for number in range(10)))
        assert {reply.status for reply in replies} == {200}
        assert (sessions(one), sessions(other)) == (1, 1)
        adopted = _handshake(other).known(session.id)
        assert adopted is not None
        assert (adopted.capabilities, adopted.info) == ({"roots": {}}, {"name": "raw"})


async def test_an_array_of_an_old_session_is_taken_at_another_replica_too() -> None:
    async with replicas(moment(), moment()) as (one, other):
        session = LegacySession(one.port, version="2025-03-26")
        await session.begin()
        there = at(other, session)
        body = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(2)]
        reply = await ask(other.port, post(body, there.head()))
        assert (reply.status, reply.body.count(b"result")) == (200, 2)


async def test_nobody_else_and_no_other_view_can_have_a_session_taken_over() -> None:
    """S88: the answer is that for an unknown session, to the byte; audited once each time."""
    view = {"views": {"v": View(include=["notes/add"])}}
    async with replicas(moment(keyed(**view)), moment(keyed(**view))) as (one, other):
        session = LegacySession(one.port, list(ALICE))
        await session.begin()
        unknown = await LegacySession(other.port, list(ALICE), id="x" * 43).ask("ping")
        foreign = at(other, session)
        foreign.headers = list(BOB)
        elsewhere = at(other, session)
        elsewhere.path = "/mcp/v"

        def same(reply: Reply) -> bool:
            return (reply.status, reply.body) == (404, unknown.body)

        assert same(await foreign.ask("ping"))
        assert (await ask(other.port, foreign.delete())).status == 404
        assert same(await elsewhere.ask("ping"))
        assert [event for event, _ in other.services.events] == ["security.session_mismatch"] * 2
        assert sessions(other) == 0
        assert (await at(other, session).ask("ping")).status == 200
        # Known there by now, it is still nobody else's.
        assert same(await foreign.ask("ping"))
        assert len(other.services.events) == 3


async def test_what_is_no_session_id_is_not_looked_for() -> None:
    async with replicas(moment(), moment()) as (one, _):
        for identifier in ("", "x", "x" * 44, "../" + "x" * 40):
            reply = await LegacySession(one.port, id=identifier).ask("ping")
            assert reply.status == 404


async def test_a_session_that_makes_room_for_one_taken_over_is_only_forgotten_there() -> None:
    """S90: the cap counts what a replica knows; what is opened beyond it ends the longest idle one everywhere."""
    limited = {"limits": Limits(sessions=2)}
    async with replicas(moment(config(**limited)), moment(config(**limited))) as (one, other):
        here = [LegacySession(one.port) for _ in range(2)]
        for session in here:
            await session.begin()
        own = [LegacySession(other.port) for _ in range(2)]
        for session in own:
            await session.begin()
        assert (await at(other, here[0]).ask("ping")).status == 200
        assert other.services.ended == [own[0].id]
        # It is taken over again where it was opened.
        assert (await own[0].ask("ping")).status == 200
        assert (await here[0].ask("ping")).status == 200
        # That left here[1] the longest idle at the first replica.
        await LegacySession(one.port).begin()
        await until(lambda: here[1].id in one.services.ended)
        assert (await at(other, here[1]).ask("ping")).status == 404


async def test_a_session_that_is_crowded_out_where_it_is_idle_goes_on_where_it_is_busy() -> None:
    limited = {"limits": Limits(sessions=1)}
    busy = moment(config(**limited))
    busy.chain = gate = Gate()
    async with replicas(moment(config(**limited)), busy) as (one, other), connect(other.port) as connection:
        session = LegacySession(one.port)
        await session.begin()
        there = at(other, session)
        await connection.send(there.request("tools/call", {"name": "notes__add"}))
        await soon(gate.began)
        await LegacySession(one.port).begin()
        assert one.services.ended == [session.id]
        async with asyncio.timeout(5):
            while await one.services.store.get(key_of(session.id)) is None:
                await asyncio.sleep(0.001)
        gate.opened.set()
        reply = await connection.reply()
        assert (reply.status, b"result" in reply.body) == (200, True)
        assert other.services.ended == []
        # It is known everywhere again.
        assert (await session.ask("ping")).status == 200


async def test_without_an_idle_session_to_make_room_a_takeover_is_503() -> None:
    limited = {"limits": Limits(sessions=1)}
    busy = moment(config(**limited))
    busy.chain = gate = Gate()
    async with replicas(moment(config(**limited)), busy) as (one, other), connect(other.port) as connection:
        session = LegacySession(one.port)
        await session.begin()
        own = LegacySession(other.port)
        await own.begin()
        await connection.send(own.request("tools/call", {"name": "notes__add"}))
        await soon(gate.began)
        assert (await at(other, session).ask("ping")).status == 503
        gate.opened.set()
        assert (await connection.reply()).status == 200


async def test_subscriptions_follow_the_stream() -> None:
    """A server tells a replica of a resource only where there is somebody to tell it to."""
    async with replicas(moment(), moment()) as (one, other):
        session = LegacySession(one.port)
        await session.begin()
        there = at(other, session)
        assert (await session.ask("resources/subscribe", {"uri": "note://one"})).result == {}
        assert (await there.ask("ping")).status == 200
        assert other.services.wished["notes", "note://one"] == 0
        async with connect(other.port) as connection:
            await connection.send(there.get())
            assert (await connection.head())[0] == 200
            await until(lambda: other.services.wished["notes", "note://one"] == 1)
            other.services.resource_changed("notes", "note://one")
            heard = connection.messages()
            assert (await anext(heard))["params"]["uri"] == "note://one"
            # Taken back where it was not made, and made again where it was.
            assert (await there.ask("resources/unsubscribe", {"uri": "note://one"})).result == {}
            await until(lambda: one.services.wished["notes", "note://one"] == 0)
            assert other.services.wished["notes", "note://one"] == 0
            other.services.refuses.add("note://7")
            for uri in ("note://7", "note://8"):
                assert (await session.ask("resources/subscribe", {"uri": uri})).result == {}
            await until(lambda: other.services.wished["notes", "note://8"] == 1)
            other.services.resource_changed("notes", "note://7")
            other.services.resource_changed("notes", "note://8")
            assert (await anext(heard))["params"]["uri"] == "note://8"


async def test_one_that_was_idle_here_but_not_elsewhere_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicas(moment(), moment()) as (one, other):
        session = LegacySession(one.port)
        await session.begin()
        assert (await at(other, session).ask("ping")).status == 200
        known = _handshake(one).known(session.id)
        assert known is not None
        known.used -= 10_000
        assert (await session.ask("ping")).status == 200
        assert _handshake(one).known(session.id) is not known


async def test_a_session_with_nothing_but_a_stream_is_held_for_other_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "SWEEP", 0.01)
    monkeypatch.setattr("gateway.endpoint.legacy.roster.REFRESH", 0.0)
    async with replicas(moment(), moment()) as (one, other), connect(one.port) as connection:
        session = LegacySession(one.port)
        await session.begin()
        await connection.send(session.get())
        assert (await connection.head())[0] == 200
        # As if its time were up there.
        await one.services.store.delete(key_of(session.id))
        async with asyncio.timeout(5):
            while await one.services.store.get(key_of(session.id)) is None:
                await asyncio.sleep(0.001)
        assert (await at(other, session).ask("ping")).status == 200
