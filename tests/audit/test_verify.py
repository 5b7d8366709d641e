"""The verifier finds every edit and names the first bad line (S163, S165, R-C28)."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gateway.audit.chain import ChainError, Head, check
from gateway.audit.verify import CannotTell, Evidence, Verdict, read_anchors, verify
from tests.kit.audit import journal, read_log, write_log, write_signed_log
from tests.kit.audit_edits import edit_at_random, rewritten


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def with_lines(directory: Path, lines: list[bytes]) -> Verdict:
    """Verify a log of one segment that holds these lines."""
    (directory / "00000001.jsonl").write_bytes(b"".join(lines))
    return verify(directory)


def fault_of(verdict: Verdict) -> tuple[str, int, int]:
    assert verdict.fault is not None
    return verdict.fault.segment, verdict.fault.line, verdict.fault.seq


def test_a_log_as_it_was_written_is_good(tmp_path: Path) -> None:
    write_log(tmp_path, 500, max_segment=20_000)
    verdict = verify(tmp_path)
    records = read_log(tmp_path)

    assert verdict.ok
    assert verdict.segments == len(list(tmp_path.glob("*.jsonl"))) > 3
    assert verdict.records == len(records) == 500 + verdict.segments
    assert verdict.head is not None
    assert verdict.head.hash == records[-1]["hash"]


def test_every_flipped_byte_of_a_line_is_found(tmp_path: Path) -> None:
    """S165: a 200-record file, every position, as the check of one line sees it."""
    write_log(tmp_path, 199)
    lines = lines_of(tmp_path / "00000001.jsonl")
    dice = random.Random(1)
    head: Head | None = None
    tried = 0
    for line in lines:
        body = line[:-1]
        for position, value in enumerate(body):
            other = bytes([value ^ dice.randrange(1, 256)])
            tried += 1
            with pytest.raises(ChainError):
                check(body[:position] + other + body[position + 1 :], head)
        _, head = check(body, head)

    assert tried == sum(map(len, lines)) - 200


def test_a_flipped_byte_of_a_file_is_named_by_its_line(tmp_path: Path) -> None:
    """S165: positions all over a 200-record file, every line end, and every line cut in two."""
    write_log(tmp_path, 199)
    segment = tmp_path / "00000001.jsonl"
    data = segment.read_bytes()
    dice = random.Random(1)
    flips = [(position, data[position] ^ dice.randrange(1, 256)) for position in range(0, len(data), 41)]
    flips += [(position, dice.choice(b"\0\t x}")) for position, value in enumerate(data) if value == 10]
    flips += [(position, 10) for position in range(7, len(data), 311) if data[position] != 10]
    descriptor = os.open(segment, os.O_WRONLY)
    missed: list[int] = []
    for position, other in flips:
        os.pwrite(descriptor, bytes([other]), position)
        verdict = verify(tmp_path)
        os.pwrite(descriptor, data[position : position + 1], position)
        if verdict.fault is None or verdict.fault.line != data.count(b"\n", 0, position) + 1:
            missed.append(position)
    os.close(descriptor)

    assert len(flips) > 1500
    assert missed == []
    assert verify(tmp_path).records == 200


@pytest.mark.parametrize("other", [0, 9, 13, 32, 34, 44, 92, 123, 125, 255])
def test_the_last_line_end_is_found_whatever_takes_its_place(tmp_path: Path, other: int) -> None:
    write_log(tmp_path, 3)
    segment = tmp_path / "00000001.jsonl"
    segment.write_bytes(segment.read_bytes()[:-1] + bytes([other]))

    assert fault_of(verify(tmp_path)) == ("00000001.jsonl", 4, 4)


def test_a_line_taken_out_is_missed_at_its_place(tmp_path: Path) -> None:
    write_log(tmp_path, 20)
    lines = lines_of(tmp_path / "00000001.jsonl")

    for gone in range(1, 20):
        verdict = with_lines(tmp_path, lines[:gone] + lines[gone + 1 :])
        assert fault_of(verdict) == ("00000001.jsonl", gone + 1, gone + 1)
        assert verdict.records == gone


def test_a_line_doubled_swapped_or_put_in_is_found(tmp_path: Path) -> None:
    write_log(tmp_path, 20)
    write_log(tmp_path / "other", 20)
    lines = lines_of(tmp_path / "00000001.jsonl")
    foreign = lines_of(tmp_path / "other" / "00000001.jsonl")

    doubled = [*lines[:7], lines[6], *lines[7:]]
    swapped = [*lines[:5], lines[6], lines[5], *lines[7:]]
    replaced = [*lines[:5], foreign[5], *lines[6:]]
    empty = [*lines[:5], b"\n", *lines[5:]]
    appended = [*lines, foreign[10]]

    assert fault_of(with_lines(tmp_path, doubled)) == ("00000001.jsonl", 8, 8)
    assert fault_of(with_lines(tmp_path, swapped)) == ("00000001.jsonl", 6, 6)
    assert fault_of(with_lines(tmp_path, replaced)) == ("00000001.jsonl", 6, 6)
    assert fault_of(with_lines(tmp_path, empty)) == ("00000001.jsonl", 6, 6)
    assert fault_of(with_lines(tmp_path, appended)) == ("00000001.jsonl", 22, 22)


def three_segments(directory: Path) -> list[Path]:
    write_log(directory, 60, max_segment=8000)
    segments = sorted(directory.glob("*.jsonl"))
    assert len(segments) == 3
    return segments


def test_a_line_moved_to_another_file_is_found(tmp_path: Path) -> None:
    first, second, _ = three_segments(tmp_path)
    ahead, behind = lines_of(first), lines_of(second)
    first.write_bytes(b"".join([*ahead, behind[0]]))
    second.write_bytes(b"".join(behind[1:]))
    assert fault_of(verify(tmp_path)) == (second.name, 1, len(ahead) + 2)

    first.write_bytes(b"".join(ahead[:-1]))
    second.write_bytes(b"".join([ahead[-1], *behind]))
    assert fault_of(verify(tmp_path)) == (second.name, 1, len(ahead))


def test_segments_in_another_order_are_found(tmp_path: Path) -> None:
    first, second, third = three_segments(tmp_path)
    second.rename(tmp_path / "spare")
    third.rename(second)
    (tmp_path / "spare").rename(third)

    assert fault_of(verify(tmp_path)) == (second.name, 1, len(lines_of(first)) + 1)


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    first, second, _ = three_segments(tmp_path)
    lines, kept = len(lines_of(first)), second.read_bytes()
    second.unlink()
    assert fault_of(verify(tmp_path)) == ("00000003.jsonl", 1, lines + 1)

    second.write_bytes(kept)
    first.unlink()
    verdict = verify(tmp_path)
    assert fault_of(verdict) == (second.name, 1, 1)
    assert "missing" in str(verdict.fault)


def test_an_emptied_segment_is_found(tmp_path: Path) -> None:
    first, second, _ = three_segments(tmp_path)
    os.truncate(second, 0)

    assert fault_of(verify(tmp_path)) == (second.name, 1, len(lines_of(first)) + 1)


def test_a_renamed_segment_is_found(tmp_path: Path) -> None:
    _, _, third = three_segments(tmp_path)
    third.rename(tmp_path / "00000007.jsonl")

    verdict = verify(tmp_path)
    assert fault_of(verdict)[:2] == ("00000007.jsonl", 1)
    assert "was segment 3" in str(verdict.fault)


def test_an_unfinished_line_is_no_fault_at_the_end_and_one_elsewhere(tmp_path: Path) -> None:
    _, second, third = three_segments(tmp_path)
    whole = verify(tmp_path).records
    third.write_bytes(third.read_bytes()[:-10])
    verdict = verify(tmp_path)
    assert verdict.ok
    assert verdict.records == whole - 1
    assert verdict.unfinished > 0

    third.write_bytes(third.read_bytes() + b"x" * 20_000)
    assert "longer than a record" in str(verify(tmp_path).fault)

    second.write_bytes(second.read_bytes()[:-1])
    assert fault_of(verify(tmp_path))[0] == second.name


def test_an_unfinished_line_must_still_be_the_next_one(tmp_path: Path) -> None:
    write_log(tmp_path, 4)
    lines = lines_of(tmp_path / "00000001.jsonl")

    assert with_lines(tmp_path, [*lines[:4], lines[4][:-1]]).unfinished == len(lines[4]) - 1
    assert fault_of(with_lines(tmp_path, [*lines[:3], lines[4][:-1]])) == ("00000001.jsonl", 4, 4)


def test_a_log_that_went_on_after_a_crash_is_good(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    with (tmp_path / "00000001.jsonl").open("ab") as file:
        file.write(b'{"torn')
    write_log(tmp_path, 5)

    assert verify(tmp_path).ok
    assert read_log(tmp_path)[6]["event"] == "audit.segment"


def test_a_log_can_be_checked_while_it_is_written(tmp_path: Path) -> None:
    log = journal(tmp_path)
    log.open()
    assert verify(tmp_path).records == 1
    log.write([{"event": "gateway.started"}])
    assert verify(tmp_path).records == 2
    log.close()


def test_random_edits_are_all_found_at_their_line(tmp_path: Path) -> None:
    """R-C28, in its short form."""
    write_log(tmp_path, 50)
    lines = lines_of(tmp_path / "00000001.jsonl")
    dice = random.Random(7)

    for _ in range(500):
        edited = dice.randrange(len(lines))
        data = bytearray(lines[edited][:-1])
        for _ in range(dice.randrange(1, 4)):
            position = dice.randrange(len(data))
            data[position : position + dice.randrange(3)] = dice.randbytes(dice.randrange(1, 3)).replace(b"\n", b"\t")
        if bytes(data) == lines[edited][:-1]:
            continue
        verdict = with_lines(tmp_path, [*lines[:edited], bytes(data) + b"\n", *lines[edited + 1 :]])
        assert fault_of(verdict) == ("00000001.jsonl", edited + 1, edited + 1)


def test_where_there_is_nothing_to_check_nothing_can_be_told(tmp_path: Path) -> None:
    with pytest.raises(CannotTell, match="cannot be read"):
        verify(tmp_path / "missing")
    with pytest.raises(CannotTell, match="no audit records"):
        verify(tmp_path)
    (tmp_path / "00000001.jsonl").touch()
    with pytest.raises(CannotTell, match="no audit records"):
        verify(tmp_path)


def test_a_file_that_cannot_be_read_leaves_it_open(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    (tmp_path / "00000002.jsonl").mkdir()

    with pytest.raises(CannotTell, match="cannot be read"):
        verify(tmp_path)


def test_random_edits_of_a_signed_log_are_all_found_at_their_line(tmp_path: Path) -> None:
    """R-C28; ``python -m tests.bench.audit_edits`` makes 2,000 of them."""
    write_signed_log(tmp_path / "log", tmp_path / "state", 90, max_segment=11_000)
    missed = [miss for miss in edit_at_random(tmp_path / "log", tmp_path / "work", 200, seed=7) if miss]
    assert missed == []


def test_a_chain_written_anew_without_the_key_is_found_at_the_next_checkpoint(tmp_path: Path) -> None:
    """S164."""
    log = tmp_path / "log"
    write_signed_log(log, tmp_path / "state", 50)
    (log / "checkpoint.json").unlink()
    lines = lines_of(log / "00000001.jsonl")

    for at in (0, 2, 30, len(lines) - 2):
        (log / "00000001.jsonl").write_bytes(b"".join(rewritten(lines, at)))
        fault = fault_of(verify(log))
        assert fault[1] == (2 if at == 0 else len(lines)), at
    (log / "00000001.jsonl").write_bytes(b"".join(rewritten(lines, 2)[:-1]))
    verdict = verify(log)
    assert (verdict.ok, verdict.unanchored) == (True, 50), "what nobody signed yet is said to be so"
    assert "would not be seen" in verdict.notes[0]


def test_a_chain_of_somebody_elses_key_is_found_with_a_key_kept_elsewhere(tmp_path: Path) -> None:
    write_signed_log(tmp_path / "log", tmp_path / "state", 5)
    trusted = (tmp_path / "log" / "public.pem").read_bytes()
    write_signed_log(tmp_path / "forged", tmp_path / "other", 5)

    assert verify(tmp_path / "log", Evidence(keys=trusted)).ok
    assert "not trusted" in str(verify(tmp_path / "forged", Evidence(keys=trusted)).fault)
    with pytest.raises(CannotTell, match="public key"):
        verify(tmp_path / "log", Evidence(keys=b"no key"))
    (tmp_path / "log" / "public.pem").unlink()
    with pytest.raises(CannotTell, match=r"no public\.pem"):
        verify(tmp_path / "log")


def test_an_unsigned_segment_in_a_signed_log_is_found(tmp_path: Path) -> None:
    write_signed_log(tmp_path, tmp_path / "state", 2)
    write_log(tmp_path, 2)
    assert "without a checkpoint at its beginning" in str(verify(tmp_path).fault)


def test_records_that_were_kept_elsewhere_must_be_in_the_log(tmp_path: Path) -> None:
    write_log(tmp_path / "log", 20)
    kept = tmp_path / "kept.jsonl"
    lines = lines_of(tmp_path / "log" / "00000001.jsonl")
    kept.write_bytes(lines[7] + lines[18])
    anchors = read_anchors(kept)

    assert verify(tmp_path / "log", Evidence(anchors=anchors)).ok
    with_lines(tmp_path / "log", lines[:15])
    fault = verify(tmp_path / "log", Evidence(anchors=anchors)).fault
    assert str(fault) == "00000001.jsonl:16 seq 16: records up to 19 are missing at the end"
    with_lines(tmp_path / "log", rewritten(lines, 3))
    assert fault_of(verify(tmp_path / "log", Evidence(anchors=anchors))) == ("00000001.jsonl", 8, 8)
    for text in (b"no json", b"{}", b"[]"):
        kept.write_bytes(text)
        with pytest.raises(CannotTell):
            read_anchors(kept)
    with pytest.raises(CannotTell):
        read_anchors(tmp_path / "missing")
