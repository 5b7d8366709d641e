"""The page of the audit log."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from gateway.admin.access import Refused
from gateway.admin.pages.audit import FILTERS, audit, wanted_by
from gateway.admin.pages.markup import Html, text
from gateway.admin.views import Busy
from gateway.audit.pages import Found, Place
from gateway.audit.query import Wanted
from gateway.protocol.rawjson import Object
from tests.kit.pages import HOSTILE, SHOWN, Told, page, visit

NOW = datetime(2026, 8, 23, 12, tzinfo=UTC)
RECORD: Object = {
    "seq": 7,
    "ts": "2026-08-23T10:00:00.000000Z",
    "event": "call.end",
    "call_id": "c1",
    "server": "a",
    "tool": {"name": HOSTILE, "exposed": "a__x"},
    "principal": {"id": HOSTILE, "client": "bot"},
    "decision": {"action": "allow", "policy": HOSTILE, "rule": "allow[0]"},
    "outcome": {"status": "timeout", "dur_us": 1500},
}


def given(**filters: str) -> dict[str, str]:
    return {key: filters.get(key, "") for key in FILTERS}


async def test_records_are_shown_whole_and_escaped_and_lead_to_their_call() -> None:
    told = Told()
    told.found = Found((RECORD, {"event": "admin.reload", "admin": {"user": "alice"}}, {}), Place(2, 77), 3000, "")
    shown = page(await audit(told.gateway, visit("/audit", event="call.*"))).body.text
    assert SHOWN in shown
    assert "/ui/audit?call=c1" in shown
    assert "timeout" in shown
    assert "1.5 ms" in shown
    assert "alice" in shown
    assert "/ui/audit?event=call.%2A&amp;before=2-77" in shown


@pytest.mark.parametrize(
    ("outcome", "action", "shown"),
    [
        (
            {"status": "limited", "error_type": "rate_limited", "detail": "p: 5/minute"},
            "allow",
            "rate_limited p: 5/minute",
        ),
        (
            {"status": "denied", "error_type": "approval_required", "detail": "approval x1"},
            "allow",
            "approval_required",
        ),
        ({"status": "denied", "error_type": "denied"}, "deny", "p deny[0]"),
    ],
)
async def test_the_reason_is_what_refused_a_call_and_no_rule_that_allowed_it(
    outcome: Object, action: str, shown: str
) -> None:
    rule, reason = ("allow[0]", "allow_rule") if action == "allow" else ("deny[0]", "deny_rule")
    decision: Object = {"action": action, "policy": "p", "rule": rule, "reason": reason}
    record: Object = {**RECORD, "outcome": outcome, "decision": decision}
    told = Told()
    told.found = Found((record,), None)
    row = page(await audit(told.gateway, visit("/audit"))).body.text.partition("<details>")[0]
    assert shown in row
    assert "allow[0]" not in row
    assert "_rule" not in row


async def test_a_refusal_says_what_of_the_rule_did_not_hold() -> None:
    decision: Object = {"action": "deny", "policy": "p", "rule": "allow[2]", "reason": "condition"}
    told = Told()
    told.found = Found(({**RECORD, "outcome": {"status": "denied"}, "decision": decision},), None)
    assert "p allow[2] condition" in page(await audit(told.gateway, visit("/audit"))).body.text


async def test_subjects_are_told_apart_by_their_digests() -> None:
    told = Told()
    people: list[Object] = [{"client": "jwt:as", "sub_h": digest} for digest in ("k1:aa", "k1:bb")]
    told.found = Found(tuple({**RECORD, "principal": each} for each in people), None)
    shown = page(await audit(told.gateway, visit("/audit"))).body.text
    for digest in ("aa", "bb"):
        assert f'href="/ui/audit?principal=k1%3A{digest}"' in shown
        assert f">jwt:as k1:{digest}<" in shown


async def test_long_durations_are_seconds() -> None:
    told = Told()
    told.found = Found(({**RECORD, "outcome": {"status": "ok", "dur_us": 45_001_600}},), None)
    assert "45.0 s" in page(await audit(told.gateway, visit("/audit"))).body.text


async def test_records_are_laid_out_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def laid_out(source: str) -> Html:
        threads.append(threading.current_thread())
        return text(source)

    monkeypatch.setattr("gateway.admin.pages.audit.laid_out", laid_out)
    told = Told()
    told.found = Found((RECORD,), None)
    await audit(told.gateway, visit("/audit"))
    assert threads
    assert threading.main_thread() not in threads


async def test_the_end_of_the_log_is_said() -> None:
    assert "that is all there is" in page(await audit(Told().gateway, visit("/audit"))).body.text


async def test_filters_and_place_are_asked_as_they_are_given() -> None:
    told = Told()
    await audit(told.gateway, visit("/audit", principal=" bot ", server="a", before="3-12"))
    await audit(told.gateway, visit("/audit", before="x"))
    assert told.asked == [
        ("audit", Wanted(frozenset({"bot"}), "a"), Place(3, 12)),
        ("audit", Wanted(), None),
    ]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2h", "2026-08-23T10:00:00.000000Z"),
        ("2026-08-23", "2026-08-23T00:00:00.000000Z"),
        ("2026-08-23T12:00+02:00", "2026-08-23T10:00:00.000000Z"),
        ("", ""),
    ],
)
def test_times_are_read_as_records_write_them(text: str, time: str) -> None:
    assert wanted_by(given(since=text), NOW).since == time
    assert wanted_by(given(until=text), NOW).until == time


@pytest.mark.parametrize(
    "text", [HOSTILE, "yesterday", "99999999999999d", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59"]
)
async def test_what_is_no_time_is_said(text: str) -> None:
    told = Told()
    wrong = page(await audit(told.gateway, visit("/audit", since=text)))
    assert wrong.status == 400
    assert told.asked == []


async def test_a_search_that_cannot_be_made_is_said() -> None:
    told = Told()
    told.fails = Busy()
    assert page(await audit(told.gateway, visit("/audit"))).status == 503
    told.fails = OSError("no such directory")
    with pytest.raises(Refused) as refused:
        await audit(told.gateway, visit("/audit"))
    assert refused.value.status == 503
