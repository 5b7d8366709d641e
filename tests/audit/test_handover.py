"""The queue between loop and thread: bounded, ordered, and it counts what it refuses."""

from __future__ import annotations

import threading

from gateway.audit.handover import MAX_BATCH, Entry, Handover, Losses
from tests.kit.audit import end, notice, start


def test_entries_come_out_in_order_and_in_bounded_batches() -> None:
    handover = Handover(MAX_BATCH * 2)
    for number in range(MAX_BATCH + 5):
        assert handover.put(Entry(notice(number), durable=False))
    first, _ = handover.take(0)
    second, _ = handover.take(0)

    assert len(first) == MAX_BATCH
    assert [entry.record for entry in first + second] == [notice(number) for number in range(MAX_BATCH + 5)]
    assert len(handover) == 0


def test_what_does_not_fit_is_refused_and_counted() -> None:
    handover = Handover(2)
    results = [handover.put(Entry(record, durable=True)) for record in (start("a"), start("b"), start("c"), end("a"))]
    batch, lost = handover.take(0)

    assert results == [True, True, False, False]
    assert len(batch) == 2
    assert lost.events == {"call.start": 1, "call.end": 1}
    assert lost.ends == {"a"}
    assert not handover.take(0)[1]


def test_a_closed_handover_gives_the_rest_and_takes_no_more() -> None:
    handover = Handover(4)
    handover.put(Entry(notice(1), durable=False))
    handover.close()

    assert not handover.put(Entry(notice(2), durable=False))
    done = [handover.is_done]
    assert len(handover.take(None)[0]) == 1
    done.append(handover.is_done)
    assert done == [False, True]
    assert handover.take(None)[0] == []


def test_a_waiting_thread_is_woken_by_an_entry() -> None:
    handover = Handover(4)
    taken: list[Entry] = []
    thread = threading.Thread(target=lambda: taken.extend(handover.take(5)[0]))
    thread.start()
    handover.put(Entry(notice(1), durable=False))
    thread.join(5)

    assert [entry.event for entry in taken] == ["gateway.started"]


def test_the_logs_own_accounts_are_no_losses() -> None:
    losses = Losses()
    losses.add({"event": "audit.gap"})
    losses.add({"event": "call.orphaned", "call_id": "a"})
    assert losses.events == {}

    other = Losses()
    other.add(end("b"))
    losses.merge(other)
    assert (losses.events, losses.ends) == ({"call.end": 1}, {"b"})
