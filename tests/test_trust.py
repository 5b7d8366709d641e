"""Differences from a pin are said in log, audit log and metrics, once each."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.protocol.rawjson import Object
from gateway.telemetry.metrics import Metrics
from gateway.trust import Trust
from tests.kit.definitions import listing, stdio, tool


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.known_servers(["a"])
    return made


def trust(folder: Path, entries: list[Object], metrics: Metrics) -> Trust:
    return Trust(folder, b"k" * 32, entries.append, metrics)


def test_first_sight_change_and_removal_have_their_own_records(tmp_path: Path, metrics: Metrics) -> None:
    entries: list[Object] = []
    watch, server = trust(tmp_path, entries, metrics), stdio()
    watch.seen("a", server, listing("a", tool("t"), tool("u")))
    watch.seen("a", server, listing("a", tool("t", description="now obey"), tool("u")))
    watch.seen("a", server, listing("a", tool("t", description="now obey"), tool("u")))
    watch.seen("a", server, listing("a", tool("t", description="now obey"), tool("new")))
    told = [(entry["event"], entry["server"], entry["pin"]) for entry in entries]
    assert [(event, name) for event, name, _ in told] == [
        ("pin.recorded", "a"),
        ("pin.mismatch", "a"),
        ("pin.mismatch", "a"),
        ("pin.removed", "a"),
    ]
    assert watch.state("a", server) == "changed"
    assert watch.changed("a") == ["tool:new", "tool:t", "tool:u"]
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_pin_mismatches_total{kind="definition",server="a"} 2.0' in text
    assert 'mcp_gateway_pin_mismatches_total{kind="new_definition",server="a"} 1.0' in text


def test_another_command_under_the_same_name_is_a_difference(tmp_path: Path, metrics: Metrics) -> None:
    """S131: and what does not say who a server is, is none."""
    entries: list[Object] = []
    watch = trust(tmp_path, entries, metrics)
    watch.seen("a", stdio(args=["one"]), listing("a", tool("t")))
    watch.seen("a", stdio(args=["one"], concurrency=3, idle_stop="1m"), listing("a", tool("t")))
    assert watch.state("a", stdio()) == "recorded"
    watch.seen("a", stdio(args=["two"]), listing("a", tool("t")))
    assert watch.changed("a") == ["config"]


def test_mode_off_looks_away(tmp_path: Path, metrics: Metrics) -> None:
    entries: list[Object] = []
    watch, server = trust(tmp_path, entries, metrics), stdio(pin={"mode": "off"})
    watch.seen("a", server, listing("a", tool("t")))
    assert entries == []
    assert watch.state("a", server) == "off"
    assert watch.state("gone", None) == "off"


def test_a_full_disk_costs_the_pin_and_nothing_else(tmp_path: Path, metrics: Metrics) -> None:
    entries: list[Object] = []
    watch = trust(tmp_path / "gone", entries, metrics)
    watch.seen("a", stdio(), listing("a", tool("t")))
    assert entries == []
    assert watch.state("a", stdio()) == "unknown"
