"""Keeping a connection up (G118, S115): again after an end, later after a failure, at once when wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.downstream.connection import Connection
from gateway.downstream.health import Restarts
from gateway.downstream.keeping import Keeping
from gateway.downstream.oauth.errors import ConsentNeeded
from gateway.downstream.setup import Setup
from gateway.downstream.slot import Slot
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from tests.kit.transport import MODERN, WAIT, Farm, Script, bare, server

DOWN: Script = {"server/discover": lambda sent: bare(503)}


class Clock:
    """Stands still: what has to wait waits for ever."""

    def __call__(self) -> float:
        return 1000.0


class Watch:
    """Writes down how a slot fares."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._moved = asyncio.Event()

    def _note(self, event: str) -> None:
        self.events.append(event)
        self._moved.set()

    def opened(self, slot: Slot, connection: Connection) -> None:
        self._note("opened")

    def refused(self, slot: Slot, error: DownstreamError) -> None:
        self._note("refused")

    def ended(self, slot: Slot, reason: str) -> None:
        self._note("ended")

    async def saw(self, *events: str) -> None:
        async with asyncio.timeout(WAIT):
            while tuple(self.events) != events:
                self._moved.clear()
                await self._moved.wait()


@asynccontextmanager
async def kept(farm: Farm) -> AsyncIterator[tuple[Keeping, Watch]]:
    crashes: list[BaseException] = []
    tasks = TaskSet(lambda name, error: crashes.append(error))
    watch = Watch()
    setup = Setup("a", server(protocol="modern"), farm)
    slot = Slot(None, lambda: Connection(setup), Restarts("a", Clock()), tasks, watch)
    keeping = Keeping(slot)
    tasks.start(keeping.run(), "keep a")
    try:
        yield keeping, watch
    finally:
        await slot.aclose()
        await tasks.aclose()
    assert crashes == []
    assert farm.live == []


async def turns(count: int = 20) -> None:
    """Let everything go on that waits for nothing."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_connection_that_ended_is_opened_again() -> None:
    farm = Farm(MODERN)
    async with kept(farm) as (_, watch):
        await watch.saw("opened")
        farm.made[0].end()
        await watch.saw("opened", "ended", "opened")
    assert len(farm.made) == 2


async def test_a_failed_start_is_not_repeated_before_its_time_but_at_once_when_wanted() -> None:
    farm = Farm(DOWN, MODERN, http=True)
    async with kept(farm) as (keeping, watch):
        await watch.saw("refused")
        await turns()
        assert len(farm.made) == 1
        keeping.retry()
        await watch.saw("refused", "opened")
    assert len(farm.made) == 2


async def test_a_connection_that_is_up_is_left_alone() -> None:
    farm = Farm(MODERN)
    async with kept(farm) as (keeping, watch):
        await watch.saw("opened")
        keeping.retry()
        await turns()
        assert watch.events == ["opened"]


class Refusing(Slot):
    """A place that may be tried again at once, and never works."""

    def __init__(self, error: DownstreamError) -> None:
        tasks = TaskSet(lambda name, error: None)
        super().__init__(None, lambda: Connection(Setup("a", server(), Farm(DOWN))), Restarts("a"), tasks, Watch())
        self.tries = 0
        self._refusal = error

    async def get(self) -> Connection:
        self.tries += 1
        raise self._refusal

    def wait(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("error", "patient"),
    [(ConsentNeeded("somebody has to consent", "t"), True), (DownstreamError(Reason.UNAVAILABLE, "down"), False)],
)
async def test_a_server_that_needs_a_person_is_waited_for_however_soon_it_could_be_tried(
    error: DownstreamError, patient: bool
) -> None:
    slot = Refusing(error)
    keeping = Keeping(slot)
    running = asyncio.get_running_loop().create_task(keeping.run())
    await turns()
    assert (slot.tries == 1) is patient
    before = slot.tries
    keeping.retry()
    await turns()
    assert slot.tries > before
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
