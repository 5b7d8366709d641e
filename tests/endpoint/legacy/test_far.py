"""Answers and cancellations of a session that arrive at another replica than the one they are about (S88, S96)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.endpoint.legacy.asks import Asks, replica_of
from gateway.endpoint.legacy.far import Far
from gateway.endpoint.legacy.session import Session, key_of
from gateway.endpoint.running import Ticket
from gateway.errors import Reason
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import Id, Response
from gateway.replicas import post as posts
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Post
from gateway.tasks import TaskSet
from tests.kit.processes import eventually
from tests.kit.replicas import SEALER, SharedMemory

ALICE, BOB = Principal("key:alice", "key", "alice"), Principal("key:bob", "key", "bob")
YES: rawjson.Object = {"action": "accept"}


@dataclass
class Side:
    """One replica: its post, and the sessions it knows."""

    post: Post
    tasks: TaskSet
    sessions: dict[str, Session] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.far = Far(self.post, self.sessions.get, self.tasks)

    def open(self, identifier: str = "s", principal: Principal = ALICE) -> Session:
        session = Session(identifier, principal, None, "2025-11-25", {}, {}, 0.0, asks=Asks(self.post.name))
        self.sessions[identifier] = session
        return session

    def run(self, session: Session, identifier: Id) -> Ticket:
        """Have a call run in a session."""
        ticket = Ticket(self.tasks.start(asyncio.sleep(60), "call"))
        session.calls[key_of(identifier)] = ticket
        return ticket


@asynccontextmanager
async def sides(count: int = 2) -> AsyncIterator[list[Side]]:
    store = SharedMemory()
    tasks = TaskSet(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    made = [Side(Post(store, SEALER, new_replica_id()), tasks) for _ in range(count)]
    for side in made:
        tasks.start(side.post.run(), "post")
        await side.post.listening.wait()
    try:
        yield made
    finally:
        await tasks.aclose()


@asynccontextmanager
async def asked(session: Session) -> AsyncIterator[tuple[Id, Callable[[], Response | None]]]:
    """Ask the client of a session; yields the question's id, and what was answered so far."""
    sent: list[bytes] = []
    answers: list[Response | None] = []

    async def ask() -> None:
        answers.append(await session.asks.put(sent.append, "elicitation/create", None))

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(ask())
        await eventually(lambda: sent)
        message = rawjson.decode_value(sent[0])
        assert isinstance(message, dict)
        identifier = message["id"]
        assert isinstance(identifier, str)
        yield identifier, lambda: answers[0] if answers else None
        asking.cancel()


async def test_a_question_names_the_replica_that_asks_and_its_answer_finds_it_from_any_other() -> None:
    async with sides(3) as [one, two, _], asked(one.open()) as (identifier, answer):
        assert replica_of(identifier) == one.post.replica
        session = two.open()
        response = Response(identifier, YES, None)
        assert not session.asks.answer(response)
        await two.far.answer(session, response)
        await eventually(lambda: answer() == response)


async def test_an_error_of_the_client_is_passed_on_too_and_a_long_answer_whole() -> None:
    async with sides() as [one, two]:
        async with asked(one.open()) as (identifier, answer):
            response = Response(identifier, None, {"code": -1, "message": "no"})
            await two.far.answer(two.open(), response)
            await eventually(lambda: answer() == response)
        async with asked(one.open()) as (identifier, answer):
            response = Response(identifier, {"text": "x" * 300_000}, None)
            await two.far.answer(two.open(), response)
            await eventually(lambda: answer() == response)


async def test_an_answer_counts_only_in_the_session_that_was_asked_and_for_its_principal() -> None:
    async with sides() as [one, two], asked(one.open()) as (identifier, answer):
        await two.far.answer(two.open("other"), Response(identifier, YES, None))
        await two.far.answer(two.open("s", BOB), Response(identifier, YES, None))
        await two.far.answer(two.open("s"), Response(identifier, {"action": "decline"}, None))
        await eventually(answer)
        given = answer()
        assert given is not None
        assert given.result == {"action": "decline"}


@pytest.mark.parametrize("identifier", [7, "ask-1", "other", "ask-0123456789ab", "ask-*-1"])
async def test_an_answer_to_what_no_replica_asked_goes_nowhere(identifier: Id) -> None:
    async with sides() as [one, two]:
        one.open()
        await two.far.answer(two.open(), Response(identifier, YES, None))
        own = Response(f"ask-{two.post.replica}-1", YES, None)
        await two.far.answer(two.open(), own)
        store = two.post._store
        assert isinstance(store, SharedMemory)
        assert store.published == []


async def test_an_answer_for_a_replica_that_is_not_there_leaves_nothing_in_the_store() -> None:
    async with sides(1) as [side]:
        response = Response(f"ask-{new_replica_id()}-1", {"text": "x" * (4 * 2**20)}, None)
        store = side.post._store
        assert isinstance(store, SharedMemory)
        await side.far.answer(side.open(), response)
        assert store._entries == {}


async def test_a_cancellation_stops_the_call_wherever_it_runs_and_no_other() -> None:
    async with sides(3) as [one, two, three]:
        ticket, other = one.run(one.open(), 1), one.run(one.open("t"), 1)
        text = three.run(three.open(), "1")
        await two.far.cancel(two.open(), 1)
        await eventually(lambda: ticket.reason is Reason.CANCELLED)
        assert (other.reason, text.reason) == (None, None)
        for nothing in (None, True, 1.5, "x" * (posts.MAX_SHORT + 1)):
            await two.far.cancel(two.open(), nothing)


async def test_a_replica_that_is_alone_passes_nothing_on() -> None:
    tasks = TaskSet(lambda name, error: None)
    store = SharedMemory()
    side = Side(Post(store, SEALER, new_replica_id(), alone=True), tasks)
    session = side.open()
    await side.far.cancel(session, 1)
    await side.far.answer(session, Response(f"ask-{new_replica_id()}-1", YES, None))
    assert store.published == []
    async with asked(session) as (identifier, _):
        assert identifier == "ask-1"
