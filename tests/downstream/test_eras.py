"""The memory of eras."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.downstream.eras import MAX_ENTRIES, Eras
from gateway.protocol.versions import Era


def test_what_was_seen_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "eras.json"
    eras = Eras(path)
    eras.remember("f1", Era.MODERN)
    eras.remember("f2", Era.LEGACY)
    eras.remember("f2", Era.LEGACY)
    again = Eras(path)
    assert (again.get("f1"), again.get("f2"), again.get("f3")) == (Era.MODERN, Era.LEGACY, None)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [item.name for item in tmp_path.iterdir()] == ["eras.json"]


def test_what_proved_wrong_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "eras.json"
    eras = Eras(path)
    eras.remember("f1", Era.MODERN)
    eras.forget("f1")
    eras.forget("f1")
    assert Eras(path).get("f1") is None


def test_without_a_file_memory_is_enough() -> None:
    eras = Eras()
    eras.remember("f1", Era.LEGACY)
    assert eras.get("f1") is Era.LEGACY
    assert Eras().get("f1") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"f1": 7, "f2": "other"}'])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "eras.json"
    path.write_bytes(content)
    eras = Eras(path)
    assert eras.get("f1") is None
    eras.remember("f1", Era.MODERN)
    assert Eras(path).get("f1") is Era.MODERN


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    eras = Eras(tmp_path / "missing" / "eras.json")
    eras.remember("f1", Era.MODERN)
    assert eras.get("f1") is Era.MODERN


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "eras.json"
    path.mkdir()
    eras = Eras(path)
    eras.remember("f1", Era.MODERN)
    assert eras.get("f1") is Era.MODERN
    assert [item.name for item in tmp_path.iterdir()] == ["eras.json"]


def test_the_oldest_notes_go_first() -> None:
    eras = Eras()
    for number in range(MAX_ENTRIES + 10):
        eras.remember(f"f{number}", Era.MODERN)
    assert eras.get("f9") is None
    assert eras.get("f10") is Era.MODERN
