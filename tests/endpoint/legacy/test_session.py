"""Sessions: whose they are, when they end, who has to go (S87, S88, S90, G035, G037, G038)."""

from __future__ import annotations

import json
import re

import pytest

from gateway.endpoint.legacy.session import (
    IDLE,
    LONGEST_UNHEARD,
    MAX_UNHEARD,
    Full,
    Session,
    Sessions,
    is_session_id,
    key_of,
    new_session_id,
)
from gateway.endpoint.running import Ticket
from gateway.endpoint.stream import EventStream
from gateway.errors import Reason
from gateway.model.principal import Principal

ALICE, BOB = Principal("key:alice", "key", "alice"), Principal("key:bob", "key", "bob")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream(EventStream):
    """A stream that keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_open = True

    @property
    def open(self) -> bool:
        return self.is_open

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def end(self) -> None:
        self.is_open = False


class Stopped(Ticket):
    """A ticket without a task."""

    def stop(self, reason: Reason) -> None:
        self.reason = reason


def session(principal: Principal = ALICE, view: str | None = None, used: float = 0.0) -> Session:
    return Session(new_session_id(), principal, view, "2025-11-25", {}, {}, used)


def test_ids_are_long_random_and_visible() -> None:
    ids = {new_session_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", identifier) for identifier in ids)
    assert len({identifier[:8] for identifier in ids}) > 9_990


def test_a_session_is_found_only_by_its_principal_and_view() -> None:
    sessions = Sessions(2, Clock())
    mine = session(view="v")
    assert sessions.open(mine) is None
    assert sessions.find(mine.id, ALICE, "v") is mine
    assert sessions.find(mine.id, ALICE, None) is None
    assert sessions.find(mine.id, BOB, "v") is None
    assert sessions.find("nope", ALICE, "v") is None
    assert (sessions.is_foreign(mine.id, BOB), sessions.is_foreign(mine.id, ALICE), sessions.is_foreign("x", BOB)) == (
        True,
        False,
        False,
    )


def test_a_session_belongs_to_the_principal_and_not_to_one_credential() -> None:
    sessions = Sessions(2, Clock())
    mine = session(Principal("key:alice", "key", "alice", credential="old"))
    sessions.open(mine)
    assert sessions.find(mine.id, Principal("key:alice", "key", "alice", credential="new"), None) is mine


def test_a_session_lives_as_long_as_it_is_used() -> None:
    clock = Clock()
    sessions = Sessions(2, clock)
    mine = session()
    sessions.open(mine)
    for _ in range(10):
        clock.now += IDLE - 1
        assert sessions.find(mine.id, ALICE, None) is mine
    clock.now += IDLE
    assert sessions.find(mine.id, ALICE, None) is None
    assert sessions.expired() == [mine]
    assert (len(sessions), mine.ended) == (0, True)


def test_a_busy_session_is_not_idle() -> None:
    clock = Clock()
    sessions = Sessions(2, clock)
    waiting, listening = session(), session()
    waiting.calls[key_of(1)] = Ticket()
    listening.attach(Stream())
    for each in (waiting, listening):
        sessions.open(each)
    clock.now = 10 * IDLE
    assert sessions.expired() == []
    sessions.touch(waiting)
    waiting.calls.clear()
    assert sessions.expired() == []


def test_the_longest_unused_session_makes_room() -> None:
    clock = Clock()
    sessions = Sessions(2, clock)
    first, second, third = session(), session(), session()
    other = session(BOB)
    for each in (other, first, second):
        assert sessions.open(each) is None
    sessions.find(first.id, ALICE, None)
    assert sessions.open(third) is second
    assert second.ended
    assert {each.id for each in sessions.all()} == {other.id, first.id, third.id}


def test_without_an_idle_session_there_is_no_room() -> None:
    sessions = Sessions(1, Clock())
    busy = session()
    busy.calls[key_of(1)] = Ticket()
    sessions.open(busy)
    with pytest.raises(Full):
        sessions.open(session())
    sessions.open(session(BOB))


def test_all_principals_together_have_a_cap_too() -> None:
    sessions = Sessions(5, Clock(), most=2)
    first = session()
    sessions.open(first)
    sessions.open(session(BOB))
    assert sessions.open(session(BOB)) is first


def test_many_handshakes_leave_no_more_than_the_cap() -> None:
    """G037."""
    sessions = Sessions(100, Clock())
    for _ in range(5_000):
        sessions.open(session())
    assert len(sessions) == 100


def test_ending_stops_calls_and_streams_and_is_final() -> None:
    sessions = Sessions(2, Clock())
    mine, ticket, stream, heard = session(), Stopped(), Stream(), []
    mine.calls[key_of("7")] = ticket
    mine.attach(stream)
    mine.subscriptions = [lambda: heard.append("unsubscribed")]
    sessions.open(mine)
    sessions.close(mine)
    sessions.touch(mine)
    assert (ticket.reason, stream.open, heard) == (Reason.CANCELLED, False, ["unsubscribed"])
    assert sessions.find(mine.id, ALICE, None) is None


@pytest.mark.parametrize(
    ("asked", "stopped"), [(1, True), ("1", False), (True, False), (1.0, False), (None, False), ([1], False)]
)
def test_a_cancellation_must_name_the_id_with_its_type(asked: object, stopped: bool) -> None:
    """G043, G048."""
    mine, ticket = session(), Stopped()
    mine.calls[key_of(1)] = ticket
    mine.cancel(asked)
    assert (ticket.reason is Reason.CANCELLED) is stopped


def test_a_change_is_told_on_one_stream_the_newest_that_is_open() -> None:
    mine, old, new, gone = session(), Stream(), Stream(), Stream()
    for stream in (old, new, gone):
        mine.attach(stream)
    gone.end()
    mine.announce("notifications/tools/list_changed")
    assert (old.sent, len(new.sent), gone.sent) == ([], 1, [])


def test_an_update_waits_for_a_stream_like_any_change_up_to_a_bound() -> None:
    one, stream = session(), Stream()
    one.updated("note://" + "long" * LONGEST_UNHEARD)
    for number in [*range(MAX_UNHEARD + 10), 0]:
        one.updated(f"note://{number}")
    one.attach(stream)
    assert [json.loads(data)["params"]["uri"] for data in stream.sent] == [f"note://{n}" for n in range(MAX_UNHEARD)]
    one.updated("note://now")
    assert json.loads(stream.sent[-1])["params"] == {"uri": "note://now"}


def test_a_change_nobody_could_be_told_is_told_to_the_next_stream_once() -> None:
    mine, stream = session(), Stream()
    for _ in range(3):
        mine.announce("notifications/tools/list_changed")
    mine.attach(stream)
    assert stream.sent == [b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}']
    mine.detach(stream)
    mine.detach(stream)
    assert mine.streams == []


def test_an_id_has_one_form() -> None:
    assert is_session_id(new_session_id())
    assert not any(is_session_id(text) for text in ("", "x" * 42, "x" * 44, "x" * 42 + "/", "x" * 43 + "\n"))


def test_what_others_learn_of_a_session_includes_what_it_subscribed_to_with_them() -> None:
    mine = session(view="v")
    mine.log_level, mine.revision = "debug", 3
    mine.uris["note://1"] = ("one", "note://1")
    mine.elsewhere["note://2"] = ("one", "note://2")
    facts = mine.facts()
    assert (facts.principal, facts.view, facts.version) == ("key:alice", "v", "2025-11-25")
    assert (facts.log_level, facts.revision, set(facts.uris)) == ("debug", 3, {"note://1", "note://2"})


def test_a_stream_that_comes_is_heeded() -> None:
    mine, heeded = session(), []
    mine.heeded = lambda: heeded.append(len(mine.streams))
    mine.attach(Stream())
    assert heeded == [1]
