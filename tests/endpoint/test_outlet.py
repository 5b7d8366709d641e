"""Notifications of a call: only what was asked for, rising, at a bounded rate (S94)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.endpoint.outlet import LOG_RATE, PROGRESS_RATE, Bucket, Outlet
from gateway.endpoint.stream import EventStream
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Members, Value


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Sink(EventStream):
    """A stream that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, data: bytes) -> None:
        self.sent.append(json.loads(data))


def params(**members: Value) -> Members:
    return {key: rawjson.raw(value) for key, value in members.items()}


def outlet(token: Id | None = "t", level: str | None = None, clock: Clock | None = None) -> tuple[Outlet, Sink]:
    sink = Sink()
    return Outlet(sink, token, level, clock or Clock()), sink


def test_progress_carries_the_clients_own_token_with_its_type() -> None:
    way, sink = outlet(7)
    way.notify("notifications/progress", params(progressToken="gw-1", progress=1, total=2, message="m", own=[1]))
    assert sink.sent == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": 7, "progress": 1, "total": 2, "message": "m", "own": [1]},
        }
    ]


def test_progress_nobody_asked_for_is_dropped() -> None:
    way, sink = outlet(None)
    way.notify("notifications/progress", params(progress=1))
    assert sink.sent == []


def test_progress_only_rises() -> None:
    way, sink = outlet()
    for progress in (1, 1, 0.5, 2, -1, "9", True, None, 2.5):
        way.notify("notifications/progress", params(progress=progress))
    assert [message["params"]["progress"] for message in sink.sent] == [1, 2, 2.5]


def test_a_flood_of_progress_is_thinned_and_its_last_value_arrives() -> None:
    clock = Clock()
    way, sink = outlet(clock=clock)
    for number in range(10_000):
        clock.now = number / 10_000
        way.notify("notifications/progress", params(progress=number))
    assert len(sink.sent) <= 2 * PROGRESS_RATE
    way.flush()
    way.flush()
    assert sink.sent[-1]["params"]["progress"] == 9999
    values = [message["params"]["progress"] for message in sink.sent]
    assert values == sorted(set(values))


def test_a_newer_progress_replaces_the_one_held_back() -> None:
    clock = Clock()
    way, sink = outlet(clock=clock)
    for number in range(PROGRESS_RATE + 1):
        way.notify("notifications/progress", params(progress=number))
    clock.now = 1.0
    way.notify("notifications/progress", params(progress=99))
    way.flush()
    assert [message["params"]["progress"] for message in sink.sent] == [*range(PROGRESS_RATE), 99]


@pytest.mark.parametrize(
    ("asked", "level", "passes"),
    [
        ("info", "info", True),
        ("info", "emergency", True),
        ("info", "debug", False),
        ("error", "warning", False),
        (None, "emergency", False),
        ("debug", "loud", False),
        ("debug", None, False),
    ],
)
def test_logs_pass_from_the_level_that_was_asked_for(asked: str | None, level: str | None, passes: bool) -> None:
    way, sink = outlet(level=asked)
    way.notify("notifications/message", params(level=level, data={"k": 1}))
    assert [message["params"]["data"] for message in sink.sent] == ([{"k": 1}] if passes else [])


def test_a_flood_of_logs_is_cut() -> None:
    way, sink = outlet(level="debug")
    for _ in range(LOG_RATE * 10):
        way.notify("notifications/message", params(level="info", data=1))
    assert len(sink.sent) == LOG_RATE


@pytest.mark.parametrize("method", ["notifications/tools/list_changed", "notifications/cancelled", "x"])
def test_other_notifications_stop_here(method: str) -> None:
    way, sink = outlet(level="debug")
    way.notify(method, params(level="info", progress=1))
    assert sink.sent == []


def test_reserved_meta_of_a_server_stops_here() -> None:
    way, sink = outlet(level="debug")
    meta: Value = {"io.modelcontextprotocol/subscriptionId": 1, "own": 2}
    way.notify("notifications/message", params(level="info", data=1, _meta=meta))
    way.notify("notifications/message", params(level="info", data=1, _meta={"progressToken": 1}))
    assert [message["params"].get("_meta") for message in sink.sent] == [{"own": 2}, None]


@pytest.mark.parametrize(
    "broken", [{"progress": rawjson.Raw(b"{")}, {"progress": rawjson.raw(1), "_meta": rawjson.raw(7)}]
)
def test_an_unreadable_notification_is_dropped(broken: Members) -> None:
    way, sink = outlet()
    way.notify("notifications/progress", broken)
    assert sink.sent == []


def test_a_bucket_saves_up_one_second() -> None:
    clock = Clock()
    bucket = Bucket(2, clock)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    clock.now = 100.0
    assert [bucket.take() for _ in range(3)] == [True, True, False]
