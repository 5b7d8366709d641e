"""A flood of equal refusals makes few records, and their counts add up."""

from __future__ import annotations

from gateway.audit.aggregate import Aggregator
from gateway.protocol.rawjson import Object


class Written:
    """The records of an aggregator: whose they are and how many events each stands for."""

    def __init__(self) -> None:
        self.records: list[tuple[str, int]] = []

    def __call__(self, record: Object) -> None:
        self.records.append((str(record["of"]), int(str(record["count"]))))

    def add(self, aggregator: Aggregator, key: str, now: float, of: str = "") -> None:
        aggregator.add(key, now, lambda count: {"of": of or key, "count": count})


def test_up_to_the_rate_every_event_has_its_record() -> None:
    written = Written()
    aggregator = Aggregator(written)
    for number in range(10):
        written.add(aggregator, "alice", 0.05 * number)
    assert written.records == [("alice", 1)] * 10


def test_above_the_rate_events_are_counted_into_the_next_record() -> None:
    written = Written()
    aggregator = Aggregator(written, rate=2)
    for now in (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0):
        written.add(aggregator, "alice", now)
    assert [count for _, count in written.records] == [1, 1, 4, 1]


def test_principals_do_not_share_a_rate() -> None:
    written = Written()
    aggregator = Aggregator(written, rate=1)
    for key in ("alice", "alice", "bob"):
        written.add(aggregator, key, 0.0)
    assert written.records == [("alice", 1), ("bob", 1)]


def test_what_is_held_back_for_somebody_who_fell_silent_is_told_when_the_window_has_passed() -> None:
    written = Written()
    aggregator = Aggregator(written, rate=1)
    for of in ("first", "second", "third"):
        written.add(aggregator, "alice", 0.0, of)
    written.add(aggregator, "bob", 0.0)
    aggregator.flush(0.5)
    assert written.records == [("first", 1), ("bob", 1)]
    aggregator.flush(1.0)
    assert written.records[2:] == [("third", 2)]
    aggregator.flush(2.0)
    assert len(written.records) == 3
    assert len(aggregator) == 0


def test_a_record_of_a_flush_is_one_of_its_windows_records() -> None:
    written = Written()
    aggregator = Aggregator(written, rate=1, window=60.0)
    for now in (0.0, 1.0):
        written.add(aggregator, "alice", now)
    aggregator.flush(60.0)
    written.add(aggregator, "alice", 61.0)
    assert written.records == [("alice", 1), ("alice", 1)]
    written.add(aggregator, "alice", 120.0)
    assert written.records[2:] == [("alice", 2)]


def test_many_keys_take_bounded_room_and_lose_no_count() -> None:
    written = Written()
    aggregator = Aggregator(written, rate=1, max_keys=100)
    for number in range(1000):
        for _ in range(2):
            written.add(aggregator, f"key-{number}", 0.0)
        assert len(aggregator) <= 100
    aggregator.close()
    assert sum(count for _, count in written.records) == 2000
    assert len(aggregator) == 0


def test_who_asks_again_is_not_the_one_to_give_way() -> None:
    written = Written()
    aggregator = Aggregator(written, rate=1, max_keys=2)
    for key in ("alice", "bob", "alice", "carol", "alice"):
        written.add(aggregator, key, 0.0)
    assert written.records == [("alice", 1), ("bob", 1), ("carol", 1)]
    aggregator.close()
    assert written.records[3:] == [("alice", 2)]
