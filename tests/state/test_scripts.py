"""What a shared store does in one step counts like the memory store, to the microsecond."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.state.gcra import Allowance
from gateway.state.memory import MemoryStore
from gateway.state.scripts import CHARGE, CLAIM, Script, numbers
from gateway.state.store import Charge, ChargeResult
from tests.kit import valkey

EPOCH = 1_800_000_000_000_000
"""Microseconds: about the year 2027."""
ENDS = ", 'PX', string.format('%.0f', left)"
CLOCK = "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n"


@pytest.fixture(scope="module")
def server() -> Iterator[valkey.Valkey]:
    with valkey.running() as server:
        yield server


def charge(server: valkey.Valkey, at: int, items: list[Charge], *, ends: bool = True) -> ChargeResult:
    """Charge as if it were so many microseconds after the epoch; the server's own clock, which ends keys, goes on."""
    assert CLOCK in CHARGE.text
    assert ENDS in CHARGE.text
    text = CHARGE.text.replace(CLOCK, f"local now = {at}\n").replace(ENDS, ENDS if ends else "")
    keys = [item.key for item in items]
    arguments = [str(number) for item in items for number in numbers(item.allowance)]
    answer = server.command("EVAL", text, str(len(keys)), *keys, *arguments)
    if answer == b"$-1\r\n":
        return ChargeResult()
    found = re.fullmatch(rb"\*2\r\n:(\d+)\r\n:(\d+)\r\n", answer)
    assert found is not None, answer
    return ChargeResult(int(found[1]), int(found[2]))


def left(server: valkey.Valkey, key: str) -> int:
    """Return the milliseconds after which a key ends by itself."""
    return int(server.command("PTTL", key)[1:-2])


ALLOWANCES = st.builds(
    Allowance,
    count=st.integers(1, 2000) | st.sampled_from([3, 7, 6000, 1_000_000]),
    seconds=st.sampled_from([1.0, 60.0, 3600.0, 86400.0]),
    burst=st.integers(1, 12),
)
GAPS = st.integers(0, 2_000_000) | st.integers(0, 200) | st.sampled_from([333_333, 333_334, 10_000_000])


@valkey.needed
@given(
    st.lists(ALLOWANCES, min_size=1, max_size=3),
    st.lists(st.tuples(GAPS, st.lists(st.integers(0, 2), min_size=1, max_size=4)), min_size=1, max_size=25),
)
def test_a_shared_store_admits_and_delays_exactly_what_the_memory_store_does(
    server: valkey.Valkey, allowances: list[Allowance], arrivals: list[tuple[int, list[int]]]
) -> None:
    """S80. All or nothing, also for a bucket that is charged twice at once; times are whole microseconds."""
    server.command("FLUSHALL")
    memory, at = MemoryStore(), 0
    for gap, chosen in arrivals:
        at += gap
        items = [Charge(f"b{each % len(allowances)}", allowances[each % len(allowances)]) for each in chosen]
        expected = asyncio.run(memory.charge(items, at / 1_000_000))
        assert charge(server, EPOCH + at, items, ends=False) == expected


@valkey.needed
def test_a_bucket_ends_by_itself_when_it_is_as_good_as_new(server: valkey.Valkey) -> None:
    server.command("FLUSHALL")
    now = EPOCH
    bucket = Charge("b", Allowance(10, 60.0, 3))
    for calls in (1, 2, 3):
        assert charge(server, now, [bucket]) == ChargeResult()
        assert 0 <= calls * 6000 + 1 - left(server, "b") < 1000
    assert charge(server, now, [bucket]) == ChargeResult(0, 6000)


@valkey.needed
def test_a_clock_that_goes_back_refuses_for_no_longer_than_an_empty_bucket_would(server: valkey.Valkey) -> None:
    """G102: and it opens nothing either."""
    server.command("FLUSHALL")
    bucket = Charge("b", Allowance(10, 60.0, 2))
    assert [charge(server, EPOCH, [bucket]).refused for _ in range(3)] == [None, None, 0]
    earlier = EPOCH - 3_600_000_000
    assert charge(server, earlier, [bucket]) == ChargeResult(0, 6000)
    assert charge(server, earlier + 6_000_000, [bucket]) == ChargeResult()
    assert charge(server, earlier + 6_000_000, [bucket]).refused == 0


@valkey.needed
def test_what_somebody_else_wrote_there_counts_for_nothing(server: valkey.Valkey) -> None:
    server.command("FLUSHALL")
    server.command("SET", "b", "not:a:bucket")
    assert charge(server, EPOCH, [Charge("b", Allowance(1, 1.0, 1))]) == ChargeResult()


@valkey.needed
def test_of_two_claims_one_is_the_first(server: valkey.Valkey) -> None:
    server.command("FLUSHALL")
    assert server.command("EVAL", CLAIM.text, "1", "c", "first", "60000") == b"$-1\r\n"
    assert server.command("EVAL", CLAIM.text, "1", "c", "second", "60000") == b"$5\r\nfirst\r\n"
    assert 0 < left(server, "c") <= 60_000


def test_interval_and_tolerance_are_written_without_rounding() -> None:
    for allowance in (Allowance(7, 1.0, 3), Allowance(6000, 60.0, 6000), Allowance(1_000_000, 86400.0, 5)):
        step, rest, early, part, count = numbers(allowance)
        assert step * count + rest == allowance.seconds * 1_000_000
        assert early * count + part == (allowance.burst - 1) * allowance.seconds * 1_000_000
        assert 0 <= rest < count
        assert 0 <= part < count


def test_a_script_is_known_by_its_digest() -> None:
    scripts = [CHARGE, CLAIM, Script.of("return 1")]
    assert all(len(script.sha1) == 40 for script in scripts)
    assert all(first.sha1 != second.sha1 for first, second in pairwise(scripts))
