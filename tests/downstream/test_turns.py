"""Turns on a connection that cannot tell calls apart; see test_parking for what they are for (S96)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.downstream.turns import Held, Turns
from gateway.errors import DownstreamError, Reason


class World:
    """Calls that take turns, and the order in which they had them."""

    def __init__(self) -> None:
        self.freed = 0
        self.turns = Turns("a", self._free)
        self.order: list[int] = []

    def _free(self) -> None:
        self.freed += 1

    async def call(self, number: int, release: asyncio.Event, timeout: float = 5.0) -> None:
        async with self.turns.take(timeout):
            self.order.append(number)
            await release.wait()

    async def queue(self, count: int, release: asyncio.Event) -> list[asyncio.Task[None]]:
        """Start so many calls: the first has its turn, the others wait."""
        tasks = [asyncio.get_running_loop().create_task(self.call(number, release)) for number in range(count)]
        await asyncio.sleep(0)
        assert (self.order, len(self.turns)) == ([0], count - 1)
        return tasks


async def test_turns_come_in_order_one_at_a_time() -> None:
    world, release = World(), asyncio.Event()
    tasks = await world.queue(4, release)
    release.set()
    await asyncio.gather(*tasks)
    assert world.order == [0, 1, 2, 3]
    assert (len(world.turns), world.freed) == (0, 0)


async def test_who_queues_behind_a_wait_for_people_leaves_and_who_comes_then_does_not_queue() -> None:
    world, release = World(), asyncio.Event()
    first, *others = await world.queue(3, release)
    world.turns.hold()
    world.turns.hold()
    ends = await asyncio.gather(*others, return_exceptions=True)
    assert [type(end) for end in ends] == [Held, Held]
    with pytest.raises(Held) as caught:
        await world.call(3, release)
    assert (caught.value.reason, caught.value.may_have_run) == (Reason.OVERLOADED, False)
    assert (world.turns.is_held, world.freed) == (True, 0)
    world.turns.go_on()
    assert (world.turns.is_held, world.freed) == (False, 1)
    last = asyncio.get_running_loop().create_task(world.call(4, release))
    release.set()
    await asyncio.gather(first, last)
    assert world.order == [0, 4]


async def test_a_turn_that_ends_while_people_are_waited_for_frees_the_connection() -> None:
    world, release = World(), asyncio.Event()
    [task] = await world.queue(1, release)
    world.turns.hold()
    task.cancel()
    await asyncio.wait([task])
    assert (world.turns.is_held, world.freed) == (False, 1)
    release.set()
    await world.call(1, release)


async def test_a_wait_has_an_end() -> None:
    world, release = World(), asyncio.Event()
    [task] = await world.queue(1, release)
    with pytest.raises(DownstreamError) as caught:
        await world.call(1, release, timeout=0.01)
    assert not isinstance(caught.value, Held)
    assert (caught.value.reason, len(world.turns)) == (Reason.OVERLOADED, 0)
    release.set()
    await task


async def test_one_who_is_cancelled_just_as_the_turn_comes_passes_it_on() -> None:
    world, release = World(), asyncio.Event()
    release.set()
    async with world.turns.take(5):
        first, second = (asyncio.get_running_loop().create_task(world.call(number, release)) for number in range(2))
        await asyncio.sleep(0)
        assert len(world.turns) == 2
    # The turn has been given to the first of them, which has not woken up yet.
    first.cancel()
    await second
    assert first.cancelled()
    assert world.order == [1]


async def test_one_who_is_cancelled_while_waiting_leaves_the_queue() -> None:
    world, release = World(), asyncio.Event()
    first, second, third = await world.queue(3, release)
    second.cancel()
    await asyncio.wait([second])
    assert len(world.turns) == 1
    release.set()
    await asyncio.gather(first, third)
    assert world.order == [0, 2]
