"""A flood of equal refusals makes few records, and their counts add up."""

from __future__ import annotations

from gateway.audit.aggregate import Aggregator


def test_up_to_the_rate_every_event_has_its_record() -> None:
    aggregator = Aggregator()

    assert [aggregator.take("alice", 0.05 * number) for number in range(10)] == [1] * 10


def test_above_the_rate_events_are_counted_into_the_next_record() -> None:
    aggregator = Aggregator(rate=2)

    assert [aggregator.take("alice", 0.0) for _ in range(5)] == [1, 1, 0, 0, 0]
    assert aggregator.take("alice", 1.0) == 4
    assert aggregator.take("alice", 1.0) == 1


def test_principals_do_not_share_a_rate() -> None:
    aggregator = Aggregator(rate=1)

    assert [aggregator.take(key, 0.0) for key in ("alice", "alice", "bob")] == [1, 0, 1]


def test_what_is_held_back_for_somebody_who_fell_silent_comes_with_the_drain() -> None:
    aggregator = Aggregator(rate=1)
    for _ in range(4):
        aggregator.take("alice", 0.0)
    aggregator.take("bob", 0.0)

    assert aggregator.drain(0.5) == []
    assert aggregator.drain(1.0) == [("alice", 3)]
    assert aggregator.drain(1.0) == []
    assert len(aggregator) == 0


def test_many_keys_take_bounded_room_and_lose_no_count() -> None:
    aggregator = Aggregator(rate=1, max_keys=100)
    written = 0
    for number in range(1000):
        written += aggregator.take(f"key-{number}", 0.0)
        written += aggregator.take(f"key-{number}", 0.0)
        assert len(aggregator) <= 100
    held_back = aggregator.drain(5.0)

    assert dict(held_back)[""] == 900
    assert written + sum(count for _, count in held_back) == 2000


def test_who_asks_again_is_not_the_one_to_give_way() -> None:
    aggregator = Aggregator(rate=1, max_keys=2)
    for key in ("alice", "bob", "alice", "carol"):
        aggregator.take(key, 0.0)

    assert aggregator.take("alice", 0.1) == 0
