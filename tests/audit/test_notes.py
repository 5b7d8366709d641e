"""What commands leave for the gateway to write down (S172)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.audit import notes
from gateway.protocol.rawjson import Object


def test_notes_are_taken_once_in_their_order(tmp_path: Path) -> None:
    left: list[Object] = [{"event": "audit.verified", "n": number} for number in range(3)]
    assert all(notes.leave(tmp_path, each) for each in left)
    (path, *_) = (tmp_path / notes.FOLDER).iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert notes.collect(tmp_path) == left
    assert notes.collect(tmp_path) == []


def test_what_is_no_record_is_dropped(tmp_path: Path) -> None:
    notes.leave(tmp_path, {"event": "a"})
    (tmp_path / notes.FOLDER / "0.json").write_text("no json")
    (tmp_path / notes.FOLDER / "1.json").write_text("[]")
    assert notes.collect(tmp_path) == [{"event": "a"}]


def test_notes_are_bounded_and_left_only_where_there_is_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "MAX_NOTES", 2)
    assert [notes.leave(tmp_path, {"event": "a"}) for _ in range(3)] == [True, True, False]
    assert not notes.leave(tmp_path / "missing", {"event": "a"})
    assert notes.collect(tmp_path / "missing") == []
