"""When checkpoints are made, with which key, and how one key follows another (S164)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gateway.audit.checkpoint import MAX_RECORDS
from gateway.audit.signing import KEY_FILE, SUCCESSOR_FILE, SigningKeys, prepare_successor
from gateway.audit.verify import Evidence, verify
from gateway.errors import ConfigError
from tests.kit.audit import events, notice, read_log, signed_journal, write_signed_log


def checkpoints(directory: Path) -> list[int]:
    return [int(str(record["seq"])) for record in read_log(directory) if record["event"] == "audit.checkpoint"]


def test_every_segment_begins_and_ends_with_a_checkpoint_and_has_one_every_thousand(tmp_path: Path) -> None:
    write_signed_log(tmp_path / "a", tmp_path / "s", 2500)

    assert checkpoints(tmp_path / "a") == [2, 2 + MAX_RECORDS + 1, 4 + 2 * MAX_RECORDS, 2505]
    write_signed_log(tmp_path / "a", tmp_path / "s", 100, max_segment=20_000)
    for segment in sorted((tmp_path / "a").glob("*.jsonl")):
        lines = [json.loads(line)["event"] for line in segment.read_bytes().splitlines()]
        assert (lines[1], lines[-1]) == ("audit.checkpoint", "audit.checkpoint")
    verdict = verify(tmp_path / "a")
    assert verdict.fault is None
    assert (verdict.unanchored, verdict.notes) == (0, ())
    assert verdict.checkpoints == len(checkpoints(tmp_path / "a"))


def test_records_wait_at_most_a_minute_for_their_checkpoint(tmp_path: Path) -> None:
    log = signed_journal(tmp_path / "a", tmp_path / "s")
    log.open()
    log.write([notice(1)])
    wait = log.tended_in(0.0)
    assert wait is not None
    log.tend(wait - 1)
    assert events(tmp_path / "a") == ["audit.checkpoint", "gateway.started"]
    log.tend(wait + 61)
    log.sync()

    assert events(tmp_path / "a") == ["audit.checkpoint", "gateway.started", "audit.checkpoint"]
    log.sign()
    assert len(events(tmp_path / "a")) == 3, "nothing was written since"
    assert json.loads((tmp_path / "a" / "checkpoint.json").read_bytes())["seq"] == 4
    log.close()


def test_an_old_segment_is_left_for_a_new_one(tmp_path: Path) -> None:
    """S166: rotation by time."""
    log = signed_journal(tmp_path / "a", tmp_path / "s")
    log.open()
    log.write([notice(1)])
    log.tend((log.tended_in(0.0) or 0) + 200_000)
    log.close()

    assert [path.name for path in sorted((tmp_path / "a").glob("*.jsonl"))] == ["00000001.jsonl", "00000002.jsonl"]
    assert verify(tmp_path / "a").ok


def test_a_signed_log_goes_on_after_a_crash_anywhere(tmp_path: Path) -> None:
    """The Merkle tree covers what an earlier run left without a checkpoint."""
    write_signed_log(tmp_path / "a", tmp_path / "s", 5)
    (first,) = (tmp_path / "a").glob("*.jsonl")
    whole = first.read_bytes()
    ends = [at + 1 for at, value in enumerate(whole) if value == 10]
    for end in [1, 150, *ends[:-1], *(end + 7 for end in ends[:-1]), ends[-1]]:
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        (tmp_path / "b" / "checkpoint.json").unlink()
        (tmp_path / "b" / first.name).write_bytes(whole[:end])
        write_signed_log(tmp_path / "b", tmp_path / "s", 2)
        verdict = verify(tmp_path / "b")
        assert verdict.fault is None, end


def test_a_key_hands_over_at_the_next_start(tmp_path: Path) -> None:
    log, state = tmp_path / "a", tmp_path / "s"
    write_signed_log(log, state, 3)
    old = (log / "public.pem").read_bytes()
    prepared = prepare_successor(state)
    write_signed_log(log, state, 3)
    write_signed_log(log, state, 3)

    assert not (state / SUCCESSOR_FILE).exists()
    assert SigningKeys.load(state).current.id == prepared.id
    assert verify(log).keys == verify(log, Evidence(keys=old)).keys
    assert verify(log, Evidence(keys=old)).ok, "the old key vouches for the new one"
    new = (log / "public.pem").read_bytes().removeprefix(old)
    assert "not trusted" in str(verify(log, Evidence(keys=new)).fault)


def test_a_crash_between_the_hand_over_and_the_files_is_made_good(tmp_path: Path) -> None:
    log, state = tmp_path / "a", tmp_path / "s"
    write_signed_log(log, state, 1)
    old = (state / KEY_FILE).read_bytes()
    prepare_successor(state)
    new = (state / SUCCESSOR_FILE).read_bytes()
    write_signed_log(log, state, 1)
    (state / KEY_FILE).write_bytes(old)
    (state / SUCCESSOR_FILE).write_bytes(new)
    (state / SUCCESSOR_FILE).chmod(0o600)
    write_signed_log(log, state, 1)

    assert verify(log).ok
    assert (state / KEY_FILE).read_bytes() == new


def test_a_log_of_another_key_is_not_gone_on_with(tmp_path: Path) -> None:
    write_signed_log(tmp_path / "a", tmp_path / "s", 1)
    with pytest.raises(ConfigError, match="not in state"):
        write_signed_log(tmp_path / "a", tmp_path / "other", 1)
