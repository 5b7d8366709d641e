"""Each difference is said once: with its diff in the audit log, in the metrics, and as an alert."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.audit import record
from gateway.news import News, lines_of
from gateway.pinning.approval import recorded
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.verify import Difference, Effect, Terms, Verdict, judge
from gateway.protocol.rawjson import Object
from gateway.telemetry.metrics import Metrics
from tests.kit.definitions import tool
from tests.kit.pinning import news_of

SEEN = Fingerprint({"cwd": "/", "version": "v"}, {"tool:t": tool("t", description="a"), "tool:u": tool("u")}, "read")
PIN = recorded(SEEN, "")
CHANGED = replace(SEEN, definitions={"tool:t": tool("t", description="b\u200b"), "tool:u": tool("u")})


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics()
    made.known_servers(["a"])
    return made


def report(news: News, seen: Fingerprint) -> Verdict:
    verdict = judge(PIN, seen, Terms("tofu"))
    news.report("a", verdict, PIN, seen)
    return verdict


def pins(entries: list[Object], event: str) -> list[dict[str, Any]]:
    return [entry["pin"] for entry in entries if entry["event"] == event and isinstance(entry["pin"], dict)]


def test_a_change_is_said_once_and_again_when_it_comes_back(metrics: Metrics) -> None:
    """S138."""
    entries: list[Object] = []
    news = news_of(entries, metrics)
    for _ in range(3):
        report(news, CHANGED)
    [mismatch] = pins(entries, "pin.mismatch")
    assert mismatch["diff"] == [{"after": "b\\u200b", "before": "a", "pointer": "/description"}]
    assert (mismatch["kind"], mismatch["effect"]) == ("definition", "hold")
    assert pins(entries, "pin.quarantined")[0]["name"] == "tool:t"
    assert [entry["alert"] for entry in entries if entry["event"] == "alert.raised"] == [
        {"kind": "pin_hold", "server": "a", "name": "tool:t"}
    ]
    text = metrics.render("")[0].decode()
    assert 'mcp_gateway_quarantined_tools{server="a"} 1.0' in text
    assert 'mcp_gateway_alerts_total{kind="pin_hold"} 1.0' in text
    report(news, SEEN)
    assert 'mcp_gateway_quarantined_tools{server="a"} 0.0' in metrics.render("")[0].decode()
    report(news, CHANGED)
    assert len(pins(entries, "pin.mismatch")) == 2


def test_a_quarantined_server_hides_all_its_tools(metrics: Metrics) -> None:
    entries: list[Object] = []
    verdict = report(news_of(entries, metrics), replace(SEEN, facts={**SEEN.facts, "cwd": "/srv"}))
    assert verdict.barred
    assert pins(entries, "pin.quarantined") == [
        {"name": "cwd", "before": "/", "after": "/srv", "reason": verdict.hidden}
    ]
    assert 'mcp_gateway_quarantined_tools{server="a"} 2.0' in metrics.render("")[0].decode()


def test_what_is_gone_has_a_record_of_its_own(metrics: Metrics) -> None:
    entries: list[Object] = []
    report(news_of(entries, metrics), replace(SEEN, definitions={"tool:u": tool("u")}))
    assert [each["name"] for each in pins(entries, "pin.removed")] == ["tool:t"]
    assert pins(entries, "pin.mismatch") == []


def test_a_record_stays_within_its_size_whatever_a_server_does(metrics: Metrics) -> None:
    entries: list[Object] = []
    huge = {f"tool:{'n' * 5000}": tool("n" * 5000, **{f"k{n}": "x" * 5000 for n in range(200)})}
    report(news_of(entries, metrics), replace(SEEN, definitions={**huge, **(SEEN.definitions or {})}))
    assert all(record.bounded(entry) == entry for entry in entries)


def test_the_first_sight_is_said_where_it_is_durable(metrics: Metrics) -> None:
    entries: list[Object] = []
    news = news_of(entries, metrics)
    news.recorded("a", SEEN, saved=False)
    assert entries == []
    news.recorded("a", SEEN, saved=True)
    assert pins(entries, "pin.recorded") == [{"definitions": 2}]


def test_a_difference_on_one_principals_connection_is_said_once(metrics: Metrics) -> None:
    entries: list[Object] = []
    news = news_of(entries, metrics)
    item = Difference("definition", "tool:t", "1", "2", Effect.HOLD)
    news.elsewhere("a", item)
    news.elsewhere("a", item)
    assert [each["connection"] for each in pins(entries, "pin.mismatch")] == ["principal"]


def test_instructions_and_gone_definitions_have_a_diff_too() -> None:
    told = Difference("instructions", "instructions", "", "", Effect.HOLD)
    assert [line.after for line in lines_of(told, PIN, replace(SEEN, instructions="reed"))] == ["reed"]
    gone = Difference("removed_definition", "tool:t", "1", "", Effect.TELL)
    assert [line.after for line in lines_of(gone, PIN, replace(SEEN, definitions={}))] == [None]
    assert lines_of(Difference("cwd", "cwd", "/", "/srv", Effect.QUARANTINE), PIN, SEEN) == ()
