"""A sink's place in the log: nothing twice, nothing left out, nothing that the disk has not confirmed."""

from __future__ import annotations

from pathlib import Path

from gateway.audit.sinks.feed import BATCH, Feed
from tests.kit.audit import journal, notice, read_log, write_log


def feed(folder: Path) -> Feed:
    made = Feed(folder / "log", folder / "places" / "sink.json")
    made.resume()
    return made


def drained(one: Feed, durable: int = 10**9) -> list[int]:
    found: list[int] = []
    while (batch := one.read(durable)).records:
        found += [int(str(record["seq"])) for record in batch.records]
        one.delivered(batch)
    return found


def test_every_record_comes_once_over_segments_and_restarts(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 700, max_segment=20_000)
    one = feed(tmp_path)
    batch = one.read(10**9)
    assert len(batch.records) == BATCH
    one.delivered(batch)
    rest = drained(feed(tmp_path))
    assert [*range(1, BATCH + 1), *rest] == [record["seq"] for record in read_log(tmp_path / "log")]
    write_log(tmp_path / "log", 3)
    assert drained(feed(tmp_path)) == [rest[-1] + number for number in (1, 2, 3, 4)]


def test_what_was_not_delivered_comes_again(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 10)
    one = feed(tmp_path)
    first = one.read(10**9)
    one.rewind()
    assert one.read(10**9).records == first.records
    assert feed(tmp_path).read(10**9).records == first.records


def test_what_is_not_durable_waits(tmp_path: Path) -> None:
    log = journal(tmp_path / "log")
    log.open()
    log.write([notice(1)])
    one = feed(tmp_path)
    assert drained(one, log.durable_seq) == [1]
    log.sync()
    assert drained(one, log.durable_seq) == [2]
    log.write([notice(2), notice(3)])
    log.sync()
    assert drained(one, log.durable_seq) == [3, 4]
    log.close()


def test_what_was_deleted_unread_is_counted(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 100, max_segment=5_000)
    one = feed(tmp_path)
    batch = one.read(5)
    one.delivered(batch)
    paths = sorted((tmp_path / "log").glob("*.jsonl"))
    for path in paths[:3]:
        path.unlink()
    following = feed(tmp_path).read(10**9)
    assert following.lost == int(str(following.records[0]["seq"])) - batch.last - 1 > 0


def test_a_new_sink_begins_with_what_is_there(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 100, max_segment=5_000)
    sorted((tmp_path / "log").glob("*.jsonl"))[0].unlink()
    assert feed(tmp_path).read(10**9).lost == 0


def test_a_new_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 10)
    drained(feed(tmp_path))
    (tmp_path / "log").rename(tmp_path / "old")
    write_log(tmp_path / "log", 2)
    assert drained(feed(tmp_path)) == [1, 2, 3]


def test_a_damaged_place_means_from_the_beginning(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 2)
    drained(feed(tmp_path))
    (tmp_path / "places" / "sink.json").write_text("no json")
    assert drained(feed(tmp_path)) == [1, 2, 3]
