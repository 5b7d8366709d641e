"""What is usual is learned for each client; what is not is told once in a window."""

from __future__ import annotations

import pytest

from gateway.alerts.norm import Excess, Norms, Terms

TERMS = Terms(5, 100.0, 10)


def calls(norms: Norms, count: int, at: float, who: str = "a", terms: Terms = TERMS) -> list[Excess]:
    """Make calls at once; returns what is told of them."""
    found = [norms.take(who, at, terms) for _ in range(count)]
    return [each for each in found if each is not None]


def test_a_client_that_calls_as_always_is_never_told_of() -> None:
    norms = Norms()
    assert [calls(norms, 20, window * 100.0) for window in range(50)] == [[]] * 50


def test_a_flood_is_told_once_in_a_window_and_again_while_it_lasts() -> None:
    norms = Norms()
    for window in range(5):
        calls(norms, 20, window * 100.0)
    assert calls(norms, 300, 500.0 + 99) == [Excess(100, 20.0)]
    assert calls(norms, 300, 600.0 + 50) == []
    assert len(calls(norms, 1, 699.5)) == 1


def test_a_flood_over_the_border_of_two_windows_is_seen() -> None:
    norms = Norms()
    for window in range(5):
        calls(norms, 20, window * 100.0)
    assert calls(norms, 95, 590.0) == []
    assert len(calls(norms, 100, 610.0)) == 1


def test_few_calls_are_never_unusual() -> None:
    norms = Norms()
    for window in range(20):
        calls(norms, 1, window * 100.0)
    assert calls(norms, 8, 2000.0) == []
    assert calls(norms, 2, 2050.0) == [Excess(10, 1.0)]


def test_a_new_client_may_call_as_often_as_the_least_times_the_factor() -> None:
    assert calls(Norms(), 50, 0.0) == []
    assert calls(Norms(), 60, 0.0) == [Excess(51, None)]


def test_a_quiet_night_does_not_make_the_morning_unusual() -> None:
    norms = Norms()
    for window in range(5):
        calls(norms, 20, window * 100.0)
    assert calls(norms, 40, 100_000.0) == []


def test_a_client_that_goes_on_calling_more_is_usual_again() -> None:
    norms = Norms()
    for window in range(5):
        calls(norms, 20, window * 100.0)
    told = [len(calls(norms, 200, window * 100.0)) for window in range(5, 30)]
    assert told[0] == 1
    assert told[-10:] == [0] * 10


def test_one_flood_teaches_no_more_than_what_would_just_have_been_told() -> None:
    norms = Norms()
    for window in range(5):
        calls(norms, 20, window * 100.0)
    calls(norms, 50_000, 500.0)
    [excess] = calls(norms, 400, 700.0)
    assert excess.calls == 181
    assert excess.usual == pytest.approx(36)


def test_a_window_of_another_length_keeps_the_norm() -> None:
    norms = Norms()
    for window in range(5):
        calls(norms, 20, window * 100.0)
    calls(norms, 20, 500.0)
    [excess] = calls(norms, 1100, 600.0, terms=Terms(5, 1000.0, 10))
    assert excess == Excess(1001, 200.0)


def test_clients_are_told_apart_and_bounded() -> None:
    norms = Norms(most=2)
    calls(norms, 40, 0.0, "a")
    calls(norms, 1, 0.0, "b")
    calls(norms, 1, 0.0, "a")
    calls(norms, 1, 0.0, "c")
    assert len(norms) == 2
    assert len(calls(norms, 20, 0.0, "a")) == 1
    assert calls(norms, 40, 0.0, "b") == []
