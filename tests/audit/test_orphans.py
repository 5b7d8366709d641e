"""Which calls are open, as the log tells it (S162)."""

from __future__ import annotations

import pytest

from gateway.audit.orphans import OpenCalls, gather
from gateway.protocol.rawjson import Object
from tests.kit.audit import end, notice, start


def round_of(call_id: str, *, held: bool) -> Object:
    return {"event": "call.round", "call_id": call_id, "round": {"number": 1, "held": held}}


def test_a_call_is_open_from_its_start_to_its_end() -> None:
    calls = OpenCalls()
    calls.apply(start("a"), 5)
    calls.apply(start("b"), 6)
    assert calls.start_of(end("a")) == 5
    calls.apply(end("a"), 7)

    assert calls.ids == ("b",)
    assert "a" not in calls
    assert calls.start_of(end("a")) is None


@pytest.mark.parametrize("event", ["call.end", "call.orphaned", "call.denied"])
def test_every_last_record_closes_its_call(event: str) -> None:
    calls = OpenCalls({"a": 1})
    calls.apply({"event": event, "call_id": "a"}, 2)

    assert len(calls) == 0


def test_a_call_that_waits_for_its_client_is_nobodys_unless_something_here_waits_with_it() -> None:
    calls = OpenCalls({"free": 1, "held": 2})
    calls.apply(round_of("free", held=False), 3)
    calls.apply(round_of("held", held=True), 4)
    assert calls.ids == ("held",)
    assert calls.start_of(end("held")) == 2

    calls.apply(round_of("free", held=True), 5)
    assert calls.start_of(end("free")) == 5


def test_other_records_change_nothing() -> None:
    calls = OpenCalls({"a": 1})
    others: list[Object] = [notice(1), {"event": "call.end"}, {"event": "call.end", "call_id": 7}]
    for record in others:
        calls.apply(record, 2)

    assert calls.ids == ("a",)


def test_what_was_not_made_durable_can_be_taken_back() -> None:
    calls = OpenCalls({"a": 1})
    calls.apply(start("b"), 2)
    calls.keep()
    calls.apply(end("a"), 3)
    mark = calls.mark()
    calls.apply(start("c"), 4)
    calls.apply(end("c"), 5)
    calls.apply(end("b"), 6)
    calls.revert(mark)
    assert calls.ids == ("b",)

    calls.revert()
    assert dict.fromkeys(sorted(calls.ids)) == {"a": None, "b": None}
    assert calls.start_of(end("a")) == 1


def test_open_calls_travel_in_portions() -> None:
    known = {f"call-{number}": number for number in range(450)}
    parts = OpenCalls(known).parts()

    assert [len(part) for part in parts] == [200, 200, 50]
    assert gather(parts) == known
    assert OpenCalls().parts() == [{}]
    assert gather([{"a": True, "b": "x", "c": 3}]) == {"c": 3}
