"""Places and the queue of one server (S86, G119)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.downstream.gate import Gate
from gateway.errors import DownstreamError, Reason


async def test_beyond_places_and_queue_the_answer_is_no_at_once() -> None:
    gate, go = Gate("a", 2, 1), asyncio.Event()
    inside = 0

    async def work() -> None:
        nonlocal inside
        async with gate.place(5):
            inside += 1
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
        await asyncio.sleep(0)
        assert (inside, gate.waiting) == (2, 1)
        with pytest.raises(DownstreamError, match='server "a" is at its limit') as caught:
            async with gate.place(5):
                pass
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.OVERLOADED, False)
        go.set()
    assert (inside, gate.waiting) == (3, 0)


async def test_places_come_back_however_a_call_ends() -> None:
    gate = Gate("a", 1, 0)
    with pytest.raises(ValueError, match="x"):
        async with gate.place(5):
            raise ValueError("x")
    async with gate.place(5):
        with pytest.raises(DownstreamError):
            async with gate.place(5):
                pass
    async with gate.place(5):
        pass


async def test_waiting_has_an_end_and_leaves_no_trace() -> None:
    gate = Gate("a", 1, 5)
    async with gate.place(5):
        with pytest.raises(DownstreamError) as caught:
            async with gate.place(0.02):
                pass
        assert caught.value.reason is Reason.OVERLOADED
        assert gate.waiting == 0
        waiter = asyncio.get_running_loop().create_task(asyncio.wait_for(_enter(gate), 5))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert gate.waiting == 0
    await _enter(gate)


async def _enter(gate: Gate) -> None:
    async with gate.place(5):
        pass
