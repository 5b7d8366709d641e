"""The end of a log, read while it grows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.audit.segment import list_segments
from gateway.audit.tail import Tail
from tests.kit.audit import journal, notice, write_log


def all_lines(directory: Path) -> list[bytes]:
    return [line for segment in list_segments(directory) for line in segment.path.read_bytes().splitlines()]


@pytest.mark.parametrize("count", [0, 1, 3, 20, 400, 5000])
def test_the_last_lines_come_from_as_many_segments_as_it_takes(tmp_path: Path, count: int) -> None:
    write_log(tmp_path, 600, max_segment=40_000)
    everything = all_lines(tmp_path)

    assert len(list_segments(tmp_path)) > 3
    assert Tail(tmp_path).last(count) == (everything[-count:] if count else [])


def test_what_is_added_is_read_once_over_segments_too(tmp_path: Path) -> None:
    log = journal(tmp_path, max_segment=1500)
    log.open()
    tail = Tail(tmp_path)
    seen = tail.last(20)
    for number in range(40):
        log.write([notice(number)])
        if number % 7 == 0:
            seen += tail.more()
    seen += tail.more()
    log.close()

    assert len(list_segments(tmp_path)) > 3
    assert seen == all_lines(tmp_path)
    assert tail.more() == []


def test_a_line_that_is_still_being_written_comes_when_it_is_whole(tmp_path: Path) -> None:
    segment = tmp_path / "00000001.jsonl"
    segment.write_bytes(b"one\ntw")
    tail = Tail(tmp_path)
    assert tail.last(20) == [b"one"]
    assert tail.more() == []

    with segment.open("ab") as file:
        file.write(b"o\nthr")
    assert tail.more() == [b"two"]


def test_a_segment_that_was_cut_back_does_not_stop_the_reader(tmp_path: Path) -> None:
    segment = tmp_path / "00000001.jsonl"
    segment.write_bytes(b"one\nfailed\n")
    tail = Tail(tmp_path)
    assert tail.last(20) == [b"one", b"failed"]

    os.truncate(segment, 4)
    (tmp_path / "00000002.jsonl").write_bytes(b"two\n")
    assert tail.more() == [b"two"]


def test_an_empty_directory_has_no_lines_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert Tail(tmp_path).last(20) == []
    assert Tail(tmp_path).more() == []
    with pytest.raises(FileNotFoundError):
        Tail(tmp_path / "missing").last(20)
