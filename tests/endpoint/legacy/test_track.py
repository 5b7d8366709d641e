"""Streams that outlive their connection, without any network: ids, what is sent again, what is forgotten."""

from __future__ import annotations

import pytest

from gateway.endpoint.legacy import track as module
from gateway.endpoint.legacy.shelf import Shelf
from gateway.endpoint.legacy.track import MAX_TRACKS, Forgotten, Sort, Tracks
from gateway.endpoint.stream import EventStream
from gateway.protocol.sse import Parser


class Stream(EventStream):
    """A connection that keeps what is written to it; not to a real one."""

    def __init__(self) -> None:
        self.prologue = b""
        self.written: list[bytes] = []
        self.begun = False
        self.is_open = True

    @property
    def started(self) -> bool:
        return self.begun

    @property
    def open(self) -> bool:
        return self.is_open

    def start(self) -> None:
        self.begun = True

    def has_room(self, size: int) -> bool:
        return size < 200

    def put(self, event: bytes) -> None:
        if self.is_open:
            self.begun = True
            self.written.append(event)

    def close(self, last: bytes | None) -> None:
        if self.is_open:
            self.begun = True
            self.written += [] if last is None else [last]
            self.is_open = False

    def end(self) -> None:
        self.is_open = False

    def abandon(self) -> None:
        self.is_open = False

    @property
    def told(self) -> list[tuple[str | None, bytes]]:
        """Ids and data, the prologue's first."""
        events = Parser(10_000).feed(self.prologue + b"".join(self.written))
        return [(event.id, event.data) for event in events]


def tracks(primed: bool = True) -> Tracks:
    return Tracks(Shelf(), primed=primed)


def test_a_primed_stream_begins_with_an_id_and_a_time_to_wait_and_no_data() -> None:
    stream = Stream()
    track = tracks().begin(Sort.CALL, stream)
    assert stream.prologue == b"event: message\nid: c1.0\nretry: 1000\ndata: \n\n"
    track.send(b"1")
    track.close(b"2")
    track.close(b"3")
    track.send(b"4")
    assert stream.told == [("c1.0", b""), ("c1.1", b"1"), ("c1.2", b"2")]


def test_a_stream_of_an_older_version_is_not_primed_and_has_ids() -> None:
    stream = Stream()
    tracks(primed=False).begin(Sort.GET, stream).send(b"1")
    assert stream.told == [("g1.1", b"1")]


def test_a_message_that_may_be_lost_is_neither_sent_nor_kept_where_there_is_no_room() -> None:
    stream = Stream()
    track = tracks(primed=False).begin(Sort.CALL, stream)
    track.send(b"1")
    track.offer(b"x" * 100)
    track.offer(b"2")
    assert [data for _, data in stream.told] == [b"1", b"2"]


def test_ids_are_unique_in_a_session() -> None:
    own = tracks()
    streams = [Stream() for _ in range(4)]
    for stream, sort in zip(streams, (Sort.CALL, Sort.GET, Sort.CALL, Sort.GET), strict=True):
        track = own.begin(sort, stream)
        track.send(b"x")
        track.send(b"y")
    ids = [identifier for stream in streams for identifier, _ in stream.told]
    assert len(set(ids)) == len(ids) == 12


def test_who_comes_back_gets_what_it_missed_of_this_stream_and_the_rest() -> None:
    own = tracks()
    first, second, other = Stream(), Stream(), Stream()
    track = own.begin(Sort.CALL, first)
    own.begin(Sort.CALL, other).send(b"other")
    for number in range(3):
        track.send(b"%d" % number)
    track.abandon()
    track.send(b"3")
    found = own.find("c1.1")
    assert found == (track, 1)
    track.rejoin(second, 1)
    track.send(b"4")
    track.close(b"done")
    assert second.told == [(f"c1.{number}", b"%d" % (number - 1)) for number in range(2, 6)] + [("c1.6", b"done")]
    assert (len(first.told), second.open) == (4, False)


def test_a_stream_that_is_over_gives_its_answer_to_who_comes_late() -> None:
    own = tracks()
    first, second = Stream(), Stream()
    track = own.begin(Sort.CALL, first)
    first.start()
    track.abandon()
    track.close(b"answer")
    track.rejoin(second, 0)
    assert (second.told, second.started, second.open) == ([("c1.1", b"answer")], True, False)


def test_a_connection_that_is_still_open_ends_when_its_client_comes_back_on_another() -> None:
    own = tracks()
    first, second = Stream(), Stream()
    track = own.begin(Sort.GET, first)
    first.start()
    track.rejoin(second, 0)
    track.send(b"1")
    assert (first.open, first.written, second.told) == (False, [], [("g1.1", b"1")])


def test_nothing_is_kept_for_a_client_that_never_saw_an_id() -> None:
    shelf = Shelf()
    own = Tracks(shelf, primed=True)
    track = own.begin(Sort.CALL, Stream())
    track.abandon()
    track.send(b"1")
    assert (len(shelf), track.started) == (0, False)
    own.drop(track)
    assert len(own) == 0


@pytest.mark.parametrize("identifier", [None, "", "7", "g9.1", "x1.1", "c1", "c1.1.1", "c-1.1", "c" + "1" * 99 + ".1"])
def test_an_event_of_no_call_leads_to_a_new_stream(identifier: str | None) -> None:
    assert tracks().find(identifier) is None


def test_an_event_of_a_call_that_is_forgotten_is_an_error() -> None:
    own = tracks()
    stream = Stream()
    track = own.begin(Sort.CALL, stream)
    track.send(b"1")
    assert own.find("c1.1") is not None
    track.close(None)
    track.forget()
    for identifier in ("c1.1", "c2.0"):
        with pytest.raises(Forgotten):
            own.find(identifier)


def test_a_stream_keeps_only_its_newest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRACK_EVENTS", 3)
    shelf = Shelf()
    own = Tracks(shelf)
    first, second = Stream(), Stream()
    track = own.begin(Sort.GET, first)
    for number in range(1, 8):
        track.send(b"%d" % number)
    track.rejoin(second, 0)
    assert [data for _, data in second.told] == [b"5", b"6", b"7"]


def test_a_session_keeps_so_many_streams_nobody_hears_and_every_open_one() -> None:
    shelf = Shelf()
    own = Tracks(shelf)
    heard = own.begin(Sort.GET, Stream())
    for _ in range(MAX_TRACKS + 10):
        track = own.begin(Sort.CALL, Stream())
        track.send(b"x")
        track.abandon()
    own.begin(Sort.GET, Stream())
    assert len(own) == MAX_TRACKS + 1
    assert own.find(f"{heard.name}.0") == (heard, 0)
    with pytest.raises(Forgotten):
        own.find("c2.1")
    own.close()
    assert (len(own), shelf.size) == (0, 0)


def test_a_stream_of_another_replica_is_never_taken_for_an_own_one() -> None:
    """Both count from one: the id of an event says whose it is."""
    here, there = Tracks(Shelf(), tag="0a1b2c3d4e5f-"), Tracks(Shelf(), tag="ffffffffffff-")
    call, plain = here.begin(Sort.CALL, Stream()), here.begin(Sort.GET, Stream())
    there.begin(Sort.CALL, Stream())
    there.begin(Sort.GET, Stream())
    for track in (call, plain):
        track.send(b"x")
        assert here.find(f"{track.name}.1") == (track, 1)
    assert (call.sort, plain.sort) == (Sort.CALL, Sort.GET)
    assert there.find(f"{plain.name}.1") is None
    with pytest.raises(Forgotten):
        there.find(f"{call.name}.1")
