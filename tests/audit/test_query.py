"""Which records are found, and that finding them reads only what it must."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.audit.query import Wanted, as_record, joined, matching, moment, spellings
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from tests.kit.audit import KEY, journal

RECORDS: tuple[Object, ...] = (
    {
        "ts": "2026-08-23T10:00:00.000000Z",
        "event": "call.end",
        "call_id": "one",
        "server": "github",
        "tool": {"name": "create", "exposed": "github__create"},
        "principal": {"id": "key:bot", "client": "bot"},
        "outcome": {"status": "ok", "error_type": None},
    },
    {
        "ts": "2026-08-23T11:00:00.000000Z",
        "event": "call.denied",
        "call_id": "two",
        "server": "wiki",
        "tool": {"name": "search", "exposed": "wiki__search"},
        "principal": {"sub_h": "k1:ab", "client": "jwt:as"},
        "outcome": {"status": "denied", "error_type": "approval_required"},
    },
    {"ts": "2026-08-23T12:00:00.000000Z", "event": "admin.reload", "admin": {"user": "alice"}},
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), [0, 1, 2]),
        (Wanted(server="github"), [0]),
        (Wanted(tool="search"), [1]),
        (Wanted(tool="wiki__search"), [1]),
        (Wanted(tool="sear"), []),
        (Wanted(event="call.*"), [0, 1]),
        (Wanted(event="call.end"), [0]),
        (Wanted(outcome="denied"), [1]),
        (Wanted(outcome="approval_required"), [1]),
        (Wanted(call="two"), [1]),
        (Wanted(principal=frozenset({"key:bot"})), [0]),
        (Wanted(principal=frozenset({"bot", "jwt:as"})), [0, 1]),
        (Wanted(principal=frozenset({"k1:ab"})), [1]),
        (Wanted(principal=frozenset({"alice"})), [2]),
        (Wanted(since="2026-08-23T11:00:00.000000Z"), [1, 2]),
        (Wanted(until="2026-08-23T11:00:00.000000Z"), [0]),
        (Wanted(since="2026-08-23T10:30", until="2026-08-23T11:30"), [1]),
        (Wanted(server="github", outcome="denied"), []),
    ],
)
def test_records_are_found_by_what_they_say(tmp_path: Path, wanted: Wanted, found: list[int]) -> None:
    log = journal(tmp_path)
    log.open()
    for each in RECORDS:
        log.write([each])
    log.close()

    events = [record["event"] for record in matching(tmp_path, wanted) if record["event"] != "audit.segment"]
    assert events == [RECORDS[index]["event"] for index in found]


def test_several_logs_are_one_in_the_order_of_their_times(tmp_path: Path) -> None:
    """A call that began at one replica and ended at another has its records in the logs of both."""
    for name, own in (("a", RECORDS[::2]), ("b", RECORDS[1:2])):
        (tmp_path / name).mkdir()
        lines = [rawjson.encode(record) for record in own]
        (tmp_path / name / "00000001.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    both = [tmp_path / "a", tmp_path / "b"]
    assert [*joined(both, Wanted())] == [*RECORDS]
    assert [*joined(both, Wanted(call="two"))] == [RECORDS[1]]
    assert [*joined(both[:1], Wanted())] == [*RECORDS[::2]]


def test_how_much_of_all_logs_was_read_is_told(tmp_path: Path) -> None:
    logs = [tmp_path / "a", tmp_path / "b"]
    for folder in logs:
        folder.mkdir()
        (folder / "00000001.jsonl").write_bytes((rawjson.encode(RECORDS[0]) + b"\n") * 2000)
    heard: list[int] = []
    assert sum(1 for _ in joined(logs, Wanted(), heard.append)) == 4000
    whole = sum((folder / "00000001.jsonl").stat().st_size for folder in logs)
    assert heard == sorted(heard)
    assert whole * 3 // 4 < heard[-1] <= whole


def test_lines_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "00000001.jsonl").write_bytes(b'no json\n[1]\n{"event":"a"}\n{"event":"unfinished"}')
    assert [*matching(tmp_path, Wanted())] == [{"event": "a"}]
    assert as_record(b"[]") is None


def test_progress_is_told_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "00000001.jsonl").write_bytes((b"{}" + b" " * 4093 + b"\n") * 20)
    told: list[int] = []
    assert len([*matching(tmp_path, Wanted(), told.append)]) == 20
    assert told == [65_536]


def test_a_subject_is_found_by_its_name_where_the_key_is_known() -> None:
    who = "sub:https://as.example/alice"
    digest = KEY.digest("subject", b"alice", 32)
    assert spellings("", KEY) == frozenset()
    assert spellings("key:bot", KEY) == {"key:bot"}
    assert spellings(who, None) == {who}
    assert {who, digest} <= spellings(who, KEY)


@pytest.mark.parametrize(
    "wanted",
    [Wanted(event="admin.*"), Wanted(event="*.reload"), Wanted(event="[a]dmin.reload"), Wanted(frozenset({"alice"}))],
)
def test_a_line_that_matches_holds_every_needle(wanted: Wanted) -> None:
    line = rawjson.encode(RECORDS[2])
    assert wanted.matches(RECORDS[2])
    assert all(needle in line for needle in wanted.needles())
    assert len(wanted.needles()) <= 1


NOW = datetime(2026, 8, 23, 12, tzinfo=UTC)


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
    assert moment(text, NOW) == time


@pytest.mark.parametrize("text", ["yesterday", "-2h", "99999999999999d", "9999-12-31T23:59:59-23:59"])
def test_what_no_calendar_has_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no time such as"):
        moment(text, NOW)
