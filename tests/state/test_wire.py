"""One connection for many: answers in order, callers who give up, a peer that takes nothing or goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.state import wire
from gateway.state.wire import MAX_UNSENT, Answer, Asking, Down, Faults, Part, Wire
from gateway.tasks import TaskSet


class Broken(Exception):
    """Any fault of the library."""


class Refused(Broken):
    """The server does not take us."""


class Said(Broken):
    """An error that is an answer."""


FAULTS = Faults(Said, Refused, Broken)


class Peer:
    """The library's connection, with a test at its other end."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.answers: asyncio.Queue[Answer] = asyncio.Queue()
        self.takes = asyncio.Event()
        self.takes.set()
        self.connects: Exception | None = None
        self.hangs = False
        self.closed = False

    async def connect(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.connects is not None:
            raise self.connects

    async def disconnect(self, nowait: bool = False) -> None:
        self.closed = True
        raise Broken("closing fails too")

    def pack_command(self, *args: Part) -> list[bytes]:
        return [str(part).encode() if not isinstance(part, bytes) else part for part in args]

    async def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None:
        assert not check_health
        await self.takes.wait()
        self.sent += command

    async def read_response(self, *, disconnect_on_error: bool) -> Answer:
        assert not disconnect_on_error
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def wired(peer: Peer) -> AsyncIterator[tuple[Wire, Asking, list[str]]]:
    """Connect for a block; yields what was lost too."""
    crashes: list[str] = []
    tasks = TaskSet(lambda name, error: crashes.append(repr(error)))
    asking, lost = Asking(), list[str]()
    made = Wire(peer, FAULTS, asking.heard, lost.append)
    await made.connect(tasks)
    try:
        yield made, asking, lost
    finally:
        await made.aclose()
        await tasks.aclose()
    assert crashes == []
    assert peer.closed


async def test_answers_go_to_those_who_asked_in_the_order_in_which_they_did() -> None:
    peer = Peer()
    async with wired(peer) as (connection, asking, _), asyncio.timeout(5):
        asked = asyncio.gather(
            asking.ask(lambda: connection.send("GET", 0), 5),
            asking.ask(lambda: connection.send("GET", 1), 5),
            asking.ask(lambda: connection.send("GET", 2), 5),
        )
        await asyncio.sleep(0)
        for answer in (b"zero", Said("one"), 2):
            peer.answers.put_nowait(answer)
        zero, one, two = await asked
        assert (zero, str(one), two) == (b"zero", "one", 2)
        assert b"".join(peer.sent) == b"GET0GET1GET2"


async def test_who_gives_up_leaves_an_answer_that_nobody_else_gets() -> None:
    peer = Peer()
    async with wired(peer) as (connection, asking, _), asyncio.timeout(5):
        with pytest.raises(Down, match="timeout") as caught:
            await asking.ask(lambda: connection.send("SLOW"), 0.01)
        assert caught.value.broken
        cancelled = asyncio.gather(asking.ask(lambda: connection.send("LEFT"), 5))
        await asyncio.sleep(0)
        cancelled.cancel()
        third = asyncio.gather(asking.ask(lambda: connection.send("THIRD"), 5))
        await asyncio.sleep(0)
        for answer in (b"late", b"unwanted", b"third"):
            peer.answers.put_nowait(answer)
        assert (await third)[0] == b"third"
        assert len(asking) == 0


async def test_the_time_in_which_this_process_stood_still_does_not_count() -> None:
    """A loop that is busy for longer than an answer may take says nothing about the store."""
    peer = Peer()
    async with wired(peer) as (connection, asking, _), asyncio.timeout(5):
        loop = asyncio.get_running_loop()
        asked = asyncio.gather(asking.ask(lambda: connection.send("GET"), 0.02))
        for _ in range(5):
            await asyncio.sleep(0)
            until = loop.time() + 0.03
            while loop.time() < until:
                pass
        peer.answers.put_nowait(b"there all the time")
        assert (await asked)[0] == b"there all the time"


async def test_a_store_that_never_answers_is_given_up_however_busy_this_process_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "MAX_EXCUSED", 2)
    peer = Peer()
    async with wired(peer) as (connection, asking, _), asyncio.timeout(5):
        loop = asyncio.get_running_loop()
        asked = asyncio.gather(asking.ask(lambda: connection.send("GET"), 0.004))
        while not asked.done():
            until = loop.time() + 0.01
            while loop.time() < until:
                pass
            await asyncio.sleep(0)
        with pytest.raises(Down, match="timeout"):
            await asked


async def test_what_waits_to_be_written_and_answered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer()
    async with wired(peer) as (connection, asking, _), asyncio.timeout(5):
        peer.takes.clear()
        half = bytes(MAX_UNSENT // 2)
        connection.send(half)
        await asyncio.sleep(0)
        connection.send(half)
        with pytest.raises(Down, match="full"):
            connection.send(b"x")
        peer.takes.set()
        while len(peer.sent) < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.send(b"x")
        monkeypatch.setattr(wire, "MAX_ASKED", 0)
        with pytest.raises(Down, match="full"):
            await asking.ask(lambda: connection.send("GET"))


@pytest.mark.parametrize(("fault", "reason"), [(Broken("gone"), "lost"), (OSError(), "lost"), (Refused(), "refused")])
async def test_a_connection_that_ends_is_told_of_once(fault: Exception, reason: str) -> None:
    peer = Peer()
    async with wired(peer) as (connection, asking, lost), asyncio.timeout(5):
        asked = asyncio.gather(asking.ask(lambda: connection.send("GET"), 5))
        await asyncio.sleep(0)
        peer.answers.put_nowait(fault)
        while not lost:
            await asyncio.sleep(0)
        assert (lost, connection.open) == ([reason], False)
        asking.fail(lost[0])
        with pytest.raises(Down, match=reason):
            await asked
        with pytest.raises(Down, match="lost"):
            connection.send("GET")


@pytest.mark.parametrize(
    ("fault", "reason"), [(Broken(), "unreachable"), (OSError(), "unreachable"), (Refused(), "refused")]
)
async def test_what_cannot_be_reached_says_why(fault: Exception, reason: str) -> None:
    peer = Peer()
    peer.connects = fault
    tasks = TaskSet(lambda name, error: None)
    made = Wire(peer, FAULTS, lambda answer: None, lambda why: None)
    with pytest.raises(Down, match=reason):
        await made.connect(tasks)
    await made.aclose()
    assert len(tasks) == 0


async def test_connecting_takes_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CONNECT", 0.01)
    peer = Peer()
    peer.hangs = True
    made = Wire(peer, FAULTS, lambda answer: None, lambda why: None)
    with pytest.raises(Down, match="timeout"):
        await made.connect(TaskSet(lambda name, error: None))
    await made.aclose()


def test_an_answer_and_what_is_done_instead_stay_below_fifty_milliseconds() -> None:
    """S85."""
    assert wire.PATIENCE < 0.05
