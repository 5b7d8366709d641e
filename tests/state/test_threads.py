"""Threads of their own for what may hang: nothing else waits for them, and not too much waits in front of them."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from gateway.state.documents import Unreachable
from gateway.state.threads import Threads


async def test_work_that_hangs_takes_no_thread_from_others() -> None:
    hangs, own = threading.Event(), Threads("own", most=2)
    waiting = [own.begin(hangs.wait, 10) for _ in range(40)]
    async with asyncio.timeout(5):
        assert await asyncio.to_thread(lambda: 1) == 1
        assert await Threads("other").run(lambda: 2) == 2
        hangs.set()
        assert await asyncio.gather(*waiting) == [True] * 40


async def test_more_than_so_much_is_refused_until_there_is_room() -> None:
    hangs, own = threading.Event(), Threads("own", most=1, work=2)
    waiting = [own.begin(hangs.wait, 10) for _ in range(2)]
    with pytest.raises(Unreachable, match="too much"):
        await own.run(lambda: 1)
    hangs.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
        assert await own.run(lambda: 1) == 1


async def test_work_that_nobody_waits_for_any_more_gives_its_place_back() -> None:
    hangs, own = threading.Event(), Threads("own", most=1, work=2)
    runs, waits = (own.begin(hangs.wait, 10) for _ in range(2))
    for each in (waits, runs):
        each.cancel()
    await asyncio.gather(runs, waits, return_exceptions=True)
    hangs.set()
    async with asyncio.timeout(5):
        assert await own.run(lambda: 1) == 1


async def test_it_runs_as_who_asked_and_raises_what_it_raises() -> None:
    said: contextvars.ContextVar[str] = contextvars.ContextVar("said")
    said.set("here")
    own = Threads("own")
    assert await own.run(said.get) == "here"
    assert await own.run(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        await own.run(lambda: 1 // 0)


async def test_after_its_end_it_begins_nothing() -> None:
    own = Threads("own")
    assert await own.run(lambda: 1) == 1
    own.close()
    with pytest.raises(Unreachable, match="closed"):
        await own.run(lambda: 1)
