"""The queue between loop and thread: bounded, ordered, and it counts what it refuses."""

from __future__ import annotations

import threading

import pytest

from gateway.audit import handover
from gateway.audit.handover import MAX_BATCH, Entry, Handover, Losses
from gateway.audit.sidecars import Sidecar
from tests.kit.audit import end, notice, start


def test_entries_come_out_in_order_and_in_bounded_batches() -> None:
    queue = Handover(MAX_BATCH * 2)
    for number in range(MAX_BATCH + 5):
        assert queue.put(Entry(notice(number), durable=False))
    first, _ = queue.take(0)
    second, _ = queue.take(0)

    assert len(first) == MAX_BATCH
    assert [entry.record for entry in first + second] == [notice(number) for number in range(MAX_BATCH + 5)]
    assert len(queue) == 0


def test_what_does_not_fit_is_refused_and_counted() -> None:
    queue = Handover(2)
    results = [queue.put(Entry(record, durable=True)) for record in (start("a"), start("b"), start("c"), end("a"))]
    batch, lost = queue.take(0)

    assert results == [True, True, False, False]
    assert len(batch) == 2
    assert lost.events == {"call.start": 1, "call.end": 1}
    assert lost.ends == {"a"}
    assert not queue.take(0)[1]


def test_a_closed_handover_gives_the_rest_and_takes_no_more() -> None:
    queue = Handover(4)
    queue.put(Entry(notice(1), durable=False))
    queue.close()

    assert not queue.put(Entry(notice(2), durable=False))
    done = [queue.is_done]
    assert len(queue.take(None)[0]) == 1
    done.append(queue.is_done)
    assert done == [False, True]
    assert queue.take(None)[0] == []


def test_a_waiting_thread_is_woken_by_an_entry() -> None:
    queue = Handover(4)
    taken: list[Entry] = []
    thread = threading.Thread(target=lambda: taken.extend(queue.take(5)[0]))
    thread.start()
    queue.put(Entry(notice(1), durable=False))
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


def test_payloads_wait_with_a_bound_and_go_with_the_records_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "MAX_BESIDE", 10)
    queue = Handover(5)
    assert queue.keep(Sidecar("a", "key:bot", b"x" * 6))
    assert not queue.keep(Sidecar("b", "key:bot", b"x" * 6))
    assert queue.keep(Sidecar("c", "key:bot", b"x" * 4))
    assert [each.id for each in queue.beside()] == ["a", "c"]
    assert queue.beside() == []
    assert queue.keep(Sidecar("d", "key:bot", b"x" * 10))
    queue.close()
    assert not queue.keep(Sidecar("e", "key:bot", b""))
