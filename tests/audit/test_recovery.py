"""What a crash leaves behind is put in order, and damage is not (S161, S162, G108)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.audit.chain import Head
from gateway.audit.recovery import recover
from gateway.audit.verify import verify
from gateway.errors import ConfigError
from tests.kit.audit import STAMP, end, events, journal, read_log, start, write_log


def copy_cut(source: Path, target: Path, size: int) -> Path:
    target.mkdir()
    segment = target / source.name
    segment.write_bytes(source.read_bytes()[:size])
    return segment


def last_head(directory: Path) -> Head:
    record = read_log(directory)[-1]
    return Head(str(record["chain"]), int(str(record["seq"])), str(record["hash"]))


def test_a_directory_without_a_log_has_no_head(tmp_path: Path) -> None:
    found = recover(tmp_path)

    assert (found.head, found.number, len(found.open), found.is_recovered) == (None, 0, 0, False)


def test_a_whole_log_is_left_as_it_is(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    before = (tmp_path / "00000001.jsonl").read_bytes()
    found = recover(tmp_path)

    assert found.head == last_head(tmp_path)
    assert (found.number, found.is_recovered) == (1, False)
    assert (tmp_path / "00000001.jsonl").read_bytes() == before


def test_a_cut_at_every_byte_of_the_last_record_is_recovered_from(tmp_path: Path) -> None:
    """S161: the torn line is moved aside and recorded, every record before it stays."""
    write_log(tmp_path / "whole", 3)
    source = tmp_path / "whole" / "00000001.jsonl"
    data = source.read_bytes()
    last = data.rfind(b"\n", 0, len(data) - 1) + 1

    for size in range(last, len(data) + 1):
        directory = tmp_path / f"cut-{size}"
        segment = copy_cut(source, directory, size)
        again = journal(directory)
        again.open()
        again.close()

        recovered = [record["audit"] for record in read_log(directory) if record["event"] == "audit.recovered"]
        assert verify(directory).ok
        if size in (last, len(data)):
            assert recovered == []
            continue
        if size == len(data) - 1:
            assert recovered == [{"torn_bytes": 0, "aside": "", "completed": True}]
            assert segment.read_bytes() == data
            continue
        assert recovered == [{"torn_bytes": size - last, "aside": "00000001.torn", "completed": False}]
        assert segment.read_bytes() == data[:last]
        assert (directory / "00000001.torn").read_bytes() == data[last:size]


def test_a_group_torn_in_its_middle_keeps_its_whole_records(tmp_path: Path) -> None:
    write_log(tmp_path / "whole", 6)
    source = tmp_path / "whole" / "00000001.jsonl"
    lines = source.read_bytes().splitlines(keepends=True)
    directory = tmp_path / "torn"
    copy_cut(source, directory, len(b"".join(lines[:4])) + 10)
    found = recover(directory)

    assert found.head is not None
    assert found.head.seq == 4
    assert found.torn == 10


def test_a_hole_after_a_power_cut_is_torn_off_with_all_behind_it(tmp_path: Path) -> None:
    write_log(tmp_path, 6)
    segment = tmp_path / "00000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    hole = bytes(len(lines[3]))
    segment.write_bytes(b"".join([*lines[:3], hole, *lines[4:]]))
    found = recover(tmp_path)

    assert found.head is not None
    assert found.head.seq == 3
    assert (tmp_path / "00000001.torn").read_bytes() == hole + b"".join(lines[4:])
    assert verify(tmp_path).records == 3


@pytest.mark.parametrize("where", [0, 2, -1])
def test_an_edited_record_stops_the_start_and_names_the_line(tmp_path: Path, where: int) -> None:
    write_log(tmp_path, 4)
    segment = tmp_path / "00000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[where] = lines[where].replace(b"event", b"evenT", 1)
    segment.write_bytes(b"".join(lines))
    number = where + 1 if where >= 0 else len(lines)

    with pytest.raises(ConfigError, match=rf"00000001.jsonl:{number}: audit segment is damaged"):
        recover(tmp_path)
    assert segment.read_bytes() == b"".join(lines)


@pytest.mark.parametrize("tail", [b"junk\n", b'{"a":1}', b"x" * 20_000, b"{}\x01"])
def test_what_no_crash_leaves_behind_is_damage(tmp_path: Path, tail: bytes) -> None:
    write_log(tmp_path, 2)
    with (tmp_path / "00000001.jsonl").open("ab") as file:
        file.write(tail)

    with pytest.raises(ConfigError, match="damaged"):
        recover(tmp_path)


def test_a_segment_that_never_got_its_head_is_moved_aside(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    (tmp_path / "00000002.jsonl").write_bytes(b'{"chain":"gw1","ev')
    (tmp_path / "00000003.jsonl").write_bytes(b"")
    found = recover(tmp_path)

    assert (found.number, found.torn, found.aside) == (1, 18, ("00000002.torn",))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001.jsonl", "00000002.torn", "lock"]
    assert found.head == last_head(tmp_path)


def test_a_segment_that_begins_with_something_else_is_damage(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    segment = tmp_path / "00000001.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[1:]))

    with pytest.raises(ConfigError, match="no segment head"):
        recover(tmp_path)


def test_what_an_earlier_crash_tore_off_is_not_overwritten(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    (tmp_path / "00000001.torn").write_bytes(b"earlier")
    with (tmp_path / "00000001.jsonl").open("ab") as file:
        file.write(b'{"later')
    found = recover(tmp_path)

    assert found.aside == ("00000001-1.torn",)
    assert (tmp_path / "00000001.torn").read_bytes() == b"earlier"
    assert (tmp_path / "00000001-1.torn").read_bytes() == b'{"later'


def test_calls_that_a_crash_left_open_are_closed_at_the_next_start(tmp_path: Path) -> None:
    """S162."""
    crashed = journal(tmp_path)
    crashed.open()
    crashed.write([{**STAMP, **record} for record in (start("a"), start("b"), end("a"), start("c"))])
    crashed.close()

    again = journal(tmp_path)
    again.open()
    again.close()
    orphaned = [record for record in read_log(tmp_path) if record["event"] == "call.orphaned"]
    assert [(record["call_id"], record["parent_seq"]) for record in orphaned] == [("b", 3), ("c", 5)]
    assert all(record["orphaned"] == {"reason": "crash"} for record in orphaned)

    third = journal(tmp_path)
    third.open()
    third.close()
    assert events(tmp_path).count("call.orphaned") == 2


def test_calls_that_began_in_an_older_segment_are_known_from_the_last_one(tmp_path: Path) -> None:
    crashed = journal(tmp_path, max_segment=2000)
    crashed.open()
    crashed.write([{**STAMP, **start(f"early-{number}")} for number in range(450)])
    for number in range(30):
        crashed.write([{**STAMP, **start(f"short-{number}")}, {**STAMP, **end(f"short-{number}")}])
    crashed.close()
    for older in sorted(tmp_path.glob("*.jsonl"))[:-1]:
        older.rename(older.with_suffix(".elsewhere"))
    found = recover(tmp_path)

    assert found.number > 2
    assert set(found.open.ids) == {f"early-{number}" for number in range(450)}
