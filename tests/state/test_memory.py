"""One process's store: atomic charges, values that end, topics nobody can block, and a bound on everything."""

from __future__ import annotations

import asyncio

import pytest

from gateway.state.gcra import Allowance
from gateway.state.memory import Bounds, MemoryStore
from gateway.state.store import MAX_KEY, MAX_VALUE, Charge, ChargeResult, StoreRefused


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


TIGHT = Allowance(1, 10.0, 1)
WIDE = Allowance(100, 10.0, 100)


async def test_charges_are_all_or_nothing() -> None:
    store = MemoryStore()
    both = [Charge("wide", WIDE), Charge("tight", TIGHT)]
    assert await store.charge(both, 5.0) == ChargeResult()
    for _ in range(1000):
        assert await store.charge(both, 5.0) == ChargeResult(1, 10_000)
    for _ in range(99):
        assert await store.charge([Charge("wide", WIDE)], 5.0) == ChargeResult()
    assert await store.charge([Charge("wide", WIDE)], 5.0) == ChargeResult(0, 100)


async def test_the_longest_wait_is_named_and_then_everything_passes() -> None:
    store = MemoryStore()
    short = Charge("short", Allowance(1, 1.0, 1))
    tight = Charge("tight", TIGHT)
    await store.charge([short, tight], 0.0)
    refused = await store.charge([tight, short], 0.5)
    assert refused == ChargeResult(0, 9500)
    assert await store.charge([tight, short], 0.5 + 9.5) == ChargeResult()


async def test_one_bucket_charged_twice_in_one_call_counts_twice() -> None:
    store = MemoryStore()
    twice = [Charge("same", Allowance(2, 10.0, 2))] * 2
    assert await store.charge(twice, 0.0) == ChargeResult()
    assert (await store.charge([twice[0]], 0.0)).refused == 0


async def test_a_clock_that_steps_back_opens_nothing() -> None:
    """G102."""
    store = MemoryStore()
    await store.charge([Charge("tight", TIGHT)], 100.0)
    assert (await store.charge([Charge("tight", TIGHT)], 50.0)).retry_after_ms == 10_000
    assert (await store.charge([Charge("tight", TIGHT)], 109.0)).retry_after_ms == 1_000


async def test_buckets_are_bounded_and_the_emptiest_are_kept() -> None:
    store = MemoryStore(bounds=Bounds(buckets=100))
    hours = Allowance(1, 3600.0, 1)
    await store.charge([Charge("busy", Allowance(1, 86_400.0, 1))], 0.0)
    for number in range(1000):
        await store.charge([Charge(f"k{number}", hours)], float(number))
        assert len(store._buckets) <= 100
    assert (await store.charge([Charge("busy", Allowance(1, 86_400.0, 1))], 1000.0)).refused == 0
    assert (await store.charge([Charge("k999", hours)], 1000.0)).refused == 0


async def test_full_buckets_are_dropped_first() -> None:
    store = MemoryStore(bounds=Bounds(buckets=10))
    for number in range(10):
        await store.charge([Charge(f"old{number}", Allowance(1, 1.0, 1))], 0.0)
    await store.charge([Charge("new", TIGHT)], 5.0)
    assert list(store._buckets) == ["new"]


async def test_a_value_lives_as_long_as_told() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    await store.put("a", b"1", 10.0)
    clock.now += 9.999
    assert await store.get("a") == b"1"
    clock.now += 0.001
    assert await store.get("a") is None
    assert await store.take("a") is None


async def test_a_later_put_replaces_value_and_end() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    await store.put("a", b"1", 10.0)
    await store.put("a", b"2", 20.0)
    clock.now += 15
    assert await store.get("a") == b"2"
    await store.delete("a")
    await store.delete("a")
    assert await store.get("a") is None


async def test_a_value_is_taken_by_exactly_one() -> None:
    store = MemoryStore()
    await store.put("ticket", b"once", 60.0)
    taken = await asyncio.gather(*(store.take("ticket") for _ in range(50)))
    assert sorted(taken, key=bool) == [None] * 49 + [b"once"]


async def test_entries_and_bytes_are_bounded_and_what_ends_soonest_goes() -> None:
    clock = Clock()
    store = MemoryStore(clock, Bounds(entries=10, size=1000))
    for number in range(20):
        await store.put(f"n{number}", b"x", 100.0 + number)
    alive = [number for number in range(20) if await store.get(f"n{number}")]
    assert alive == list(range(10, 20))
    await store.put("big", b"x" * 995, 500.0)
    assert await store.get("big") is not None
    assert sum([await store.get(f"n{number}") is not None for number in range(20)]) == 5


async def test_writing_one_key_for_ever_needs_no_memory() -> None:
    store = MemoryStore()
    for _ in range(10_000):
        await store.put("same", b"x" * 100, 1e6)
    assert store._size == 100
    assert len(store._endings) <= 20


@pytest.mark.parametrize(("key", "value"), [("", b""), ("k" * (MAX_KEY + 1), b""), ("k", b"v" * (MAX_VALUE + 1))])
async def test_too_long_keys_and_values_are_refused(key: str, value: bytes) -> None:
    store = MemoryStore()
    with pytest.raises(StoreRefused):
        await store.put(key, value, 1.0)
    with pytest.raises(StoreRefused):
        await store.publish(key, value)


async def test_a_message_reaches_everybody_subscribed_and_nobody_else() -> None:
    store = MemoryStore()
    await store.publish("topic", b"before")
    async with store.subscribe("topic") as first, store.subscribe("topic") as second, store.subscribe("other") as third:
        await store.publish("topic", b"hello")
        assert await asyncio.wait_for(anext(first), 5) == b"hello"
        assert await asyncio.wait_for(anext(second), 5) == b"hello"
        await store.publish("other", b"for the third")
        assert await asyncio.wait_for(anext(third), 5) == b"for the third"
    await store.publish("topic", b"after")
    assert store.topics.names() == []


async def test_a_slow_subscriber_loses_the_oldest_and_blocks_nobody() -> None:
    store = MemoryStore(bounds=Bounds(waiting=3))
    async with store.subscribe("topic") as messages:
        for number in range(10):
            await store.publish("topic", b"%d" % number)
        assert [await asyncio.wait_for(anext(messages), 5) for _ in range(3)] == [b"7", b"8", b"9"]


async def test_subscribers_are_bounded_and_leaving_makes_room() -> None:
    store = MemoryStore(bounds=Bounds(subscribers=1))
    async with store.subscribe("a"):
        with pytest.raises(StoreRefused):
            async with store.subscribe("b"):
                pass
    async with store.subscribe("b"):
        pass


async def test_of_two_claims_of_one_key_the_first_stands_until_it_ends() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    claims = await asyncio.gather(store.claim("k", b"one", 5.0), store.claim("k", b"two", 5.0))
    assert [*claims] == [None, b"one"]
    clock.now += 5
    assert await store.claim("k", b"three", 5.0) is None
    assert await store.get("k") == b"three"
    with pytest.raises(StoreRefused):
        await store.claim("k" * (MAX_KEY + 1), b"", 5.0)
