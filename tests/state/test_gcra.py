"""The rate algorithm is exact: never more than burst + rate·t, and the wait it names suffices (S80, S82, G102)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.state.gcra import Allowance


def admitted(allowance: Allowance, times: list[float]) -> list[float]:
    arrival, passed = 0, []
    for now in times:
        arrival, wait = allowance.charge(arrival, now)
        if not wait:
            passed.append(now)
    return passed


def test_a_burst_passes_then_the_even_rate() -> None:
    assert len(admitted(Allowance(10, 1.0, 20), [5.0] * 1000)) == 20
    assert len(admitted(Allowance(10, 1.0, 20), [5.0] * 1000 + [5.1] * 1000)) == 21


def test_no_window_edge_lets_twice_the_rate_pass() -> None:
    """G102: five at the end of one window and five at the beginning of the next."""
    assert len(admitted(Allowance(5, 10.0, 5), [9.9] * 5 + [10.1] * 5)) == 5


def test_every_window_has_exactly_the_documented_number() -> None:
    """G102: also for rates that do not divide a second."""
    for count in (5, 7, 60):
        times = [1000.0 + window * 60.0 for window in range(10) for _ in range(count + 3)]
        assert len(admitted(Allowance(count, 60.0, count), times)) == 10 * count


@given(
    st.integers(1, 1000),
    st.sampled_from([1.0, 60.0, 3600.0, 86400.0]),
    st.integers(1, 50),
    st.lists(st.integers(0, 20_000), max_size=200),
)
def test_at_most_burst_plus_rate_pass_in_any_time(count: int, seconds: float, burst: int, steps: list[int]) -> None:
    now, times = 0.0, []
    for step in steps:
        now += step / 1000
        times.append(now)
    passed = admitted(Allowance(count, seconds, burst), times)
    for first in range(len(passed)):
        span = passed[-1] - passed[first]
        assert len(passed) - first <= burst + count * span / seconds + 1e-6


@given(st.integers(1, 997), st.sampled_from([1.0, 60.0, 86400.0]), st.integers(1, 9), st.floats(0, 1e6))
def test_waiting_as_long_as_told_suffices_for_a_lone_caller(count: int, seconds: float, burst: int, now: float) -> None:
    allowance = Allowance(count, seconds, burst)
    arrival = 0
    for _ in range(burst):
        arrival, wait = allowance.charge(arrival, now)
        assert wait == 0
    for _ in range(20):
        same, wait = allowance.charge(arrival, now)
        assert same == arrival
        assert wait > 0
        now = round((round(now * 1e9) + wait * 1_000_000) / 1e9, 9)
        arrival, wait = allowance.charge(arrival, now)
        assert wait == 0
        while not allowance.charge(arrival, now)[1]:
            arrival, _ = allowance.charge(arrival, now)


def test_a_rested_bucket_is_as_good_as_new() -> None:
    allowance = Allowance(1, 10.0, 1)
    arrival, _ = allowance.charge(0, 100.0)
    assert not allowance.is_full(arrival, 109.9)
    assert allowance.is_full(arrival, 110.0)
