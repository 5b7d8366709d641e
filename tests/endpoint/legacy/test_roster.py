"""Sessions as all replicas know them: found, changed and ended everywhere, and written when the store comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.endpoint.legacy import facts, roster
from gateway.endpoint.legacy.facts import Facts
from gateway.endpoint.legacy.roster import REFRESH, Roster
from gateway.endpoint.legacy.session import Session, key_of, new_session_id
from gateway.endpoint.running import Ticket
from gateway.model.principal import Principal
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Post
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.tasks import TaskSet

SEALER = Sealer([b"k" * 32])
ALICE = Principal("key:alice", "key", "alice")


class Shared(MemoryStore):
    """What replicas share, as slow as one that is elsewhere; ``back`` tells that it is there again.

    While it is not ``up`` everything is lost, and while it is ``deaf`` what is said to all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listeners: list[Callable[[], None]] = []
        self.reads = 0
        self.up = True
        self.deaf = False

    @property
    def reaches_others(self) -> bool:
        return self.up

    def returned(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def back(self) -> None:
        self.up = True
        for listener in reversed(self.listeners):
            listener()

    async def get(self, key: str) -> bytes | None:
        self.reads += key.startswith("session:")
        await asyncio.sleep(0)
        return await super().get(key) if self.up else None

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        await asyncio.sleep(0)
        if self.up:
            await super().put(key, value, ttl)

    async def claim(self, key: str, value: bytes, ttl: float) -> bytes | None:
        await asyncio.sleep(0)
        if not self.up:
            return None
        held = await MemoryStore.get(self, key)
        if held is None:
            await MemoryStore.put(self, key, value, ttl)
        return held

    async def delete(self, key: str) -> None:
        await asyncio.sleep(0)
        if self.up:
            await super().delete(key)

    async def publish(self, topic: str, message: bytes) -> int:
        if self.deaf and topic == "replicas":
            return 1
        return await super().publish(topic, message) if self.up else 0


@dataclass
class Replica:
    """One replica's sessions, and its view of those of others."""

    store: Store
    post: Post
    sealer: Sealer = SEALER
    now: float = 0.0
    sessions: dict[str, Session] = field(default_factory=dict)
    roster: Roster = field(init=False)

    def all(self) -> list[Session]:
        return list(self.sessions.values())

    def known(self, identifier: str) -> Session | None:
        return self.sessions.get(identifier)

    def ended_elsewhere(self, session: Session) -> None:
        del self.sessions[session.id]
        session.ended = True

    def changed_elsewhere(self, session: Session, said: Facts) -> None:
        session.revision, session.log_level = said.revision, said.log_level
        session.uris = {form: claim for form, claim in session.uris.items() if form in said.uris}
        session.elsewhere = {form: claim for form, claim in said.uris.items() if form not in session.uris}

    def open(self, identifier: str = "") -> Session:
        """Add a session."""
        session = Session(identifier or new_session_id(), ALICE, None, "2025-11-25", {}, {}, 0.0)
        self.sessions[session.id] = session
        return session


@asynccontextmanager
async def replicas(store: Store, count: int = 2, *, alone: bool = False) -> AsyncIterator[list[Replica]]:
    """Run replicas for a block."""
    crashes: list[str] = []
    tasks = TaskSet(lambda name, error: crashes.append(f"{name}: {error!r}"))
    made = [Replica(store, Post(store, SEALER, new_replica_id(), alone=alone)) for _ in range(count)]
    for each in made:
        each.roster = Roster(each, each, tasks, lambda each=each: each.now)  # type: ignore[misc]  # reason: the loop's.
        tasks.start(each.post.run(), "post")
        if not alone:
            await each.post.listening.wait()
    yield made
    await tasks.aclose()
    assert crashes == []


async def soon(done: Callable[[], object]) -> None:
    """Wait for something in bounded time."""
    async with asyncio.timeout(5):
        while not done():
            await asyncio.sleep(0)


async def test_what_one_keeps_the_others_find() -> None:
    async with replicas(Shared()) as (one, other):
        session = one.open()
        await one.roster.keep(session)
        found = await other.roster.find(session.id)
        assert found is not None
        assert (found.principal, found.version, found.revision) == ("key:alice", "2025-11-25", 0)
        assert await other.roster.find(new_session_id()) is None
        assert one.roster.tag != other.roster.tag


async def test_alone_nothing_is_written_or_read() -> None:
    store = Shared()
    async with replicas(store, 1, alone=True) as (one,):
        session = one.open()
        await one.roster.keep(session)
        await one.roster.changed(session)
        one.now = REFRESH
        one.roster.used(session)
        await one.roster.end(session)
        assert await one.roster.find(session.id) is None
        assert (store.reads, store.listeners, session.revision, one.roster.tag) == (0, [], 0, "")
        assert await store.get(facts.key_of(session.id)) is None


async def test_a_change_is_taken_by_those_who_know_the_session() -> None:
    async with replicas(Shared(), 3) as (one, other, third):
        session = one.open()
        same = other.open(session.id)
        session.log_level = "error"
        await one.roster.changed(session)
        await soon(lambda: same.rereading is not None)
        assert same.rereading is not None
        await same.rereading
        assert (same.log_level, same.revision) == ("error", 1)
        assert third.sessions == {}


async def test_its_end_is_its_end_everywhere() -> None:
    store = Shared()
    async with replicas(store) as (one, other):
        session = one.open()
        await one.roster.keep(session)
        other.open(session.id)
        stale = await store.get(facts.key_of(session.id))
        assert stale is not None
        await one.roster.end(session)
        await soon(lambda: not other.sessions)
        mark = await store.get(facts.key_of(session.id))
        assert mark is not None
        assert facts.tells_end(SEALER, session.id, mark)
        # One that is being taken over just then does not come back.
        await store.put(facts.key_of(session.id), stale, 60.0)
        assert await other.roster.find(session.id) is None


async def test_what_is_remembered_of_ended_ones_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "MAX_ENDED", 3)
    async with replicas(Shared()) as (one, other):
        for _ in range(5):
            await one.roster.end(one.open())
        last = one.open()
        other.open(last.id)
        await one.roster.end(last)
        await soon(lambda: not other.sessions)
        assert len(other.roster._gone) == 3


def subscribe(session: Session, *names: str) -> None:
    session.uris |= {name: ("one", name) for name in names}


async def shared_uris(replica: Replica, session: Session) -> set[str]:
    """Return what a session is subscribed to for who does not know it yet."""
    found = await replica.roster.find(session.id)
    return set(found.uris) if found is not None else set()


async def test_of_changes_at_several_replicas_at_once_none_is_lost() -> None:
    async with replicas(store := Shared(), 3) as made:
        sessions = [made[0].open()]
        sessions += [each.open(sessions[0].id) for each in made[1:]]
        await made[0].roster.keep(sessions[0])
        for number, session in enumerate(sessions):
            subscribe(session, f"note://{number}")
        sessions[1].log_level = "debug"
        await asyncio.gather(*(each.roster.changed(session) for each, session in zip(made, sessions, strict=True)))
        everything = {f"note://{number}" for number in range(3)}
        assert await shared_uris(made[0], sessions[0]) == everything
        await soon(lambda: all(session.own().uris.keys() == everything for session in sessions))
        assert {(session.log_level, session.revision) for session in sessions} == {("debug", 3)}
        # And one that is given up is given up everywhere.
        sessions[2].elsewhere.pop("note://0")
        await made[2].roster.changed(sessions[2])
        await soon(lambda: all(session.own().uris.keys() == everything - {"note://0"} for session in sessions))
        assert await store.claim(facts.turn_of(sessions[0].id), b"free", 1.0) is None


async def test_a_turn_that_is_never_over_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "PATIENCE", 0.05)
    async with replicas(store := Shared(), 1) as (one,):
        session = one.open()
        await store.claim(facts.turn_of(session.id), b"another", 60.0)
        subscribe(session, "note://1")
        async with asyncio.timeout(5):
            await one.roster.changed(session)
        assert await shared_uris(one, session) == {"note://1"}
        # It is still the other's.
        assert await store.get(facts.turn_of(session.id)) == b"another"


async def test_a_note_of_use_never_puts_older_facts_over_newer_ones_nor_drops_newer_ones_for_older() -> None:
    async with replicas(store := Shared()) as (one, other):
        session = one.open()
        same = other.open(session.id)
        old = facts.seal(SEALER, session.id, session.facts(), 60.0)
        store.deaf = True
        subscribe(session, "note://1")
        session.log_level = "debug"
        await one.roster.changed(session)
        other.now = REFRESH
        await other.roster.hold([same])
        assert await shared_uris(one, session) == {"note://1"}
        assert (same.revision, set(same.elsewhere)) == (1, {"note://1"})
        # As of a store that came back with what it had saved.
        await store.put(facts.key_of(session.id), old, 60.0)
        other.now += REFRESH
        await other.roster.hold([same])
        assert await shared_uris(one, session) == {"note://1"}
        assert (same.log_level, same.revision) == ("debug", 1)


async def test_what_changed_at_several_replicas_while_the_store_was_away_is_put_together() -> None:
    async with replicas(store := Shared()) as (one, other):
        session = one.open()
        same = other.open(session.id)
        await one.roster.keep(session)
        store.up = False
        for replica, each, name in ((one, session, "note://1"), (other, same, "note://2")):
            subscribe(each, name)
            await replica.roster.changed(each)
        store.back()
        await soon(lambda: len(session.own().uris) == len(same.own().uris) == 2)
        assert await shared_uris(one, session) == {"note://1", "note://2"}


@pytest.mark.parametrize("deaf", [False, True])
async def test_one_that_ended_while_the_store_was_away_does_not_come_back_with_it(deaf: bool) -> None:
    """Those who know it write it anew then; who does not hear of its end finds it where they would write."""
    async with replicas(store := Shared()) as (one, other):
        session = one.open()
        same = other.open(session.id)
        await one.roster.keep(session)
        store.up = False
        one.ended_elsewhere(session)
        await one.roster.end(session)
        store.deaf = deaf
        store.back()
        # Not here either, whoever wrote it anew first.
        assert await one.roster.find(session.id) is None
        await soon(lambda: not one.roster._untold)
        if deaf:
            assert one.roster._anew is not None
            await one.roster._anew
            other.now = REFRESH
            await other.roster.hold([same])
        await soon(lambda: not other.sessions)
        await soon(lambda: not any(key.startswith("session-turn:") for key in store._entries))
        for each in (one, other):
            assert await each.roster.find(session.id) is None


async def test_what_ended_untold_is_bounded_and_told_later_without_an_outage_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roster, "MAX_ENDED", 3)
    async with replicas(store := Shared()) as (one, other):
        store.up = False
        for _ in range(5):
            await one.roster.end(one.open())
        assert len(one.roster._untold) == 3
        await one.roster.hold([])
        assert len(one.roster._untold) == 3
        store.up = True
        await one.roster.hold([])
        assert len(one.roster._untold) == 0
        await soon(lambda: len(other.roster._gone) == 3)


async def test_of_changes_that_took_no_turn_none_is_lost_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "PATIENCE", 0.0)
    async with replicas(store := Shared()) as (one, other):
        session = one.open()
        same = other.open(session.id)
        await store.claim(facts.turn_of(session.id), b"another", 60.0)
        subscribe(session, "note://1")
        subscribe(same, "note://2")
        await asyncio.gather(one.roster.changed(session), other.roster.changed(same))
        await soon(lambda: len(session.own().uris) == len(same.own().uris) == 2)
        assert await shared_uris(one, session) == {"note://1", "note://2"}


async def test_one_that_is_crowded_out_ends_where_it_is_idle_and_stays_where_it_is_busy() -> None:
    async with replicas(Shared(), 3) as (one, idle, busy):
        session = one.open()
        await one.roster.keep(session)
        idle.open(session.id)
        kept = busy.open(session.id)
        kept.calls[key_of(1)] = Ticket()
        one.ended_elsewhere(session)
        await one.roster.crowded_out(session)
        await soon(lambda: not idle.sessions)
        async with asyncio.timeout(5):
            while await one.roster.find(session.id) is None:
                await asyncio.sleep(0)
        assert list(busy.sessions) == [session.id]
        assert not kept.ended
        assert await idle.roster.find(session.id) is not None


async def test_use_is_noted_at_most_once_a_minute_and_brings_what_was_missed() -> None:
    """A change whose letter was lost is found at the next note."""
    store = Shared()
    async with replicas(store) as (one, other):
        session = one.open()
        await one.roster.keep(session)
        same = other.open(session.id)
        session.log_level, session.revision = "debug", 4
        await one.roster.keep(session)
        for _ in range(10):
            other.roster.used(same)
        assert store.reads == 0
        other.now = REFRESH
        for _ in range(10):
            other.roster.used(same)
        await soon(lambda: same.revision == 4)
        assert (same.log_level, store.reads) == ("debug", 1)


async def test_what_only_listens_is_held_too() -> None:
    """A stream without requests keeps a session alive here, so that others must go on finding it."""
    store = Shared()
    async with replicas(store) as (one, other):
        sessions = [one.open() for _ in range(3)]
        one.now = REFRESH - 1
        await one.roster.hold(sessions)
        assert await other.roster.find(sessions[0].id) is None
        one.now = REFRESH
        await one.roster.hold(sessions)
        assert all([await other.roster.find(session.id) is not None for session in sessions])


async def test_a_note_does_not_bring_back_what_ended_under_way() -> None:
    store = Shared()
    async with replicas(store, 1) as (one,):
        session = one.open()
        session.ended = True
        await one.roster.keep(session)
        assert await one.roster.find(session.id) is None


async def test_one_whose_end_a_replica_missed_is_not_brought_back_by_it() -> None:
    """Its connection to the store was away for a moment, and it writes anew what it knows when it is back."""
    async with replicas(store := Shared(), 3) as (one, deaf, other):
        session = one.open()
        await one.roster.keep(session)
        same = deaf.open(session.id)
        store.deaf = True
        one.ended_elsewhere(session)
        await one.roster.end(session)
        store.deaf = False
        store.back()
        await soon(lambda: same.ended)
        for each in (one, deaf, other):
            assert await each.roster.find(session.id) is None


async def test_a_store_that_comes_back_empty_is_told_of_every_session() -> None:
    store = Shared()
    async with replicas(store, 1) as (one,):
        sessions = [one.open() for _ in range(3)]
        for listener in store.listeners * 2:
            listener()
        async with asyncio.timeout(5):
            while not all([await store.get(facts.key_of(each.id)) for each in sessions]):
                await asyncio.sleep(0)


async def test_letters_that_say_nothing_are_nobodys() -> None:
    async with replicas(Shared()) as (one, other):
        session = other.open()
        for kind in ("session.ended", "session.changed"):
            for body in ({}, {"id": 1}, {"id": session.id, "revision": "x"}, {"id": "unknown", "revision": 9}):
                if kind == "session.changed" or body.get("id") != session.id:
                    await one.post.broadcast(kind, body)
        await one.post.broadcast("session.changed", {"id": session.id, "revision": 1})
        await soon(lambda: session.rereading is not None)
        assert not session.ended
