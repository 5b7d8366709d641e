"""One place for a connection: opened once for all, replaced when it ends (G011, G122, S115)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.downstream.connection import Connection
from gateway.downstream.dialect import Hello
from gateway.downstream.health import Restarts
from gateway.downstream.oauth.errors import ConsentNeeded
from gateway.downstream.setup import Setup
from gateway.downstream.slot import LONGER_WAIT, SHORTEST_WAIT, Slot
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from tests.kit.transport import MODERN, WAIT, Farm, Script, Sent, bare, but, discover, server


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watch:
    """Writes down how a slot fares."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.moved = asyncio.Event()

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.moved.set()

    def opened(self, slot: Slot, connection: Connection) -> None:
        self._note("opened")

    def refused(self, slot: Slot, error: DownstreamError) -> None:
        self._note("refused")

    def ended(self, slot: Slot, reason: str) -> None:
        self._note(f"ended: {reason}")

    async def saw(self, count: int) -> None:
        async with asyncio.timeout(WAIT):
            while len(self.events) < count:
                self.moved.clear()
                await self.moved.wait()


@asynccontextmanager
async def slot(farm: Farm, clock: Clock | None = None) -> AsyncIterator[tuple[Slot, Watch, Restarts]]:
    crashes: list[BaseException] = []
    tasks = TaskSet(lambda name, error: crashes.append(error))
    watch, starts = Watch(), Restarts("a", clock or Clock())
    made = Slot(None, lambda: Connection(Setup("a", server(protocol="modern"), farm)), starts, tasks, watch)
    try:
        yield made, watch, starts
    finally:
        await made.aclose()
        await tasks.aclose()
    assert crashes == []
    assert farm.live == []


async def test_fifty_who_wait_share_one_start() -> None:
    farm, go = Farm({"server/discover": lambda sent: gated(sent)}), asyncio.Event()

    async def gated(sent: Sent) -> Reply:
        await go.wait()
        return discover(sent)

    async with slot(farm) as (one, watch, _):
        waiting = [asyncio.get_running_loop().create_task(one.get()) for _ in range(50)]
        go.set()
        assert len(set(await asyncio.gather(*waiting))) == 1
        assert watch.events == ["opened"]
    assert len(farm.made) == 1


async def test_fifty_who_wait_share_one_failure_and_nobody_tries_again_at_once() -> None:
    farm = Farm({"server/discover": lambda sent: bare(503)}, http=True)
    async with slot(farm) as (one, watch, starts):
        outcomes = await asyncio.gather(*(one.get() for _ in range(50)), return_exceptions=True)
        assert all(isinstance(outcome, DownstreamError) and outcome.retry_after_ms for outcome in outcomes)
        for _ in range(10):
            with pytest.raises(DownstreamError, match="HTTP status 503; next try"):
                await one.get()
        assert watch.events == ["refused"]
        assert one.wait() == starts.wait() > 0
    assert len(farm.made) == 1


async def test_after_the_wait_one_more_start_is_tried() -> None:
    clock = Clock()
    farm = Farm({"server/discover": lambda sent: bare(503)}, MODERN, http=True)
    async with slot(farm, clock) as (one, watch, starts):
        with pytest.raises(DownstreamError):
            await one.get()
        clock.now += 1
        assert (await one.get()).is_up
        assert watch.events == ["refused", "opened"]
        assert starts.failures == 0
        assert one.wait() == SHORTEST_WAIT


async def test_while_a_failed_start_is_tried_again_nobody_else_waits_for_it() -> None:
    clock = Clock()
    farm = Farm({"server/discover": lambda sent: bare(503)}, {"server/discover": forever}, http=True)
    async with slot(farm, clock) as (one, _, _starts):
        with pytest.raises(DownstreamError):
            await one.get()
        clock.now += 1
        trying = asyncio.get_running_loop().create_task(one.get())
        while len(farm.made) < 2:
            await asyncio.sleep(0)
        assert one.is_opening
        assert one.wait() == LONGER_WAIT
        with pytest.raises(DownstreamError, match="HTTP status 503; next try in 1 s") as caught:
            await asyncio.wait_for(one.get(), WAIT)
        assert caught.value.retry_after_ms == 1000
        await one.aclose()
        with pytest.raises(DownstreamError):
            await trying


async def test_one_who_gives_up_does_not_stop_the_start_for_others() -> None:
    go = asyncio.Event()

    async def gated(sent: Sent) -> Reply:
        await go.wait()
        return discover(sent)

    async with slot(Farm({"server/discover": gated})) as (one, _, _starts):
        first, second = (asyncio.get_running_loop().create_task(one.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        go.set()
        assert (await second).is_up


async def test_what_ends_by_itself_is_replaced_at_once_but_not_again_and_again() -> None:
    clock, farm = Clock(), Farm(MODERN)
    async with slot(farm, clock) as (one, watch, _):
        for turn in (1, 2):
            assert (await one.get()).is_up
            farm.made[-1].end("exited with code 3")
            await watch.saw(2 * turn)
            assert one.connection is None
        with pytest.raises(DownstreamError, match="exited with code 3; next try") as caught:
            await one.get()
        assert caught.value.reason is Reason.UNAVAILABLE
        clock.now += 1
        assert (await one.get()).is_up
        assert watch.events == ["opened", "ended: exited with code 3"] * 2 + ["opened"]


async def test_a_closed_slot_opens_nothing() -> None:
    farm = Farm(MODERN)
    async with slot(farm) as (one, watch, _):
        await one.get()
        await one.aclose()
        with pytest.raises(DownstreamError, match="just been closed"):
            await one.get()
        # An end that was wanted is no crash.
        assert watch.events == ["opened"]


async def test_closing_stops_a_start_and_those_who_wait_learn_of_it() -> None:
    hanging: Script = but(MODERN, {"server/discover": forever})
    farm = Farm(hanging)
    async with slot(farm) as (one, watch, starts):
        waiting = asyncio.get_running_loop().create_task(one.get())
        await asyncio.sleep(0)
        while not farm.made:
            await asyncio.sleep(0)
        await farm.made[0].reached("server/discover")
        await one.aclose()
        with pytest.raises(DownstreamError, match="just been closed"):
            await waiting
        assert watch.events == []
        assert starts.failures == 0


async def forever(sent: Sent) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


async def test_use_is_counted_and_dated() -> None:
    async with slot(Farm(MODERN)) as (one, _, _starts):
        before = one.last_used
        with one.use():
            assert one.in_flight == 1
        assert one.in_flight == 0
        assert one.last_used >= before


async def test_a_missing_token_is_no_failed_start_and_is_told_as_it_is() -> None:
    watch = Watch()
    crashes: list[BaseException] = []
    tasks = TaskSet(lambda name, error: crashes.append(error))
    slot = Slot("principal:key:alice", Refusing, Restarts("a"), tasks, watch)
    for _ in range(2):
        with pytest.raises(ConsentNeeded):
            await slot.get()
    assert watch.events == ["refused", "refused"]
    assert (slot.wait(), crashes) == (SHORTEST_WAIT, [])
    await slot.aclose()


class Refusing(Connection):
    """A connection to a server that wants a token."""

    def __init__(self) -> None:
        super().__init__(Setup("a", server(), Farm({})))

    async def open(self) -> Hello:
        await self.aclose()
        raise ConsentNeeded("sign in", "ticket")


async def test_a_task_keeps_its_slot_for_as_long_as_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.downstream.slot.MAX_HELD", 2)
    async with slot(Farm(MODERN)) as (one, _, _starts):
        found = [one.busy]
        one.hold("a", 60.0)
        found.append(one.busy)
        one.let_go("a")
        one.let_go("never")
        found.append(one.busy)
        one.hold("b", 0.0)
        found.append(one.busy)
        assert found == [False, True, False, False]
        for name in ("c", "d", "e"):
            one.hold(name, None)
        one.let_go("d")
        one.let_go("e")
        assert not one.busy
