"""Limits are charged together or not at all, keyed by principal, and tell an exact wait (S79 to S86, G101, G102)."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.types import Rate
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.policy.limits import (
    PASS_SECONDS,
    Admission,
    AppliedLimit,
    InFlight,
    Level,
    Limiter,
    LimitFacts,
    Refused,
    RequestBudget,
)
from gateway.state.gcra import Allowance
from gateway.state.memory import MemoryStore
from gateway.state.store import Charge, ChargeResult

ALICE = Principal("key:alice", "key", "alice", groups=frozenset({"analysts", "berlin"}))
BOB = Principal("key:bob", "key", "bob", groups=frozenset({"analysts"}))
NOBODY = Principal("key:nobody", "key", "nobody")
QUERY = Target(Kind.TOOL, "warehouse", "query")
OTHER = Target(Kind.TOOL, "warehouse", "other")
WIKI = Target(Kind.TOOL, "wiki", "search")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rate(
    count: int, seconds: float, *per: Level, burst: int | None = None, index: int = 0, groups: Sequence[str] = ()
) -> AppliedLimit:
    allowance = Allowance(count, seconds, burst or count)
    text = f"{count}/{seconds}"
    return AppliedLimit("p", index, text, per or ("principal",), allowance, groups=frozenset(groups))


def at_once(count: int, *per: Level, index: int = 9) -> AppliedLimit:
    return AppliedLimit("p", index, f"{count} at once", per or ("principal",), concurrency=count)


def setup() -> tuple[Clock, Limiter]:
    clock = Clock()
    return clock, Limiter(MemoryStore(clock), clock)


async def passes(limiter: Limiter, limit: AppliedLimit, principal: Principal, target: Target = QUERY) -> bool:
    admission = await limiter.admit([limit], LimitFacts(principal, target))
    if isinstance(admission, Admission):
        admission.release()
    return isinstance(admission, Admission)


async def test_a_burst_passes_and_the_rest_is_told_when() -> None:
    """S80: 1,000 concurrent calls at rate 10/s, burst 20."""
    _, limiter = setup()
    limit = rate(10, 1.0, burst=20)
    results = await asyncio.gather(*(limiter.admit([limit], LimitFacts(ALICE, QUERY)) for _ in range(1000)))
    refused = [result for result in results if isinstance(result, Refused)]
    assert len(results) - len(refused) == 20
    assert set(refused) == {Refused(100, "rate", "p", "10/1.0")}


async def test_a_limit_goes_on_wherever_it_stands_and_others_of_the_same_words_count_for_themselves() -> None:
    """G128: after a reload that puts another one before it."""
    _, limiter = setup()
    limit = rate(1, 60.0)
    assert await passes(limiter, limit, ALICE)
    assert not await passes(limiter, replace(limit, index=1), ALICE)
    assert await passes(limiter, replace(limit, tools=("wiki/*",)), ALICE)
    assert await passes(limiter, replace(limit, twin=1), ALICE)


async def test_waiting_as_long_as_told_suffices_every_time() -> None:
    """S82, also for a rate that divides nothing."""
    for count, seconds in ((60, 60.0), (7, 60.0), (3, 1.0), (1, 86_400.0)):
        clock, limiter = setup()
        limit = rate(count, seconds, burst=1)
        assert await passes(limiter, limit, ALICE)
        for _ in range(20):
            refused = await limiter.admit([limit], LimitFacts(ALICE, QUERY))
            assert isinstance(refused, Refused)
            assert refused.retry_after_ms is not None
            clock.now += (refused.retry_after_ms - 1) / 1000
            assert not await passes(limiter, limit, ALICE)
            clock.now += 0.001
            assert await passes(limiter, limit, ALICE)


async def test_waiting_as_long_as_told_suffices_on_the_real_clock() -> None:
    limiter = Limiter(MemoryStore())
    limit = rate(50, 1.0, burst=1)
    assert await passes(limiter, limit, ALICE)
    for _ in range(20):
        refused = await limiter.admit([limit], LimitFacts(ALICE, QUERY))
        if isinstance(refused, Refused) and refused.retry_after_ms is not None:
            until = time.monotonic() + refused.retry_after_ms / 1000
            while time.monotonic() < until:
                await asyncio.sleep(until - time.monotonic())
            assert await passes(limiter, limit, ALICE)


async def test_sessions_credentials_and_views_do_not_multiply_an_allowance() -> None:
    """S79, G101: only what was proven counts, unless the limit says otherwise."""
    _, limiter = setup()
    limit = rate(2, 60.0)
    rotated = Principal("key:alice", "key", "alice", groups=frozenset(), credential="other")
    assert await passes(limiter, limit, ALICE)
    assert await passes(limiter, limit, rotated)
    assert isinstance(await limiter.admit([limit], LimitFacts(ALICE, WIKI, "some-view")), Refused)
    assert await passes(limiter, limit, BOB)


@pytest.mark.parametrize(
    ("per", "shared", "apart"),
    [
        (("principal",), [(ALICE, OTHER), (ALICE, WIKI)], [(BOB, QUERY)]),
        (("tool",), [(BOB, QUERY)], [(ALICE, OTHER)]),
        (("server",), [(BOB, QUERY), (ALICE, OTHER)], [(ALICE, WIKI)]),
        (("principal", "tool"), [], [(ALICE, OTHER), (BOB, QUERY)]),
        (("group",), [(BOB, WIKI)], [(NOBODY, QUERY)]),
        (("view",), [(BOB, WIKI)], []),
    ],
)
async def test_a_limit_counts_per_what_it_names(
    per: tuple[Level, ...], shared: list[tuple[Principal, Target]], apart: list[tuple[Principal, Target]]
) -> None:
    _, limiter = setup()
    limit = rate(1, 60.0, *per)
    assert await passes(limiter, limit, ALICE, QUERY)
    assert [each for each in shared if await passes(limiter, limit, *each)] == []
    assert [each for each in apart if not await passes(limiter, limit, *each)] == []


async def test_per_group_means_the_groups_the_policy_names() -> None:
    _, limiter = setup()
    limit = rate(1, 60.0, "group", groups=["berlin"])
    assert await passes(limiter, limit, ALICE)
    assert await passes(limiter, limit, BOB)
    assert not await passes(limiter, limit, ALICE)


async def test_a_prompt_and_a_tool_of_one_name_are_counted_apart() -> None:
    _, limiter = setup()
    limit = rate(1, 60.0, "tool")
    assert await passes(limiter, limit, ALICE, QUERY)
    assert await passes(limiter, limit, ALICE, Target(Kind.PROMPT, "warehouse", "query"))


async def test_names_that_look_alike_when_joined_are_counted_apart() -> None:
    _, limiter = setup()
    limit = rate(1, 60.0, "principal", "tool")
    assert await passes(limiter, limit, Principal("a", "key", "a"), Target(Kind.TOOL, "b", "c/d"))
    assert await passes(limiter, limit, Principal("a", "key", "a"), Target(Kind.TOOL, "b/c", "d"))
    assert await passes(limiter, limit, Principal('a","b', "key", "a"), Target(Kind.TOOL, "b", "c/d"))


async def test_very_long_names_are_counted_like_others() -> None:
    _, limiter = setup()
    limit = rate(1, 60.0, "principal", "tool")
    long, longer = (Target(Kind.TOOL, "b", "n" * count + "\ud800") for count in (10_000, 10_001))
    assert await passes(limiter, limit, ALICE, long)
    assert not await passes(limiter, limit, ALICE, long)
    assert await passes(limiter, limit, ALICE, longer)


async def test_a_call_refused_by_one_limit_costs_nothing_of_the_others() -> None:
    """S83: all or nothing."""
    clock, limiter = setup()
    wide, tight, place = rate(100, 60.0), rate(1, 60.0, index=1), at_once(5)
    first = await limiter.admit([wide, tight, place], LimitFacts(ALICE, QUERY))
    assert isinstance(first, Admission)
    for _ in range(500):
        refused = await limiter.admit([wide, tight, place], LimitFacts(ALICE, QUERY))
        assert refused == Refused(60_000, "rate", "p", "1/60.0")
    first.release()
    passed = [await passes(limiter, wide, ALICE) for _ in range(100)]
    assert passed == [True] * 99 + [False]
    clock.now += 60
    assert isinstance(await limiter.admit([wide, tight, place], LimitFacts(ALICE, QUERY)), Admission)


async def test_calls_at_once_are_capped_and_places_given_back_once() -> None:
    _, limiter = setup()
    limit = at_once(4)
    held = [await limiter.admit([limit], LimitFacts(ALICE, QUERY)) for _ in range(4)]
    assert await limiter.admit([limit], LimitFacts(ALICE, QUERY)) == Refused(None, "concurrency", "p", "4 at once")
    assert await passes(limiter, limit, BOB)
    first = held[0]
    assert isinstance(first, Admission)
    first.release()
    first.release()
    again = await limiter.admit([limit], LimitFacts(ALICE, QUERY))
    assert isinstance(again, Admission)
    assert not await passes(limiter, limit, ALICE)
    for admission in (*held[1:], again):
        assert isinstance(admission, Admission)
        admission.release()
    assert limiter._counts == {}


async def test_a_refusal_for_calls_at_once_costs_no_rate() -> None:
    _, limiter = setup()
    place, tokens = at_once(1), rate(2, 60.0)
    held = await limiter.admit([place, tokens], LimitFacts(ALICE, QUERY))
    assert isinstance(held, Admission)
    for _ in range(10):
        assert isinstance(await limiter.admit([tokens, place], LimitFacts(ALICE, QUERY)), Refused)
    held.release()
    assert await passes(limiter, tokens, ALICE)
    assert not await passes(limiter, tokens, ALICE)


class HangingStore(MemoryStore):
    """Never answers a charge."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def charge(self, items: Sequence[Charge], now: float) -> ChargeResult:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_call_cancelled_while_it_is_charged_holds_no_place() -> None:
    store = HangingStore()
    limiter = Limiter(store)
    waiting = asyncio.get_running_loop().create_task(
        limiter.admit([at_once(1), rate(1, 1.0)], LimitFacts(ALICE, QUERY))
    )
    await asyncio.wait_for(store.asked.wait(), 5)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=5)
    assert waiting.cancelled()
    assert limiter._counts == {}


async def test_no_limits_admit_everything() -> None:
    _, limiter = setup()
    admission = await limiter.admit([], LimitFacts(ALICE, QUERY))
    assert isinstance(admission, Admission)
    admission.release()


async def test_an_unchanged_limit_goes_on_counting_after_a_reload_and_a_changed_one_begins_anew() -> None:
    _, limiter = setup()
    assert await passes(limiter, rate(1, 60.0), ALICE)
    assert not await passes(limiter, rate(1, 60.0), ALICE)
    assert await passes(limiter, rate(2, 60.0), ALICE)


@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from([ALICE, BOB])), max_size=60))
def test_over_any_arrivals_no_more_pass_than_burst_and_rate_allow(arrivals: list[tuple[int, Principal]]) -> None:
    """S80."""

    async def scenario() -> None:
        clock, limiter = setup()
        passed: dict[str, list[float]] = {ALICE.id: [], BOB.id: []}
        for wait, who in arrivals:
            clock.now += wait / 1000
            if await passes(limiter, rate(10, 1.0, burst=3), who):
                passed[who.id].append(clock.now)
        for times in passed.values():
            for first, start in enumerate(times):
                for last in range(first, len(times)):
                    assert last - first + 1 <= 3 + math.floor(10 * (times[last] - start) + 1e-6)

    asyncio.run(scenario())


async def test_the_request_budget_is_each_principals_own_and_tells_the_wait() -> None:
    """S83: whatever a request is about, it counts."""
    clock = Clock()
    budget = RequestBudget(MemoryStore(clock), Rate(3, 60.0), clock)
    assert [await budget.charge("key:a") for _ in range(4)] == [None, None, None, 20_000]
    assert await budget.charge("key:b") is None
    clock.now += 20
    assert await budget.charge("key:a") is None
    assert await budget.charge("key:a") == 20_000
    budget.change(Rate(100, 60.0))
    assert await budget.charge("key:a") is None


def test_calls_in_flight_are_refused_at_once_over_the_cap() -> None:
    """S86."""
    in_flight = InFlight(64)
    assert sum(in_flight.acquire("key:a") for _ in range(200)) == 64
    assert in_flight.acquire("key:b")
    in_flight.release("key:a")
    assert in_flight.count("key:a") == 63
    assert in_flight.acquire("key:a")
    assert not in_flight.acquire("key:a")
    in_flight.change(65)
    assert in_flight.acquire("key:a")
    for _ in range(65):
        in_flight.release("key:a")
    in_flight.release("key:b")
    assert in_flight.count("key:a") == 0
    with pytest.raises(RuntimeError):
        in_flight.release("key:a")


def test_an_answer_that_is_being_written_takes_a_place_and_is_itself_never_refused() -> None:
    in_flight = InFlight(2)
    with in_flight.answering("key:a"), in_flight.answering("key:a"), in_flight.answering("key:a"):
        assert in_flight.count("key:a") == 3
        assert not in_flight.acquire("key:a")
        assert in_flight.acquire("key:b")
    assert in_flight.count("key:a") == 0
    assert in_flight.acquire("key:a")


async def test_a_pass_is_good_once_for_its_own_round_and_for_ten_minutes() -> None:
    clock = Clock()
    limiter = Limiter(MemoryStore(clock), clock)
    await limiter.give_pass("01A", 2)
    assert not await limiter.use_pass("01A", 3)
    assert not await limiter.use_pass("01B", 2)
    assert await limiter.use_pass("01A", 2)
    assert not await limiter.use_pass("01A", 2)
    await limiter.give_pass("01A", 3)
    clock.now += PASS_SECONDS + 1
    assert not await limiter.use_pass("01A", 3)
