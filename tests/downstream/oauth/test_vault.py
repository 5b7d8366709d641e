from __future__ import annotations

from pathlib import Path

import pytest

from gateway.downstream.oauth.vault import MemoryVault, SealedVault, Vault
from gateway.state.folder import FolderDocuments
from gateway.state.sealing import Sealer

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.fixture(params=["sealed", "memory"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Vault:
    return SealedVault(FolderDocuments(tmp_path), Sealer([KEY])) if request.param == "sealed" else MemoryVault()


def test_what_is_kept_comes_back_to_whom_it_belongs_alone(vault: Vault) -> None:
    """S49: nothing of one server, owner or kind is given to another."""
    vault.store({"access": "one"}, "a", "token", "key:alice")
    assert vault.load("a", "token", "key:alice") == {"access": "one"}
    for context in (("b", "token", "key:alice"), ("a", "token", "key:bob"), ("a", "registrations", "key:alice")):
        assert vault.load(*context) == {}


def test_nothing_is_kept_of_what_is_taken_back(vault: Vault) -> None:
    vault.store({"access": "one"}, "a", "token", "")
    vault.store({}, "a", "token", "")
    assert vault.load("a", "token", "") == {}
    vault.store({}, "a", "token", "")


def test_files_are_sealed_and_closed_to_others(tmp_path: Path) -> None:
    SealedVault(FolderDocuments(tmp_path), Sealer([KEY])).store({"access": "canary"}, "server", "token", "key:alice")
    (file,) = (tmp_path / "credentials").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    data = file.read_bytes()
    assert not any(word in data for word in (b"canary", b"server", b"alice"))
    assert "alice" not in file.name


def test_a_file_moved_to_another_place_does_not_open(tmp_path: Path) -> None:
    vault = SealedVault(FolderDocuments(tmp_path), Sealer([KEY]))
    vault.store({"access": "one"}, "a", "token", "")
    (file,) = (tmp_path / "credentials").iterdir()
    vault.store({"access": "two"}, "b", "token", "")
    (other,) = set((tmp_path / "credentials").iterdir()) - {file}
    file.replace(other)
    assert vault.load("b", "token", "") == {}


def test_files_outlive_the_process_and_the_first_sealing_key(tmp_path: Path) -> None:
    SealedVault(FolderDocuments(tmp_path), Sealer([KEY])).store({"access": "one"}, "a", "token", "")
    assert SealedVault(FolderDocuments(tmp_path), Sealer([OTHER])).load("a", "token", "") == {}
    assert SealedVault(FolderDocuments(tmp_path), Sealer([OTHER, KEY])).load("a", "token", "") == {"access": "one"}


def test_what_is_read_is_sealed_again_with_the_newest_key(tmp_path: Path) -> None:
    SealedVault(FolderDocuments(tmp_path), Sealer([KEY])).store({"access": "one"}, "a", "token", "")
    both = SealedVault(FolderDocuments(tmp_path), Sealer([OTHER, KEY]))
    assert both.load("a", "token", "") == both.load("a", "token", "") == {"access": "one"}
    assert SealedVault(FolderDocuments(tmp_path), Sealer([OTHER])).load("a", "token", "") == {"access": "one"}


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    vault = SealedVault(FolderDocuments(tmp_path), Sealer([KEY]))
    vault.store({"access": "one"}, "a", "token", "")
    (file,) = (tmp_path / "credentials").iterdir()
    file.write_bytes(b"\xff" + file.read_bytes()[1:])
    assert vault.load("a", "token", "") == {}


def test_a_directory_that_cannot_be_written_costs_no_call(tmp_path: Path) -> None:
    vault = SealedVault(FolderDocuments(tmp_path), Sealer([KEY]))
    (tmp_path / "credentials").write_text("in the way")
    vault.store({"access": "one"}, "a", "token", "")
    assert vault.load("a", "token", "") == {}
