"""A call's notebook."""

from __future__ import annotations

import time

import pytest

from gateway.model.exchange import Exchange, discard
from gateway.protocol.rawjson import Members


def test_only_the_first_dispatch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry does not make the first attempt unsent: ``mayHaveRun`` stays true and its time is the first one."""
    now = 5.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    exchange = Exchange()
    assert not exchange.dispatched
    exchange.mark_dispatched()
    now = 9.0
    exchange.mark_dispatched()
    assert (exchange.dispatched, exchange.dispatched_at) == (True, 5.0)


def test_each_exchange_has_its_own_notes() -> None:
    one, two = Exchange(), Exchange()
    one.notes["retry"] = "1"
    assert two.notes == {}
    assert (one.instance, one.answered_at) == (None, 0.0)


def test_notifications_go_to_who_asked_for_them_or_nowhere() -> None:
    heard: list[tuple[str, Members]] = []
    Exchange(notify=lambda method, params: heard.append((method, params))).notify("notifications/progress", {})
    assert heard == [("notifications/progress", {})]
    assert Exchange().notify is discard
    discard("notifications/message", {})
