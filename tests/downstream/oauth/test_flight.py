from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.downstream.oauth.flight import CONSENT_PAUSE, LONGEST_PAUSE, Flight
from gateway.tasks import TaskSet


class Work:
    """Counts its runs; ends when told, with an error where there is one."""

    def __init__(self, error: NoToken | None = None) -> None:
        self.runs = 0
        self.error = error
        self.go = asyncio.Event()

    async def __call__(self) -> None:
        self.runs += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error


def no_crash(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


def flight(clock: Callable[[], float] = lambda: 0.0) -> Flight:
    return Flight("token a", TaskSet(no_crash), clock)


async def test_everybody_who_waits_shares_one_request() -> None:
    """G099: parallel refreshes."""
    one, work = flight(), Work()
    asyncio.get_running_loop().call_soon(work.go.set)
    await asyncio.gather(*(one.run(work) for _ in range(20)))
    assert work.runs == 1


async def test_a_waiter_that_leaves_does_not_end_the_request() -> None:
    one, work = flight(), Work()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await one.run(work)
    work.go.set()
    await one.run(work)
    assert work.runs == 1


async def test_a_failure_is_shared_and_holds_for_a_while() -> None:
    now = [0.0]
    one, work = flight(lambda: now[0]), Work(NoToken("no"))
    work.go.set()
    for _ in range(3):
        with pytest.raises(NoToken):
            await one.run(work)
    assert work.runs == 1
    now[0] += LONGEST_PAUSE
    with pytest.raises(NoToken):
        await one.run(work)
    assert work.runs == 2


async def test_something_else_is_not_held_up_by_a_failure() -> None:
    one, failing, other = flight(), Work(NoToken("no")), Work()
    failing.go.set()
    other.go.set()
    with pytest.raises(NoToken):
        await one.run(failing, about="refresh")
    await one.run(other, about="more scopes")
    assert other.runs == 1


async def test_a_consent_that_came_ends_the_pause_at_once() -> None:
    one, work = flight(), Work(ConsentNeeded("sign in", "t"))
    work.go.set()
    with pytest.raises(ConsentNeeded):
        await one.run(work)
    one.reset()
    work.error = None
    await one.run(work)
    assert work.runs == 2
    assert CONSENT_PAUSE < LONGEST_PAUSE
