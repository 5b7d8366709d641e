"""One file of the log: its name, its rights, its tail, and what a refusing disk leaves behind."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from gateway.audit.chain import MAX_RECORD
from gateway.audit.segment import (
    Disk,
    Identity,
    SegmentFile,
    cut,
    list_segments,
    read_lines,
    segment_path,
    whole_length,
)
from tests.kit.audit import FlakyDisk


def create(directory: Path, disk: Disk | None = None) -> SegmentFile:
    return SegmentFile.create(segment_path(directory, 1), disk or Disk())


def test_segments_are_listed_in_their_order_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("00000010.jsonl", "00000002.jsonl", "00000002.torn", "lock", "2.jsonl", "00000002.jsonl.bak"):
        (tmp_path / name).touch()

    assert [(segment.number, segment.path.name) for segment in list_segments(tmp_path)] == [
        (2, "00000002.jsonl"),
        (10, "00000010.jsonl"),
    ]


def test_a_file_is_private_and_appended_to(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        segment = create(tmp_path)
    finally:
        os.umask(before)
    segment.append(b"one\n")
    segment.append(b"two\n")
    segment.check()
    segment.sync()
    segment.publish()
    segment.close()

    assert stat.S_IMODE(segment.path.stat().st_mode) == 0o600
    assert segment.path.read_bytes() == b"one\ntwo\n"
    assert (segment.size, segment.durable) == (8, 8)


def test_an_existing_file_is_never_begun_again(tmp_path: Path) -> None:
    create(tmp_path).close()

    with pytest.raises(FileExistsError):
        create(tmp_path)


def test_a_write_in_pieces_is_one_write(tmp_path: Path) -> None:
    segment = create(tmp_path, Disk(write=lambda descriptor, data: os.write(descriptor, data[:3])))
    segment.append(b"a longer line\n")
    segment.close()

    assert segment.path.read_bytes() == b"a longer line\n"


def test_a_full_disk_leaves_a_part_that_does_not_count_and_can_be_dropped(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    segment = create(tmp_path, flaky.disk())
    segment.append(b"good\n")
    flaky.room = 3
    with pytest.raises(OSError, match="No space"):
        segment.append(b"too much\n")
    assert segment.path.read_bytes() == b"good\ntoo"

    segment.settle()
    assert segment.path.read_bytes() == b"good\n"
    assert segment.durable == segment.size == 5
    segment.close()


def test_a_failed_sync_confirms_nothing(tmp_path: Path) -> None:
    flaky = FlakyDisk()
    segment = create(tmp_path, flaky.disk())
    segment.append(b"one\n")
    segment.sync()
    segment.append(b"two\n")
    flaky.sync_error = errno.EIO
    with pytest.raises(OSError, match="error"):
        segment.sync()

    assert (segment.size, segment.durable) == (8, 4)
    segment.close()
    segment.close()


def test_the_system_call_that_makes_durable_can_fail_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = create(tmp_path)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse, raising=False)
    monkeypatch.setattr("fcntl.fcntl", lambda descriptor, command: refuse(descriptor))
    with pytest.raises(OSError, match="Input/output"):
        segment.sync()
    segment.close()


@pytest.mark.parametrize("change", ["moved", "removed", "replaced", "cut", "written"])
def test_whatever_somebody_else_does_to_the_file_is_noticed(tmp_path: Path, change: str) -> None:
    """S166: mv and copytruncate from outside."""
    segment = create(tmp_path)
    segment.append(b"one\n")
    match change:
        case "moved":
            segment.path.rename(tmp_path / "elsewhere")
        case "removed":
            segment.path.unlink()
        case "replaced":
            segment.path.rename(tmp_path / "elsewhere")
            segment.path.write_bytes(b"one\n")
        case "cut":
            os.truncate(segment.path, 0)
        case "written":
            with segment.path.open("ab") as file:
                file.write(b"forged\n")

    with pytest.raises(OSError, match=r"moved|No such file"):
        segment.check()
    segment.close()


def test_lines_come_with_their_end_or_without(tmp_path: Path) -> None:
    path = tmp_path / "00000001.jsonl"
    path.write_bytes(b"one\n\ntwo\r\nthree")

    assert list(read_lines(path)) == [(b"one", True), (b"", True), (b"two\r", True), (b"three", False)]


def test_no_line_takes_more_room_than_a_record(tmp_path: Path) -> None:
    path = tmp_path / "00000001.jsonl"
    path.write_bytes(b"x" * (MAX_RECORD - 1) + b"\n" + b"y" * 10 * MAX_RECORD)
    lines = list(read_lines(path))

    assert lines[0] == (b"x" * (MAX_RECORD - 1), True)
    assert all(len(line) <= MAX_RECORD and not ended for line, ended in lines[1:])


@pytest.mark.parametrize(
    ("tail", "length"),
    [
        (b'{"a":1}', 7),
        (b'{"a":1}x', 7),
        (b'{"a":1}}', 7),
        (b'{"a":{"b":"}"}', 0),
        (b'{"a":"}', 0),
        (b'{"a":"\\"}"', 0),
        (b'{"a":{}}\n{', 8),
        (b"", 0),
        (b"rubbish", 0),
        (b"}", 1),
    ],
)
def test_a_torn_line_holds_no_whole_object(tail: bytes, length: int) -> None:
    assert whole_length(tail) == length


def test_a_file_is_cut_back_to_what_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "00000001.jsonl"
    path.write_bytes(b"durable\nnot")
    identity = Identity.of(path.stat())

    assert cut(path, identity, 8) == 3
    assert path.read_bytes() == b"durable\n"
    assert cut(path, identity, 8) == 0
    assert cut(path, identity, 100) == 0


def test_another_file_or_none_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "00000001.jsonl"
    path.write_bytes(b"somebody else's")

    assert cut(path, Identity(0, 0), 0) == 0
    assert path.read_bytes() == b"somebody else's"
    assert cut(tmp_path / "missing", Identity(0, 0), 0) == 0
