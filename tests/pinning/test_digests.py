"""Files whose content is part of an identity."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gateway.pinning.digests import MISSING, file_digest, seals_of, started


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.write_bytes(b"x" * 3_000_000)
    assert file_digest(str(path)) == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_what_is_no_readable_file_is_missing(tmp_path: Path) -> None:
    """A pipe would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        assert file_digest(str(path)) == MISSING


def test_a_start_is_told_by_executables_and_files(tmp_path: Path) -> None:
    """S134."""
    one, two, lock = (tmp_path / name for name in ("one", "two", "lock"))
    for path in (one, two, lock):
        path.write_text(path.name)
    facts = started([str(one), str(two)], [str(lock)])
    assert facts["executable"] == str(one)
    assert facts["executable:1"] == str(two)
    assert facts["executable_sha256"] == file_digest(str(one))
    assert facts[f"file:{lock}"] == hashlib.sha256(b"lock").hexdigest()


def test_a_file_put_in_place_of_another_has_another_seal(tmp_path: Path) -> None:
    path, other = tmp_path / "server", tmp_path / "other"
    path.write_text("same")
    before = seals_of([str(path), str(tmp_path / "none")])
    assert seals_of(before) == before
    assert before[str(tmp_path / "none")] is None
    other.write_text("same")
    other.replace(path)
    assert seals_of(before) != before
