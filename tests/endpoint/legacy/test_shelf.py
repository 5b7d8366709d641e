"""Kept events: how long, how many bytes, how many."""

from __future__ import annotations

import pytest

from gateway.endpoint.legacy import shelf as module
from gateway.endpoint.legacy.shelf import KEPT_SECONDS, Shelf


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_events_are_kept_for_a_time_and_no_longer() -> None:
    clock = Clock()
    shelf = Shelf(clock)
    old = shelf.put(1, b"old")
    clock.now += KEPT_SECONDS - 1
    new = shelf.put(2, b"new")
    assert (old.data, new.data, len(shelf), shelf.size) == (b"old", b"new", 2, 6)
    clock.now += 1
    shelf.sweep()
    assert (old.data, new.data, len(shelf), shelf.size) == (b"", b"new", 1, 3)


def test_the_oldest_events_make_room() -> None:
    shelf = Shelf(Clock(), most=10)
    kept = [shelf.put(number, b"1234") for number in range(4)]
    assert [event.data for event in kept] == [b"", b"", b"1234", b"1234"]
    assert shelf.size == 8


def test_an_event_larger_than_everything_is_not_kept() -> None:
    shelf = Shelf(Clock(), most=10)
    assert (shelf.put(1, b"x" * 11).data, len(shelf), shelf.size) == (b"", 0, 0)


def test_small_events_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_EVENTS", 3)
    shelf = Shelf(Clock())
    kept = [shelf.put(number, b"x") for number in range(5)]
    assert ([event.number for event in kept if event.data], len(shelf)) == ([2, 3, 4], 3)


def test_what_is_forgotten_early_takes_no_place() -> None:
    shelf = Shelf(Clock())
    first, second = shelf.put(1, b"one"), shelf.put(2, b"two")
    shelf.forget(first)
    shelf.forget(first)
    assert (first.data, second.data, shelf.size) == (b"", b"two", 3)
    shelf.sweep()
    assert len(shelf) == 1
