"""Old segments go, whole and with a signed tombstone, and the rest can still be checked (S167)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gateway.audit.retention import Expiry
from gateway.audit.sidecars import Sidecar, Sidecars
from gateway.audit.verify import verify
from tests.kit.audit import read_log, signed_journal, write_signed_log


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.jsonl"))


def expire(log: Path, state: Path, retention: float) -> None:
    journal = signed_journal(log, state, retention=retention)
    journal.open()
    journal.sign()
    journal.sync()
    journal.close()


def test_segments_older_than_the_limit_go_and_verify_goes_on_from_the_tombstone(tmp_path: Path) -> None:
    log, state = tmp_path / "a", tmp_path / "s"
    write_signed_log(log, state, 100, max_segment=10_000)
    last = segments(log)[-1]
    expire(log, state, 0.0)

    left = segments(log)
    assert left[0] >= last
    verdict = verify(log)
    assert verdict.fault is None
    assert verdict.first > 50
    (tombstone,) = (record for record in read_log(log) if record["event"] == "audit.tombstone")
    assert isinstance(tombstone["tombstone"], dict)
    assert tombstone["tombstone"]["last_seq"] == verdict.first - 1
    write_signed_log(log, state, 10)
    expire(log, state, 0.0)
    assert verify(log).ok
    assert verify(log).first > verdict.first


def test_what_is_younger_stays(tmp_path: Path) -> None:
    log, state = tmp_path / "a", tmp_path / "s"
    write_signed_log(log, state, 100, max_segment=10_000)
    before = segments(log)
    expire(log, state, 3600.0)
    assert segments(log)[: len(before)] == before
    assert Expiry.find(log, time.time() - 3600) is None


def test_segments_that_somebody_else_deleted_are_missing(tmp_path: Path) -> None:
    """A tombstone of earlier segments explains no further gap."""
    log, state = tmp_path / "a", tmp_path / "s"
    write_signed_log(log, state, 60, max_segment=10_000)
    expire(log, state, 0.0)
    write_signed_log(log, state, 60, max_segment=10_000)
    (log / segments(log)[0]).unlink()

    assert "missing" in str(verify(log).fault)


def test_a_deletion_that_was_interrupted_is_explained_and_completed(tmp_path: Path) -> None:
    log, state = tmp_path / "a", tmp_path / "s"
    write_signed_log(log, state, 60, max_segment=10_000)
    names = segments(log)
    kept = {name: (log / name).read_bytes() for name in names}
    expire(log, state, 0.0)
    for name in names[1:-1]:
        (log / name).write_bytes(kept[name])

    assert verify(log).ok
    expire(log, state, 0.0)
    assert not {*names[:-1]} & {*segments(log)}
    assert verify(log).ok


@pytest.mark.parametrize("kept", [0, 1])
def test_payloads_of_days_before_the_limit_go_too(tmp_path: Path, kept: int) -> None:
    sidecars = Sidecars(tmp_path / "a", tmp_path / "s")
    sidecars.write([Sidecar("1", "key:bot", b"{}")])
    (path,) = (tmp_path / "a" / "payloads").iterdir()
    os.rename(path, path.with_name("20200101.jsonl"))
    sidecars.expire(1_577_836_800.0 + (0 if kept else 86_400))
    assert len([*(tmp_path / "a" / "payloads").iterdir()]) == kept
