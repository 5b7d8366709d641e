"""Connections that belong to somebody: bounded in number, gone when idle (G037, G038); see also test_member."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.downstream.connection import Connection
from gateway.downstream.health import Restarts
from gateway.downstream.setup import Setup
from gateway.downstream.slot import Slot
from gateway.downstream.slots import Slots
from gateway.downstream.turns import Held
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from tests.kit.processes import eventually
from tests.kit.transport import LEGACY, WAIT, Farm, server

NAMES = ["principal:a\nx", "principal:a\nx\n2"]


class Deaf:
    def opened(self, slot: Slot, connection: Connection) -> None: ...

    def refused(self, slot: Slot, error: DownstreamError) -> None: ...

    def ended(self, slot: Slot, reason: str) -> None: ...


class World:
    def __init__(self, tasks: TaskSet, **config: object) -> None:
        self.farm = Farm(LEGACY)
        self.tasks = tasks
        self.server = server(**config)
        self.slots = Slots("a", self.server, tasks)

    def get(self, key: str) -> Slot:
        return self.slots.get(key, lambda: self._make(key))

    async def free(self, seconds: float) -> Slot:
        return await self.slots.free(NAMES, self._make, asyncio.get_running_loop().time() + seconds)

    def _make(self, key: str) -> Slot:
        setup = Setup("a", self.server, self.farm)
        return Slot(key, lambda: Connection(setup), Restarts("a"), self.tasks, Deaf())


def crashed(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@asynccontextmanager
async def world(**config: object) -> AsyncIterator[World]:
    tasks = TaskSet(crashed)
    made = World(tasks, **config)
    try:
        yield made
    finally:
        for slot in made.slots.clear():
            await slot.aclose()
        await tasks.aclose()
    assert list(made.slots) == []
    assert made.farm.live == []


async def test_one_key_is_one_slot() -> None:
    async with world() as one:
        assert one.get("principal:a") is one.get("principal:a")
        assert one.get("principal:a") is not one.get("principal:b")
        assert len(list(one.slots)) == 2


async def test_the_longest_idle_slot_makes_room_and_a_used_one_never() -> None:
    async with world(max_instances=2) as one:
        first, second = one.get("principal:a"), one.get("principal:b")
        with first.use():
            assert one.get("principal:c") in one.slots
            assert second not in one.slots
            with one.get("principal:c").use(), pytest.raises(DownstreamError) as caught:
                one.get("principal:d")
    assert caught.value.reason is Reason.OVERLOADED


async def test_an_idle_slot_ends_and_a_used_one_stays() -> None:
    async with world(idle_stop="50ms") as one:
        used = one.get("principal:a")
        with used.use():
            idle = one.get("principal:b")
            await idle.get()
            await eventually(lambda: idle not in one.slots)
            assert used in one.slots
        await eventually(lambda: not list(one.slots))


async def test_a_session_takes_all_its_slots_along() -> None:
    async with world() as one:
        slots = [one.get(key) for key in ("session:s1", "session:s1\nabc", "session:s2", "principal:s1")]
        one.slots.end_session("s1")
        assert list(one.slots) == slots[2:]


async def test_a_call_goes_to_the_first_slot_on_which_nobody_waits_for_people() -> None:
    async with world() as one:
        first = await one.free(WAIT)
        with first.use():
            assert await one.free(WAIT) is first
            first.turns.hold()
            second = await one.free(WAIT)
            assert [each.key for each in one.slots] == NAMES
            first.turns.go_on()
            assert await one.free(WAIT) is first
            assert second in one.slots


async def test_where_all_wait_for_people_a_call_waits_for_the_first_that_does_not() -> None:
    async with world(max_instances=2) as one:
        slots = [await one.free(WAIT)]
        slots[0].turns.hold()
        slots.append(await one.free(WAIT))
        slots[1].turns.hold()
        waiting = asyncio.get_running_loop().create_task(one.free(WAIT))
        await asyncio.sleep(0)
        assert not waiting.done()
        slots[1].turns.go_on()
        assert await waiting is slots[1]


async def test_a_wait_for_people_of_others_has_an_end() -> None:
    async with world(max_instances=1) as one:
        with (await one.free(WAIT)).use():
            one.get(NAMES[0]).turns.hold()
            with pytest.raises(Held) as caught:
                await one.free(0.01)
    assert "answer that one first" in caught.value.message


async def test_an_idle_slot_makes_room_for_a_call_that_waits() -> None:
    async with world(max_instances=2) as one:
        first, other = await one.free(WAIT), one.get("principal:b")
        with first.use():
            first.turns.hold()
            with other.use():
                waiting = asyncio.get_running_loop().create_task(one.free(WAIT))
                await asyncio.sleep(0)
                assert not waiting.done()
            assert (await waiting).key == NAMES[1]
            assert other not in one.slots


async def test_at_the_end_nobody_waits_and_nothing_is_made() -> None:
    async with world(max_instances=1) as one:
        first = await one.free(WAIT)
        with first.use():
            first.turns.hold()
            waiting = asyncio.get_running_loop().create_task(one.free(WAIT))
            await asyncio.sleep(0)
            assert one.slots.clear() == [first]
            with pytest.raises(DownstreamError) as caught:
                await waiting
        await first.aclose()
    assert caught.value.reason is Reason.UNAVAILABLE
