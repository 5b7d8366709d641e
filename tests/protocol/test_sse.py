"""Server-sent events against the HTML standard §9.2.6 (G003, G017, G018, G022), and what we write ourselves."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import sse
from gateway.protocol.sse import Event, Parser, TooLarge

LIMIT = 1 << 20


def events(*chunks: bytes, limit: int = LIMIT) -> list[Event]:
    parser = Parser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # Examples of the standard.
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Event(b"YHOO\n+2\n10")]),
        (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
         [Event(b"first event", id="1"), Event(b"second event", id=""), Event(b" third event")]),
        (b"data\n\ndata\ndata\n\ndata:", [Event(b""), Event(b"\n")]),
        (b"data:test\n\ndata: test\n\n", [Event(b"test"), Event(b"test")]),
        # Fields.
        (b"data: a\nevent: ping\n\n", [Event(b"a", "ping")]),
        (b"event: ping\nevent:\ndata: a\n\n", [Event(b"a", "message")]),
        (b"event\ndata: a\n\n", [Event(b"a", "message")]),
        (b"event: ping\n\ndata: a\n\n", [Event(b"a", "message")]),
        (b"DATA: a\nData: b\n\n", []),
        (b" data: a\n\n", []),
        (b"data : a\n\n", []),
        (b"data:a:b: c\n\n", [Event(b"a:b: c")]),
        (b"data:\ta\n\n", [Event(b"\ta")]),
        (b"unknown: a\ndata: b\nunknown\n\n", [Event(b"b")]),
        (b":\n:data: a\n: hb\n\n", []),
        (b"data: {\"a\":\ndata: 1}\n\n", [Event(b'{"a":\n1}')]),
        # Ids.
        (b"id: a\nid: b\ndata: x\n\n", [Event(b"x", id="b")]),
        (b"id: a\nid: b\0c\ndata: x\n\n", [Event(b"x", id="a")]),
        (b"id: \0\ndata: x\n\n", [Event(b"x")]),
        ("id: é\ndata: x\n\n".encode(), [Event(b"x", id="é")]),
        (b"id: \xff\ndata: x\n\n", [Event(b"x", id="\ufffd")]),
        # Data is bytes; what is in it is judged elsewhere.
        (b"data: \xff\xc3(\n\n", [Event(b"\xff\xc3(")]),
        ("data: a\u2028b\x85c\x0b\x0cd\x1c\n\n".encode(), [Event("a\u2028b\x85c\x0b\x0cd\x1c".encode())]),
        # A block that never ends is no event.
        (b"data: a\n", []),
        (b"data: a", []),
        (b"", []),
        (b"\n\n\n", []),
    ],
)  # fmt: skip
def test_a_stream_is_read_as_the_standard_says(text: bytes, found: list[Event]) -> None:
    assert events(text) == found


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_three_line_ends_are_equal_wherever_a_chunk_ends(end: bytes) -> None:
    text = end.join([b"event: ping", b"data: a", b"data: b", b"", b"id: 7", b"data: c", b"", b"data: d", b"", b""])
    found = [Event(b"a\nb", "ping"), Event(b"c", id="7"), Event(b"d")]
    assert events(text) == found
    assert events(*(text[at : at + 1] for at in range(len(text)))) == found
    assert all(events(text[:at], text[at:]) == found for at in range(len(text)))


def test_line_ends_may_be_mixed() -> None:
    assert events(b"data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r") == [Event(b"a\nb\nc"), Event(b"d")]


def test_a_line_feed_after_a_carriage_return_is_no_line_of_its_own() -> None:
    parser = Parser(LIMIT)
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\ndata: b\r") == []
    assert parser.feed(b"") == []
    assert parser.feed(b"\n\r") == [Event(b"a\nb")]
    assert parser.feed(b"\n") == []
    assert parser.feed(b"data: c\n\n") == [Event(b"c")]


@pytest.mark.parametrize("chunks", [(b"\xef\xbb\xbfdata: a\n\n",), (b"\xef", b"\xbb\xbf", b"data: a\n", b"\n")])
def test_one_leading_byte_order_mark_is_dropped(chunks: Iterable[bytes]) -> None:
    assert events(*chunks) == [Event(b"a")]


def test_any_other_byte_order_mark_is_part_of_its_line() -> None:
    assert events(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n") == []
    assert events(b"\n\xef\xbb\xbfdata: a\n\n") == []


def test_a_priming_event_is_empty_and_moves_the_last_id() -> None:
    """G018; 2025-11-25 basic/transports §Sending Messages, point 6: an id with an empty data field."""
    parser = Parser(LIMIT)
    assert parser.feed(b"id: 41\nretry: 500\ndata:\n\n") == [Event(b"", id="41")]
    assert (parser.last_event_id, parser.retry_ms) == ("41", 500)


def test_the_last_id_follows_finished_blocks_with_and_without_data() -> None:
    parser = Parser(LIMIT)
    assert parser.last_event_id == ""
    parser.feed(b"id: 1\n")
    assert parser.last_event_id == ""
    assert parser.feed(b"\n") == []
    assert parser.last_event_id == "1"
    assert parser.feed(b"data: a\n\n") == [Event(b"a", id=None)]
    assert parser.last_event_id == "1"
    assert parser.feed(b"id: x\0\n\n") == []
    assert parser.last_event_id == "1"
    assert parser.feed(b"id\n\n") == []
    assert parser.last_event_id == ""


@pytest.mark.parametrize(
    ("field", "retry"),
    [
        (b"retry: 500", 500),
        (b"retry:0", 0),
        (b"retry: 999999999", 999999999),
        (b"retry: 0000000000", None),
        (b"retry: 9999999999", None),
        (b"retry", None),
        (b"retry: ", None),
        (b"retry: 1.5", None),
        (b"retry: -1", None),
        (b"retry: +1", None),
        (b"retry:  1", None),
        (b"retry: 1s", None),
        ("retry: ٣".encode(), None),
    ],
)
def test_only_digits_set_the_time_to_wait(field: bytes, retry: int | None) -> None:
    parser = Parser(LIMIT)
    assert parser.feed(field + b"\n") == []
    assert parser.retry_ms == retry


def all_chunkings(text: bytes, limit: int) -> list[str]:
    """Return how the text ends, in one chunk, byte by byte, and cut in two at every place."""
    cuts = [(text,), tuple(text[at : at + 1] for at in range(len(text)))]
    cuts += [(text[:at], text[at:]) for at in range(1, len(text))]
    ends = []
    for chunks in cuts:
        try:
            ends.append(repr(events(*chunks, limit=limit)))
        except TooLarge:
            ends.append("too large")
    return ends


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (b"data: " + b"x" * 40 + b"\n\n", True),
        (b"data:" + b"x" * 40 + b"\n\n", True),
        (b"data: " + b"x" * 20 + b"\r\ndata: " + b"y" * 19 + b"\r\n\r\n", True),
        (b"event: message\nid: 12345\ndata: " + b"x" * 40 + b"\nretry: 5\nid: 99\n\n", True),
        (b": " + b"x" * 40 + b"\n" + b"data: " + b"y" * 40 + b"\n\n", True),
        ((b"data: " + b"x" * 40 + b"\n\n") * 3, True),
        (b"data: " + b"x" * 41 + b"\n\n", False),
        (b"data:" + b"x" * 41 + b"\n\n", False),
        (b"data: " + b"x" * 20 + b"\ndata: " + b"y" * 20 + b"\n\n", False),
        (b"data\n" * 42 + b"\n", False),
        (b": " + b"x" * 60 + b"\n\n", False),
        (b"x" * 60 + b"\n", False),
    ],
)
def test_the_limit_counts_data_and_not_chunks(text: bytes, fits: bool) -> None:
    """G003: the same bytes pass or fail whatever the pieces they come in."""
    ends = all_chunkings(text, 40)
    assert len(set(ends)) == 1
    assert (ends[0] != "too large") is fits


def test_a_line_without_an_end_is_held_up_to_the_limit_only() -> None:
    parser = Parser(1000)
    parser.feed(b"data: " + b"x" * 1000)
    with pytest.raises(TooLarge):
        parser.feed(b"x")


def test_a_line_of_megabytes_passes_in_pieces() -> None:
    """G022: a long line is no error below the limit, and costs one pass over its bytes."""
    data = b"x" * (8 << 20)
    text = b"data: " + data + b"\n\n"
    parser = Parser(len(data))
    found = [event for at in range(0, len(text), 1 << 16) for event in parser.feed(text[at : at + (1 << 16)])]
    assert found == [Event(data)]


@pytest.mark.parametrize("line", [b"\n", b"data\r\r"])
def test_two_mebibytes_of_short_lines_are_read_in_one_pass(line: bytes) -> None:
    """Searching the rest of the chunk again for each line would outlast the timeout."""
    found = events(line * ((2 << 20) // len(line)))
    assert all(event == Event(b"") for event in found)


STREAMS = st.lists(
    st.sampled_from(
        [
            b"data",
            b"data: ",
            b"data:a",
            b"id: 1",
            b"id",
            b"event: e",
            b"retry: 5",
            b":c",
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
        ]
    )
    | st.binary(max_size=3),
    max_size=30,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(STREAMS, st.lists(st.integers(0, 100), max_size=8))
def test_any_chunking_gives_the_same_events(text: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole, cut = Parser(LIMIT), Parser(LIMIT)
    assert [event for piece in pieces for event in cut.feed(piece)] == whole.feed(text)
    assert (cut.last_event_id, cut.retry_ms) == (whole.last_event_id, whole.retry_ms)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_are_events_or_too_large(chunks: list[bytes]) -> None:
    with suppress(TooLarge):
        for event in events(*chunks, limit=30):
            assert len(event.data) <= 30


def test_what_we_write_always_has_a_name() -> None:
    """G018: some clients ignore events without one."""
    assert sse.encode(b'{"a":1}') == b'event: message\ndata: {"a":1}\n\n'
    assert sse.encode(b"{}", "7", 500) == b"event: message\nid: 7\nretry: 500\ndata: {}\n\n"
    assert sse.encode(b"", "7") == b"event: message\nid: 7\ndata: \n\n"


def test_line_breaks_inside_json_become_lines_of_data() -> None:
    assert sse.encode(b'{\r\n"a":\r1,\n"b":2}') == b'event: message\ndata: {\ndata: "a":\ndata: 1,\ndata: "b":2}\n\n'


@settings(max_examples=200, deadline=None)
@given(st.binary(), st.none() | st.text("0123456789abcdef-", min_size=1))
def test_what_we_write_is_read_back(data: bytes, event_id: str | None) -> None:
    plain = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert events(sse.encode(data, event_id)) == [Event(plain, "message", event_id)]


def test_a_heartbeat_is_no_event_and_breaks_none() -> None:
    assert events(sse.HEARTBEAT) == []
    assert events(sse.encode(b"{}"), sse.HEARTBEAT, sse.encode(b"[]")) == [Event(b"{}"), Event(b"[]")]


def test_a_stream_asks_proxies_to_leave_it_alone() -> None:
    assert sse.HEADERS["Content-Type"] == "text/event-stream"
    assert "no-transform" in sse.HEADERS["Cache-Control"]
    assert sse.HEADERS["X-Accel-Buffering"] == "no"
