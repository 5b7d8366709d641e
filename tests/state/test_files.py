"""Private files: modes under any umask, whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.errors import ConfigError
from gateway.state.files import read_or_create_key, secure_directory, sync_directory, write_atomic


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """Everything here must hold under the most careless umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_directories_are_made_private_with_their_parents(tmp_path: Path) -> None:
    made = secure_directory(tmp_path / "state" / "deep")

    assert made == tmp_path / "state" / "deep"
    assert mode(made) == 0o700
    assert mode(made.parent) == 0o700


def test_an_own_directory_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(0o777)

    secure_directory(tmp_path / "state")

    assert mode(tmp_path / "state") == 0o700


def test_a_directory_shared_on_purpose_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)

    secure_directory(shared)

    assert mode(shared) == 0o1777


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(ConfigError, match="not a directory"):
        secure_directory(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be used"):
        secure_directory(tmp_path / "file" / "below")


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    first = read_or_create_key(tmp_path / "key", 32)

    assert len(first) == 32
    assert read_or_create_key(tmp_path / "key", 32) == first
    assert mode(tmp_path / "key") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_all_who_start_at_once_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: read_or_create_key(tmp_path / "key", 32), range(32)))

    assert len(keys) == 1


@pytest.mark.parametrize("rights", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, rights: int) -> None:
    read_or_create_key(tmp_path / "key", 32)
    (tmp_path / "key").chmod(rights)

    with pytest.raises(ConfigError, match="read by others"):
        read_or_create_key(tmp_path / "key", 32)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    write_atomic(tmp_path / "key", b"x" * size)

    with pytest.raises(ConfigError, match="exactly 32 bytes"):
        read_or_create_key(tmp_path / "key", 32)


def test_a_key_without_a_place_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read or made"):
        read_or_create_key(tmp_path / "missing" / "key", 32)


def test_contents_are_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "pins.json"
    write_atomic(target, b"old")
    write_atomic(target, b"new and longer")

    assert target.read_bytes() == b"new and longer"
    assert mode(target) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["pins.json"]


def test_another_mode_is_taken_as_it_is_written(tmp_path: Path) -> None:
    os.umask(0o077)
    write_atomic(tmp_path / "public.pem", b"key", 0o644)

    assert mode(tmp_path / "public.pem") == 0o644


def test_a_failed_write_leaves_the_old_contents_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "pins.json"
    write_atomic(target, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_atomic(target, b"new")

    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["pins.json"]


def test_a_target_that_cannot_be_replaced_leaves_no_rubbish(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    with pytest.raises(OSError, match="directory"):
        write_atomic(tmp_path / "taken", b"new")

    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_syncing_a_missing_directory_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "missing")
