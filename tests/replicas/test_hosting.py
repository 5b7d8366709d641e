"""Calls of other replicas, seen from where they run: nothing begins unasked, nothing runs for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, InputRequired, Outcome
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Members
from gateway.replicas import carrying, hosting
from gateway.replicas.hosting import Hosting
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Letter, Post
from gateway.tasks import TaskSet
from tests.kit.processes import eventually
from tests.kit.replicas import SEALER, Moved, SharedMemory
from tests.kit.transport import call, members

DONE = Complete(members(content=[]))
KINDS = ("taken", "busy", "beat", "note", "end", "stopped")


@dataclass
class Servers:
    """Servers whose calls end when a test says so."""

    outcome: Outcome = DONE
    go: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[Call] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    cancelled: int = 0
    reaches: bool = True
    """Answers reach the call that waits for them."""
    parked: set[str | None] = field(default_factory=set)
    given_up: list[str] = field(default_factory=list)

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        self.calls.append(call)
        self.exchanges.append(exchange)
        if self.reaches:
            self.parked.discard(call.request_state)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.outcome, InputRequired):
            self.parked.add(self.outcome.state)
        return self.outcome

    def waits(self, ticket: str | None) -> bool:
        return ticket in self.parked

    def abandon(self, ticket: str) -> Call | None:
        self.given_up.append(ticket)
        return call() if ticket in self.parked else None


@dataclass
class Scene:
    """A replica that hosts, and another whose letters a test writes itself."""

    servers: Servers
    hosting: Hosting
    here: Post
    there: Post
    moved: Moved
    store: SharedMemory
    letters: asyncio.Queue[Letter]

    async def say(self, kind: str, body: object = None, thread: str = "t") -> None:
        said = carrying.of_call(call(), Exchange()) if kind == "call" and body is None else body
        assert said is None or isinstance(said, dict)
        await self.there.send(self.here.replica, kind, said, thread)

    async def hear(self, *kinds: str) -> Letter:
        async with asyncio.timeout(5):
            while (letter := await self.letters.get()).kind not in kinds:
                continue
        return letter

    async def begin(self) -> None:
        await self.say("call")
        await self.hear("taken")
        await self.say("here")
        await eventually(lambda: self.servers.calls)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    store, tasks = SharedMemory(), TaskSet(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    here, there = (Post(store, SEALER, new_replica_id()) for _ in range(2))
    servers, moved = Servers(), Moved()
    made = Scene(servers, Hosting(servers, here, moved, tasks), here, there, moved, store, asyncio.Queue())
    for kind in KINDS:
        there.on(kind, made.letters.put_nowait)
    for post in (here, there):
        tasks.start(post.run(), "post")
        await post.listening.wait()
    try:
        yield made
    finally:
        await tasks.aclose()
    assert len(made.hosting) == 0


async def outcome(post: Post, letter: Letter) -> Outcome:
    return carrying.read_outcome(await post.read(letter))


async def test_a_call_begins_once_its_replica_says_that_it_waits_and_its_end_is_sent_until_it_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosting, "BEAT", 0.05)
    async with scene() as made:
        await made.say("call")
        await made.hear("taken")
        assert made.servers.calls == []
        await made.say("here")
        await made.hear("beat")
        made.servers.go.set()
        for _ in range(2):
            assert isinstance(await outcome(made.there, await made.hear("end")), Complete)
        await made.say("got")
        await eventually(lambda: len(made.hosting) == 0)


async def test_a_call_that_nobody_confirms_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "ANSWERED_WITHIN", 0.05)
    monkeypatch.setattr(hosting, "BEAT", 0.05)
    async with scene() as made:
        await made.say("call")
        await made.hear("taken")
        await eventually(lambda: len(made.hosting) == 0)
        await made.say("here")
        assert made.servers.calls == []


async def test_a_call_whose_replica_says_stop_ends_and_says_how_far_it_got() -> None:
    async with scene() as made:
        await made.begin()
        made.servers.exchanges[0].mark_dispatched()
        await made.say("stop")
        exchange = Exchange()
        carrying.note_exchange(await made.there.read(await made.hear("stopped")), exchange)
        assert (exchange.dispatched, made.servers.cancelled) == (True, 1)


async def test_a_call_that_is_confirmed_and_stopped_at_once_goes_on_here_as_before() -> None:
    """Both letters come before anything is done about the first: nothing has begun, so the log here has its end."""
    async with scene() as made:
        made.servers.parked.add("first")
        await made.say("call", dict(carrying.of_call(call(request_state="first"), Exchange())))
        await made.hear("taken")
        for kind in ("here", "stop"):
            made.hosting._heard(Letter(kind, made.there.replica, "t"))
        exchange = Exchange()
        carrying.note_exchange(await made.there.read(await made.hear("stopped")), exchange)
        assert (exchange.repeated, exchange.dispatched, made.servers.calls, made.moved.rows) == (True, False, [], [])


@pytest.mark.parametrize("how", ["silent", "gone"])
async def test_a_call_for_which_nobody_is_left_ends(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(hosting, "BEAT", 0.02)
    monkeypatch.setattr(hosting, "SILENCE", 0.1 if how == "silent" else 60.0)
    async with scene() as made:
        await made.begin()
        if how == "gone":
            made.store.deserted.add(f"replica:{made.there.replica}")
        await eventually(lambda: made.servers.cancelled == 1)
        await eventually(lambda: len(made.hosting) == 0)


async def test_an_end_that_is_never_fetched_is_not_sent_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "BEAT", 0.02)
    async with scene() as made:
        await made.begin()
        made.servers.go.set()
        await eventually(lambda: len(made.hosting) == 0)
        ends = sum(letter.kind == "end" for letter in [made.letters.get_nowait() for _ in range(made.letters.qsize())])
        assert ends == hosting.TRIES


async def test_the_log_is_told_where_a_call_goes_on_and_that_it_waits_here_again() -> None:
    async with scene() as made:
        made.servers.outcome = InputRequired(members(one={}), "second", held=True)
        made.servers.parked.add("first")
        await made.say("call", dict(carrying.of_call(call(request_state="first"), Exchange())))
        await made.hear("taken")
        await made.say("here")
        await eventually(lambda: made.servers.calls)
        assert [row[1:] for row in made.moved.rows] == [(made.there.replica, False)]
        made.servers.go.set()
        await made.hear("end")
        await made.say("got")
        assert [row[1:] for row in made.moved.rows] == [(made.there.replica, False), (made.there.replica, True)]


async def test_a_call_that_is_stopped_before_its_answers_reach_it_waits_here_again() -> None:
    async with scene() as made:
        made.servers.reaches = False
        made.servers.parked.add("first")
        await made.say("call", dict(carrying.of_call(call(request_state="first"), Exchange())))
        await made.hear("taken")
        await made.say("here")
        await eventually(lambda: made.servers.calls)
        await made.say("stop")
        exchange = Exchange()
        carrying.note_exchange(await made.there.read(await made.hear("stopped")), exchange)
        assert exchange.repeated
        assert [row[1:] for row in made.moved.rows] == [(made.there.replica, False), (made.there.replica, True)]


async def test_notifications_are_numbered_and_the_oldest_of_too_many_go() -> None:
    async with scene() as made:
        await made.begin()
        for number in range(hosting.MAX_NOTES + 5):
            made.servers.exchanges[0].notify("notifications/progress", members(progress=number))
        made.servers.go.set()
        numbers = []
        while (letter := await made.hear("note", "end")).kind == "note":
            said = await made.there.read(letter)
            numbers.append(
                (rawjson.peek(said["number"]), rawjson.peek(rawjson.decode_members(said["params"])["progress"]))
            )
        assert numbers == [(number + 1, number) for number in range(5, hosting.MAX_NOTES + 5)]
        await made.say("got")


async def test_more_calls_than_can_be_hosted_are_asked_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "MAX_GUESTS", 1)
    async with scene() as made:
        await made.begin()
        await made.say("call", thread="u")
        assert (await made.hear("busy")).thread == "u"
        made.servers.go.set()
        await made.hear("end")
        await made.say("got")


async def test_a_letter_that_comes_twice_begins_nothing_twice() -> None:
    """Whoever can write to the store can repeat what was sealed: it must come to nothing."""
    async with scene() as made:
        await made.begin()
        for topic, message in tuple(made.store.published):
            await made.store.publish(topic, message)
        made.servers.go.set()
        await made.hear("end")
        await made.say("got")
        await eventually(lambda: len(made.hosting) == 0)
        assert len(made.servers.calls) == 1


async def test_the_letters_of_a_call_that_ended_begin_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likewise, for as long as they can be opened."""
    monkeypatch.setattr(hosting, "MAX_OVER", 2)
    async with scene() as made:
        made.servers.go.set()
        for thread in ("r", "s", "t"):
            await made.say("call", thread=thread)
            await made.hear("taken")
            await made.say("here", thread=thread)
            await made.hear("end")
            await made.say("got", thread=thread)
            await eventually(lambda: len(made.hosting) == 0)
        assert len(made.hosting._over) == 2
        made.store.loses = lambda topic, number: topic.endswith(made.there.replica)
        for topic, message in tuple(made.store.published)[-5:]:
            await made.store.publish(topic, message)
        made.store.loses = lambda topic, number: False
        await made.say("call", thread="u")
        assert (await made.hear("taken")).thread == "u"
        await made.say("stop", thread="u")
        await eventually(lambda: len(made.hosting) == 0)
        assert len(made.servers.calls) == 3


async def test_a_call_that_is_stopped_before_it_was_confirmed_leaves_at_once() -> None:
    async with scene() as made:
        await made.say("call")
        await made.hear("taken")
        await made.say("stop")
        await eventually(lambda: len(made.hosting) == 0, 4)
        assert made.servers.calls == []


async def test_letters_of_a_third_replica_are_not_those_of_the_call() -> None:
    async with scene() as made:
        await made.begin()
        third = Post(made.store, SEALER, new_replica_id())
        await third.send(made.here.replica, "stop", thread="t")
        made.servers.parked.add("y")
        for ticket in ("x", "y"):
            await third.send(made.here.replica, "abandon", {"ticket": ticket})
        await eventually(lambda: made.servers.given_up == ["x", "y"])
        assert [row[1:] for row in made.moved.rows] == [(third.replica, False)]
        assert made.servers.cancelled == 0
        made.servers.go.set()
        await made.hear("end")
        await made.say("got")


@pytest.mark.parametrize("body", [{}, {"call": 1, "refusals": {}}])
async def test_what_is_no_call_is_left_alone(body: Members) -> None:
    async with scene() as made:
        await made.say("call", body)
        await eventually(lambda: len(made.hosting) == 0)
        assert made.servers.calls == []
        with pytest.raises(JsonError):
            carrying.read_call({})


async def test_a_gateway_that_ends_waits_for_its_guests_but_not_for_ever() -> None:
    async with scene() as made:
        await made.begin()
        await made.hosting.drain(0.01)
        assert len(made.hosting) == 1
        made.servers.go.set()
        await made.hear("end")
        await made.say("got")
        async with asyncio.timeout(5):
            await made.hosting.drain(60)
