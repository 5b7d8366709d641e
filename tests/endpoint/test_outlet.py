"""Notifications of a call: progress under the client's token and rising, all else as it comes (S94).

What may come at all, and how fast, is in tests/downstream/test_flights.py and test_progress.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.endpoint.outlet import Outlet
from gateway.endpoint.stream import EventStream
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Members, Value


class Sink(EventStream):
    """A stream that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def offer(self, data: bytes) -> None:
        self.sent.append(json.loads(data))


def params(**members: Value) -> Members:
    return {key: rawjson.raw(value) for key, value in members.items()}


def outlet(token: Id | None = "t", level: str | None = None) -> tuple[Outlet, Sink]:
    sink = Sink()
    return Outlet(sink, token, level), sink


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


@pytest.mark.parametrize("broken", [{"progress": rawjson.Raw(b"{")}, {}])
def test_unreadable_progress_is_dropped(broken: Members) -> None:
    way, sink = outlet()
    way.notify("notifications/progress", broken)
    assert sink.sent == []


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
        ("debug", ["info"], False),
    ],
)
def test_logs_pass_from_the_level_that_was_asked_for(asked: str | None, level: Value, passes: bool) -> None:
    way, sink = outlet(level=asked)
    way.notify("notifications/message", params(level=level, data={"k": 1}))
    assert [message["params"]["data"] for message in sink.sent] == ([{"k": 1}] if passes else [])


@pytest.mark.parametrize("method", ["notifications/search/found", "search/found"])
def test_everything_else_goes_out_as_it_comes(method: str) -> None:
    way, sink = outlet(None)
    way.notify(method, params(level="info", data={"k": 1}))
    assert sink.sent == [{"jsonrpc": "2.0", "method": method, "params": {"level": "info", "data": {"k": 1}}}]
