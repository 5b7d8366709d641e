"""Limits are charged all or nothing, and what was held is freed however the call ends."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import Reason
from gateway.model.call import Call, TaskRef
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.interceptor import Passage
from gateway.pipeline.limit import Limit
from gateway.policy.decision import Decision
from gateway.policy.limits import AppliedLimit, InFlight, Limiter
from gateway.state.gcra import Allowance
from gateway.state.memory import MemoryStore
from gateway.telemetry.metrics import Metrics
from tests.kit.calls import OK, Next, call, passage


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def decided(*limits: AppliedLimit) -> Passage:
    return passage(decision=Decision(True, "p", "r", "allow_rule", limits=limits))


def step(clock: Clock | None = None, most: int = 10) -> Limit:
    return Limit(Limiter(MemoryStore(), clock or Clock()), InFlight(most), Metrics())


RATE = AppliedLimit("p", 0, "2/minute", allowance=Allowance(2, 60.0, 2))
ONE = AppliedLimit("p", 1, "1 at once", concurrency=1)


async def test_a_refused_call_succeeds_after_exactly_the_time_it_was_told() -> None:
    """S81, S82, G102."""
    clock = Clock()
    limit = step(clock)
    for _ in range(2):
        assert await limit(call(), decided(RATE), Next()) is OK
    refused = await limit(call(), decided(RATE), Next())
    assert isinstance(refused, Failure)
    assert (refused.reason, refused.may_have_run) == (Reason.RATE_LIMITED, False)
    assert refused.retry_after_ms is not None
    assert "2/minute" in refused.text
    clock.now += refused.retry_after_ms / 1000 - 0.002
    assert isinstance(await limit(call(), decided(RATE), Next()), Failure)
    clock.now += 0.002
    assert await limit(call(), decided(RATE), Next()) is OK


async def test_a_call_is_charged_once_through_all_of_its_rounds_and_a_repeat_is_charged_again() -> None:
    """S82: what a client must not do with a state is call as often as it likes."""
    limit, asks = step(), InputRequired({}, "s")
    assert await limit(call(), decided(RATE), Next(asks)) is asks
    assert await limit(call(round=2), decided(RATE), Next(asks)) is asks
    assert await limit(call(round=3), decided(RATE), Next()) is OK
    assert await limit(call(round=3), decided(RATE), Next()) is OK
    assert isinstance(await limit(call(round=3), decided(RATE), Next()), Failure)


async def test_a_round_takes_a_place_among_the_calls_at_once() -> None:
    limit, asks = step(), InputRequired({}, "s")
    assert await limit(call(), decided(ONE), Next(asks)) is asks

    async def meanwhile(call: Call, passage: Passage) -> Outcome:
        return await limit(call, decided(ONE), Next())

    assert isinstance(await limit(call(round=2), decided(ONE), meanwhile), Failure)


async def test_a_call_at_once_too_many_is_refused_and_the_place_is_freed_afterwards() -> None:
    limit, entered, leave = step(), asyncio.Event(), asyncio.Event()

    async def slow(call: Call, passage: Passage) -> Outcome:
        entered.set()
        await leave.wait()
        return OK

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        first = group.create_task(limit(call(), decided(ONE), slow))
        await entered.wait()
        refused = await limit(call(), decided(ONE), Next())
        assert isinstance(refused, Failure)
        assert (refused.reason, refused.retry_after_ms) == (Reason.RATE_LIMITED, None)
        leave.set()
        assert await first is OK
    assert await limit(call(), decided(ONE), Next()) is OK


async def test_a_cancelled_or_failing_call_frees_its_place() -> None:
    limit = step(most=1)
    for error in (asyncio.CancelledError(), RuntimeError("bug")):
        with pytest.raises(type(error)):
            await limit(call(), decided(ONE), Next(error))
    assert await limit(call(), decided(ONE), Next()) is OK


async def test_a_principal_has_a_cap_of_calls_in_flight() -> None:
    """S86: refused at once, nothing waits."""
    in_flight = InFlight(1)
    assert in_flight.acquire("key:bot")
    limit = Limit(Limiter(MemoryStore(), Clock()), in_flight, Metrics())
    refused = await limit(call(), decided(), Next())
    assert isinstance(refused, Failure)
    assert refused.reason is Reason.OVERLOADED
    in_flight.release("key:bot")
    assert await limit(call(), decided(), Next()) is OK
    assert in_flight.count("key:bot") == 0


async def test_what_is_asked_about_a_task_is_not_charged() -> None:
    """It belongs to the call that became the task; only the cap of calls in flight holds for it."""
    limit, about = step(), call(method="tasks/get", task=TaskRef("own", "sealed"))
    for _ in range(5):
        assert await limit(about, decided(RATE, ONE), Next()) is OK
    refused = await step(most=0)(about, decided(RATE), Next())
    assert isinstance(refused, Failure)
    assert refused.reason is Reason.OVERLOADED
