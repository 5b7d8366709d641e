"""Files in a directory: private, whole, refused where others may write them, and looked at for changes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.state import folder
from gateway.state.documents import ABSENT, Change, Unreachable
from gateway.state.folder import LOCK, FolderDocuments


def test_files_and_folders_are_private_and_have_their_names(tmp_path: Path) -> None:
    """S189."""
    documents = FolderDocuments(tmp_path)
    documents.replace("a.json", b"1", ABSENT)
    documents.replace("sub/b", b"2", ABSENT)
    assert (tmp_path / "a.json").read_bytes() == b"1"
    assert (tmp_path / "sub" / "b").read_bytes() == b"2"
    for path in (tmp_path / "a.json", tmp_path / "sub", tmp_path / "sub" / "b", tmp_path / LOCK):
        assert path.stat().st_mode & 0o077 == 0
    assert documents.names("") == ["a.json", "sub/b"]
    assert documents.place("a.json") == str(tmp_path / "a.json")


def test_what_others_may_write_is_not_read(tmp_path: Path) -> None:
    documents = FolderDocuments(tmp_path)
    documents.replace("a", b"1", ABSENT)
    (tmp_path / "a").chmod(0o620)
    with pytest.raises(PermissionError, match="others than its owner"):
        documents.load("a")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = FolderDocuments(tmp_path)
    documents.replace("a", b"1234", ABSENT)
    monkeypatch.setattr(folder, "MAX_DOCUMENT", 3)
    with pytest.raises(OSError, match="too large"):
        documents.load("a")


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("in the way")
    with pytest.raises(OSError, match="not a directory"):
        FolderDocuments(tmp_path).replace("sub/a", b"1", None)


def test_who_holds_the_lock_for_long_makes_others_give_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "PATIENCE", 0.05)
    documents = FolderDocuments(tmp_path)
    documents.replace("a", b"1", ABSENT)
    held = os.open(tmp_path / LOCK, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(Unreachable, match="holds its lock"):
            documents.replace("a", b"2", None)
    finally:
        os.close(held)
    documents.replace("a", b"2", None)


async def test_a_directory_of_ones_own_is_not_watched(tmp_path: Path) -> None:
    documents = FolderDocuments(tmp_path)
    assert [change async for change in documents.changes()] == []
    assert (documents.shared, documents.health().kind) == (False, "state_dir")


async def test_a_directory_that_goes_and_comes_back_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "LOOK", 0.01)
    place = tmp_path / "mount"
    place.mkdir()
    documents = FolderDocuments(place, shared=True)
    documents.replace("a", b"1", None)
    changes = documents.changes()
    async with asyncio.timeout(5):
        first = await anext(changes)
        assert first == Change(frozenset({"a"}))
        place.rename(tmp_path / "away")
        assert not (await anext(changes)).reachable
        assert not documents.health().reachable
        (tmp_path / "away").rename(place)
        assert (await anext(changes)).reachable
        (place / "a").unlink()
        assert (await anext(changes)).names == {"a"}
    assert (documents.health().kind, documents.health().reachable) == ("directory", True)
    documents.close()


async def test_a_mount_that_hangs_holds_up_one_thread_and_nobody_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hard mount whose server is gone answers neither yes nor no."""
    monkeypatch.setattr(folder, "LOOK", 0.01)
    monkeypatch.setattr(folder, "PATIENCE", 0.05)
    documents = FolderDocuments(tmp_path, shared=True)
    documents.replace("a", b"1", None)
    looks: list[int] = []
    goes_on, look = threading.Event(), documents._look

    def hanging() -> Mapping[str, tuple[int, int, int]]:
        looks.append(1)
        goes_on.wait(10)
        return look()

    changes = documents.changes()

    async def following() -> Change:
        return await anext(changes)

    async with asyncio.timeout(5):
        await anext(changes)
        with monkeypatch.context() as patch:
            patch.setattr(documents, "_look", hanging)
            assert await anext(changes) == Change(frozenset(), reachable=False)
            assert documents.health().reason == "does not answer"
            for act in (
                lambda: documents.load("a"),
                lambda: documents.replace("a", b"2", None),
                lambda: documents.names(""),
            ):
                with pytest.raises(Unreachable, match="does not answer"):
                    await documents.beside(act)
            asking = asyncio.get_running_loop().create_task(following())
            await asyncio.sleep(0.2)
            assert looks == [1], "one look at a time"
        goes_on.set()
        back = await asking
    assert (back.reachable, back.anew) == (True, True)
    assert documents.load("a") is not None
    documents.close()
