"""Each alert is a record, a count and a message, once; nothing in them is a value, and nothing of it stops a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.alerts import alerts
from gateway.alerts.alerts import MAX_RECENT, Alerts, Means
from gateway.alerts.watch import Watch
from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.outcome import Failure
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object
from gateway.telemetry.metrics import Metrics
from tests.kit.calls import OK, call
from tests.kit.configs import loaded
from tests.kit.webhook import receiving

NEVER = "Mon 00:00-00:01 UTC"


class World:
    """Alerts, and what was written of them."""

    def __init__(self, **section: object) -> None:
        self.entries: list[Object] = []
        self.metrics = Metrics()
        self.alerts = Alerts(Means(self.entries.append, self.metrics, AuditKey.of(b"k" * 32)))
        self.alerts.apply(Watch.of(loaded({"alerts": section})))

    def of(self, kind: str) -> list[dict[str, Any]]:
        found = [entry["alert"] for entry in self.entries if entry["event"] == "alert.raised"]
        return [each for each in found if isinstance(each, dict) and each["kind"] == kind]


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


def test_before_a_config_is_in_force_nothing_is_watched() -> None:
    entries: list[Object] = []
    Alerts(Means(entries.append, Metrics(), AuditKey.of(b"k" * 32))).seen(call(), OK)
    assert entries == []


def test_every_sensitive_call_is_told_with_how_it_ended() -> None:
    world = World(sensitive=["a/t"])
    world.alerts.seen(call(arguments={"word": "hush"}), OK)
    world.alerts.seen(call(round=2), OK)
    world.alerts.seen(call("u"), OK)
    world.alerts.seen(call(), Failure(Reason.RATE_LIMITED, "later"))
    world.alerts.denied(call(), Target(Kind.TOOL, "a", "t"))
    world.alerts.denied(call(), None)
    assert [each["outcome"] for each in world.of("sensitive")] == ["ok", "limited", "denied"]
    assert world.of("sensitive")[0] == {
        "kind": "sensitive",
        "client": "bot",
        "principal": "key:bot",
        "server": "a",
        "name": "t",
        "outcome": "ok",
        "call_id": call().id,
        "count": 1,
    }
    assert "hush" not in json.dumps(world.entries)
    assert 'mcp_gateway_alerts_total{kind="sensitive"} 3.0' in world.metrics.render("")[0].decode()


async def test_a_flood_of_sensitive_calls_is_told_in_sums() -> None:
    world = World(sensitive=["a/t"], rate={"factor": 1000})
    for _ in range(100):
        world.alerts.seen(call(), OK)
    assert len(world.of("sensitive")) == 10
    await world.alerts.aclose()
    assert sum(each["count"] for each in world.of("sensitive")) == 100


def test_calls_out_of_hours_are_told_once_for_each_client() -> None:
    world = World(hours=NEVER)
    for _ in range(5):
        world.alerts.seen(call(), OK)
        world.alerts.seen(call(principal=Principal("key:other", "key", "other")), OK)
    assert [each["client"] for each in world.of("hours")] == ["bot", "other"]


def test_an_unusual_rate_is_told_once_and_outlives_a_reload() -> None:
    rate = {"factor": 2, "window": "1h", "min": 3}
    world = World(rate=rate)
    for _ in range(6):
        world.alerts.seen(call(), OK)
    world.alerts.apply(Watch.of(loaded({"alerts": {"rate": rate}})))
    for _ in range(6):
        world.alerts.denied(call(), None)
    assert world.of("rate") == [
        {
            "kind": "rate",
            "client": "bot",
            "principal": "key:bot",
            "server": None,
            "name": None,
            "calls": 7,
            "usual": None,
        }
    ]


def test_subjects_of_an_authorization_server_are_hashed() -> None:
    world = World(sensitive=["a/t"])
    who = Principal("sub:https://i/maria", "jwt", "idp", claims={"iss": "https://i"})
    world.alerts.seen(call(principal=who), OK)
    assert "maria" not in json.dumps(world.entries)
    assert world.of("sensitive")[0]["iss"] == "https://i"


def test_the_status_shows_the_last_ones_newest_first() -> None:
    world = World()
    for number in range(MAX_RECENT + 5):
        world.alerts.raised("pin_drift", {"server": "a", "name": f"n{number}"})
    status: Any = world.alerts.status()
    assert (status["raised"], status["undelivered"], len(status["recent"])) == (MAX_RECENT + 5, 0, MAX_RECENT)
    assert status["recent"][0]["name"] == f"n{MAX_RECENT + 4}"


def test_what_is_remembered_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "MAX_TOLD", 20)
    world = World(hours=NEVER)
    for number in range(30):
        who = Principal(f"key:{number}", "key", "many")
        world.alerts.denied(call(principal=who), None)
    world.alerts.denied(call(principal=Principal("key:0", "key", "many")), None)
    assert len(world.of("hours")) == 31


async def test_messages_reach_every_address_and_follow_a_reload() -> None:
    with receiving() as one, receiving() as two:
        world = World(to=[one.url])
        world.alerts.raised("pin_hold", {"server": "a", "name": "tool:t"})
        await until(lambda: one.got)
        assert one.got[0]["text"] == "mcp-gateway: a definition changed or is new, and is held back: a tool:t"
        world.alerts.apply(Watch.of(loaded({"alerts": {"to": [two.url]}})))
        await world.alerts.settle()
        world.alerts.notify("approval_requested", {"approval": "x", "server": "a", "name": "t"})
        await until(lambda: two.got)
        assert (len(one.got), two.got[0]["kind"]) == (1, "approval_requested")
        assert world.of("approval_requested") == []
        await world.alerts.aclose()
    assert 'alert_deliveries_total{result="delivered"} 2.0' in world.metrics.render("")[0].decode()
