"""What the charts show after a restart: read back from real records, bounded, and without what is no record."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.admin.operations import Act
from gateway.admin.views import Chosen
from gateway.audit import events, payload, record
from gateway.audit.record import DecisionFacts, Ending
from gateway.errors import Reason
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.operations import Operator
from gateway.protocol.rawjson import Object
from gateway.recollection import Reach, gather, recollect
from gateway.traffic import NO_SUCH, Past, TrafficLog
from tests.kit.audit import KEY, PRINCIPAL, a_call, caller, journal
from tests.test_runtime import notes, running, until, write

START = datetime(2026, 8, 23, 12, 0, 30, tzinfo=UTC)
NOW = 1_000_000.0
DESCRIBED = record.describe(a_call(), DecisionFacts("allow"), payload.shape({}), KEY)
DAY = Chosen(86_400, "tool")


def at(minutes: float, entry: Object) -> Object:
    """Stamp a record so many minutes before the start."""
    return {"ts": (START - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z"), "mono_us": 1, **entry}


def ended(outcome: Outcome, seconds: float = 0.02) -> Object:
    return record.call_end(DESCRIBED, Ending(Exchange(started=1.0), outcome, 1.0 + seconds))


def refused() -> Object:
    limited = Failure(Reason.RATE_LIMITED, "Rate limit reached")
    return record.call_denied(DESCRIBED, Ending(Exchange(started=1.0), limited, 1.0))


def log(folder: Path, *records: Object) -> Path:
    made = journal(folder)
    made.open()
    for each in records:
        made.write([each])
    made.close()
    return folder


def remembered(folder: Path, reach: Reach | None = None) -> TrafficLog:
    past, traffic = Past(NOW), TrafficLog(lambda: NOW)
    gather(past, folder, START, reach)
    traffic.remember(past)
    return traffic


async def test_calls_of_the_last_hours_are_counted_when_they_ended_and_how(tmp_path: Path) -> None:
    folder = log(
        tmp_path,
        at(60 * 25, ended(Complete({}))),
        at(60 * 20, ended(Complete({}))),
        at(10, ended(Complete({}))),
        at(10, record.call_start(DESCRIBED)),
        at(2, ended(Failure(Reason.TIMEOUT, "too slow"), 30)),
        at(1, refused()),
        at(1, events.unknown_denied(events.Asked(PRINCIPAL, caller()), "guess", 7, KEY)),
        at(-1, ended(Complete({}))),
    )
    traffic = remembered(folder)
    day = await traffic.show(DAY)
    assert (day.whole.ok, day.whole.refused, day.whole.failed) == (2, 8, 1)
    assert {name: tally.calls for name, tally in day.by_name} == {"warehouse/query": 4, NO_SUCH: 7}
    hour = await traffic.show(Chosen(3600, "client"))
    assert [(name, tally.calls) for name, tally in hour.by_name] == [("example-idp", 10)]
    assert hour.whole.most_ms == 30_000
    assert [index for index, tally in enumerate(reversed(hour.over_time)) if tally.calls] == [1, 2, 10]


async def test_what_ended_since_the_start_is_added_to_and_not_lost(tmp_path: Path) -> None:
    past, traffic = Past(NOW), TrafficLog(lambda: NOW)
    gather(past, log(tmp_path, at(0, ended(Complete({}))), at(5, ended(Complete({})))), START)
    traffic.ended(a_call(), "ok", 0.01)
    traffic.remember(past)
    traffic.ended(a_call(), "ok", 0.01)
    assert (await traffic.show(Chosen(60, "tool"))).whole.ok == 3
    assert (await traffic.show(DAY)).whole.ok == 4


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"call.end"',
        b'["call.end"]',
        b'{"event":"call.end"}',
        b'{"event":"call.end","ts":"yesterday","principal":{"client":"x"},"outcome":{"status":"ok"}}',
        b'{"event":"call.end","ts":"2026-08-23T12:00:00","principal":{"client":"x"},"outcome":{"status":"ok"}}',
        b'{"event":"call.end","ts":"2026-08-23T12:00:00Z","principal":"x","outcome":[]}',
        b'{"event":"call.end","ts":"2026-08-23T12:00:00Z","principal":{"client":"x"},"outcome":{"status":"ok"},"count":-1}',
        b'{"event":"call.end","ts":"2026-08-23T12:00:00Z","principal":{"client":"x"},"outcome":{"status":"ok","dur_us":"1"}}',
        b'{"event":"other","note":"call.end","ts":"2026-08-23T12:00:00Z"}',
        b'\xff\xfe\x00 "call.end"',
    ],
)
async def test_damaged_and_foreign_lines_are_passed_over(tmp_path: Path, line: bytes) -> None:
    folder = log(tmp_path, at(2, ended(Complete({}))))
    (segment,) = folder.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(line + b"\n")
    assert (await remembered(folder).show(DAY)).whole.calls == 1


async def test_it_stops_after_so_many_bytes_and_has_the_last_calls_then(tmp_path: Path) -> None:
    folder = log(tmp_path, *(at(60 - number / 10, ended(Complete({}))) for number in range(500)))
    seen = (await remembered(folder, Reach(size=20_000, block=10_000)).show(DAY)).whole.calls
    assert 10 < seen < 100
    clock = iter([0.0, 11.0])
    past = Past(NOW)
    assert 0 < gather(past, folder, START, Reach(block=10_000), lambda: next(clock)) < 50


def test_it_stops_where_no_chart_looks_any_more(tmp_path: Path) -> None:
    folder = log(tmp_path, *(at(60 * 48, ended(Complete({}))) for _ in range(100)), at(1, ended(Complete({}))))
    looks: list[float] = []

    def clock() -> float:
        looks.append(0.0)
        return 0.0

    gather(Past(NOW), folder, START, Reach(block=2_000), clock)
    assert len(looks) < 5


async def test_a_log_that_cannot_be_read_is_no_reason_not_to_start(tmp_path: Path) -> None:
    traffic = TrafficLog()
    await recollect(traffic, tmp_path / "missing", START)
    assert (await traffic.show(DAY)).whole.calls == 0


async def counted(traffic: TrafficLog, calls: int) -> None:
    """Wait until so many are."""
    while (await traffic.show(DAY)).whole.ok != calls:
        await asyncio.sleep(0.01)


async def test_charts_go_on_after_a_restart(tmp_path: Path) -> None:
    path = write(tmp_path, servers={"a": notes(tmp_path, "one")})
    for before in (0, 2):
        async with asyncio.timeout(20), running(path) as runtime:
            await until(lambda: bool(runtime.current().catalog.routes), "a catalog")
            await counted(runtime.traffic, before)
            operator = Operator(runtime, "http://127.0.0.1:8080/mcp")
            for _ in range(2):
                await operator.call_as(Act("alice", ""), "anonymous", "a/whoami", {})
            await counted(runtime.traffic, before + 2)
            assert [name for name, _ in (await runtime.traffic.show(DAY)).by_name] == ["a/whoami"]
