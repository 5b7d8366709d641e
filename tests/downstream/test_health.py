"""Back-off, circuit and facts (S115, S126, G118, G122, G129)."""

from __future__ import annotations

import re

import pytest

from gateway.downstream.health import (
    OPEN_SECONDS,
    SETTLED_SECONDS,
    THRESHOLD,
    Circuit,
    Facts,
    Restarts,
    State,
    shown,
    state_after,
    utc_now,
)
from gateway.downstream.inspection import Quarantined
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.errors import DownstreamError, Reason


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_failed_start_may_be_tried_again_later_by_one() -> None:
    clock = Clock()
    starts = Restarts("a", clock)
    starts.check()
    starts.failed("no such file")
    with pytest.raises(DownstreamError, match="no such file; next try in 1 s") as caught:
        starts.check()
    assert caught.value.reason is Reason.UNAVAILABLE
    assert 1 <= (caught.value.retry_after_ms or 0) <= 500
    clock.now += 0.5
    starts.check()
    with pytest.raises(DownstreamError):
        starts.check()
    starts.released()
    starts.check()
    starts.succeeded()
    starts.check()
    starts.check()
    assert starts.wait() == 0


def test_waits_grow_and_it_is_tried_for_ever() -> None:
    clock = Clock()
    starts = Restarts("a", clock)
    waits = []
    for _ in range(40):
        starts.failed("x")
        waits.append(starts.wait())
        clock.now += starts.wait()
        starts.check()
    assert 0.25 <= waits[0] <= 0.5
    assert 150 <= waits[-1] <= 300
    assert all(waits[number] <= 0.5 * 2**number for number in range(9))


def test_the_first_crash_restarts_at_once_and_the_next_ones_do_not() -> None:
    """G011: the next call restarts the server; G122: but not in a storm."""
    clock = Clock()
    crashes = Restarts("a", clock)
    crashes.ended("exited", 1.0)
    assert crashes.wait() == 0
    crashes.ended("exited", 1.0)
    assert 0.25 <= crashes.wait() <= 0.5
    crashes.ended("exited", 1.0)
    assert 0.5 <= crashes.wait() <= 1.0
    crashes.ended("exited", SETTLED_SECONDS)
    assert crashes.wait() == 0


def test_a_refusal_without_a_cause_still_names_the_server() -> None:
    assert 'server "a" is not available' in Restarts("a", Clock()).refusal().message


def fail(circuit: Circuit, reason: Reason = Reason.TIMEOUT) -> None:
    with pytest.raises(DownstreamError), circuit.call():
        raise DownstreamError(reason, 'server "a" did not answer in time')


def opened(clock: Clock) -> Circuit:
    circuit = Circuit("a", clock)
    for _ in range(THRESHOLD):
        fail(circuit)
    return circuit


def test_failures_in_a_row_open_the_circuit() -> None:
    circuit = opened(Clock())
    assert circuit.is_open
    with pytest.raises(DownstreamError, match="did not answer in time; next try in 30 s") as caught, circuit.call():
        pytest.fail("no call may run")
    assert (caught.value.reason, caught.value.retry_after_ms) == (Reason.UNAVAILABLE, 30_000)
    assert circuit.wait() == OPEN_SECONDS


def test_an_answer_in_between_keeps_it_closed() -> None:
    circuit = Circuit("a", Clock())
    for _ in range(3):
        for _ in range(THRESHOLD - 1):
            fail(circuit)
        with circuit.call():
            pass
    assert not circuit.is_open


@pytest.mark.parametrize("reason", [Reason.OVERLOADED, Reason.TOO_LARGE])
def test_limits_are_no_failures(reason: Reason) -> None:
    circuit = Circuit("a", Clock())
    for _ in range(THRESHOLD * 2):
        fail(circuit, reason)
    assert not circuit.is_open


def test_after_a_while_one_call_may_try() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now += OPEN_SECONDS
    with circuit.call(), pytest.raises(DownstreamError), circuit.call():
        pytest.fail("only one may try")
    with circuit.call():
        assert not circuit.is_open


def test_a_failed_try_opens_it_again_and_an_abandoned_one_lets_the_next_try() -> None:
    clock = Clock()
    circuit = opened(clock)
    clock.now += OPEN_SECONDS
    with pytest.raises(KeyboardInterrupt), circuit.call():
        raise KeyboardInterrupt
    fail(circuit)
    assert circuit.wait() == OPEN_SECONDS
    with pytest.raises(DownstreamError), circuit.call():
        pytest.fail("no call may run")


def test_facts_tell_since_when() -> None:
    facts = Facts()
    assert (facts.state, facts.last_round_trip) == (State.STARTING, None)
    before = facts.since
    assert not facts.move(State.STARTING)
    assert facts.since is before
    assert facts.move(State.UP)
    facts.round_trip()
    assert facts.last_round_trip is not None


def test_times_are_utc_with_milliseconds() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", shown(utc_now()))


def test_a_failure_that_is_told_otherwise_does_not_count_and_a_replacement_forgets() -> None:
    circuit = Circuit("a", Clock())
    for _ in range(THRESHOLD):
        with pytest.raises(DownstreamError), circuit.call(lambda: False):
            raise DownstreamError(Reason.UNAVAILABLE, "ended")
    assert circuit.failures == 0
    circuit = opened(Clock())
    circuit.reset()
    with circuit.call():
        assert not circuit.is_open


def test_a_caller_without_a_token_says_nothing_about_the_server() -> None:
    circuit = Circuit("a", Clock())
    for _ in range(THRESHOLD + 1):
        with pytest.raises(NoToken), circuit.call():
            raise ConsentNeeded("sign in", "ticket")
    assert not circuit.is_open
    assert state_after(ConsentNeeded("sign in", "ticket")) is State.CONSENT
    assert state_after(NoToken("no")) is State.FAILED
    assert state_after(Quarantined("other")) is State.QUARANTINED
