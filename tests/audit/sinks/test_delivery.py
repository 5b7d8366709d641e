"""Delivery in order, at least once, with pauses for a sink that is away and a file for what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.audit.sinks import delivery
from gateway.audit.sinks.delivery import Delivery, Route, Unavailable
from gateway.audit.sinks.feed import Feed
from gateway.audit.sinks.webhook import HttpSink, json_lines
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from tests.kit.audit import read_log, write_log
from tests.kit.hook import Hook, until


class Counts:
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.arrived = self.failures = self.waiting = 0
        self.gone: dict[str, int] = {}

    def sent(self, records: int) -> None:
        self.arrived += records

    def failed(self) -> None:
        self.failures += 1

    def lost(self, records: int, result: str) -> None:
        self.gone[result] = self.gone.get(result, 0) + records

    def lag(self, records: int) -> None:
        self.waiting = records


def route(folder: Path, url: str, counts: Counts) -> Route:
    feed = Feed(folder / "log", folder / "state" / "hook.json")
    sink = HttpSink(url, json_lines, timeout=2.0)
    return Route("hook", sink, feed, folder / "state" / "hook.dead.jsonl", counts, lambda: 10**9)


async def test_a_sink_that_is_away_gets_everything_when_it_is_back(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 300)
    counts, tasks = Counts(), TaskSet(on_crash(get_logger("test")))
    async with Hook.listening() as hook:
        hook.answers = [500, 503, 429, 404]
        way = route(tmp_path, hook.url, counts)
        tasks.start(Delivery(way, poll=0.01, first_pause=0.01).run(), "sink")
        await until(lambda: len(hook.records()) == 301)
        await until(lambda: counts.arrived == 301)
        await tasks.aclose()
        await way.sink.aclose()

        assert [record["seq"] for record in hook.records()] == [record["seq"] for record in read_log(tmp_path / "log")]
    assert counts.failures == 4
    assert counts.gone == {}


async def test_nothing_is_lost_over_a_restart(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 250)
    counts = Counts()
    async with Hook.listening() as hook:
        first = route(tmp_path, hook.url, counts)
        first.feed.resume()
        assert await Delivery(first).step()
        await first.sink.aclose()
        hook.answers = [503]
        second = route(tmp_path, hook.url, counts)
        second.feed.resume()
        going_on = Delivery(second)
        with pytest.raises(Unavailable):
            await going_on.step()
        while await going_on.step():
            continue
        await second.sink.aclose()

        assert [record["seq"] for record in hook.records()] == [*range(1, 252)]


async def test_a_refused_record_goes_to_a_file_and_the_others_arrive(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 20)
    counts = Counts()
    async with Hook.listening() as hook:
        hook.refuses = b'"number":7}'
        way = route(tmp_path, hook.url, counts)
        way.feed.resume()
        assert await Delivery(way).step()
        await way.sink.aclose()
        assert len(hook.records()) == 20

    assert counts.gone == {"dead": 1}
    assert b'"number":7}' in way.dead.read_bytes()
    assert way.dead.stat().st_mode & 0o777 == 0o600


async def test_the_file_of_refused_records_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_DEAD", 500)
    write_log(tmp_path / "log", 20)
    counts = Counts()
    async with Hook.listening() as hook:
        hook.refuses = b"number"
        way = route(tmp_path, hook.url, counts)
        way.feed.resume()
        await Delivery(way).step()
        await way.sink.aclose()

    assert counts.gone["dead"] == 21
    assert way.dead.stat().st_size < 2000
