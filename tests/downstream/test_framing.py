from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.downstream.framing import Event, Line, Splitter, TooLong


def whole(data: bytes, limit: int = 100) -> list[Event]:
    return Splitter(limit).feed(data)


def test_only_a_line_feed_ends_a_message() -> None:
    """G001: U+2028, U+2029, U+0085, vertical tab, form feed and a bare carriage return are part of the message."""
    line = "a\u2028b\u2029c\u0085d\ve\ff\rg".encode()
    assert whole(line + b"\n") == [Line(line)]


def test_a_carriage_return_before_the_end_is_dropped() -> None:
    """G009"""
    assert whole(b'{"a":1}\r\n{"b":2}\n') == [Line(b'{"a":1}'), Line(b'{"b":2}')]


def test_blank_lines_are_skipped() -> None:
    assert whole(b"\n\r\n  \t\n{}\n") == [Line(b"{}")]


def test_an_unfinished_line_waits_for_its_end() -> None:
    """G005: two messages in one chunk, and one cut inside a character."""
    splitter = Splitter(100)
    data = '{"x":"é"}'.encode()
    assert splitter.feed(b"one\ntwo\n" + data[:6]) == [Line(b"one"), Line(b"two")]
    assert splitter.feed(data[6:] + b"\n") == [Line(data)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_limit_counts_the_message_without_its_line_end(end: bytes) -> None:
    assert whole(b"x" * 100 + end) == [Line(b"x" * 100)]
    assert whole(b"x" * 101 + end) == [TooLong(100)]


def test_a_line_without_an_end_is_reported_once_and_its_rest_is_dropped() -> None:
    """G004"""
    splitter = Splitter(100)
    assert splitter.feed(b"x" * 102) == [TooLong(100)]
    assert splitter.feed(b"x" * 1000) == []
    assert splitter.feed(b"x\nnext\n") == [Line(b"next")]


@given(
    st.lists(st.sampled_from([b"a" * 9, b"b" * 10, b"c" * 11, b"d" * 12, b"e" * 30, b"\r", b"\n", b""]), max_size=12),
    st.lists(st.integers(1, 7), min_size=1, max_size=20),
)
def test_the_chunking_changes_nothing(parts: list[bytes], sizes: list[int]) -> None:
    """G003"""
    data = b"\n".join(parts) + b"\n"
    splitter, events, at, turn = Splitter(10), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        events += splitter.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    assert events == whole(data, 10)


def test_a_long_message_in_tiny_chunks_is_not_copied_for_each_of_them() -> None:
    """G004: with a copy a chunk this would move over 100 GB and run into the time limit of every test."""
    splitter = Splitter(2**23)
    for _ in range(2**17):
        splitter.feed(b"x" * 64)
    assert splitter.feed(b"\n") == [Line(b"x" * 2**23)]
