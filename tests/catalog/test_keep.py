"""The last complete lists survive a restart, for the config they were read with."""

from __future__ import annotations

from pathlib import Path

from gateway.catalog.keep import Keep
from gateway.model.catalog import Kind, Listing
from gateway.state.folder import FolderDocuments
from tests.kit.definitions import definition, listing, tool


def kept() -> Listing:
    items = [tool("t", description="é \u2028"), definition(Kind.RESOURCE, "file:///x"), definition(Kind.PROMPT, "p")]
    return listing(
        "a",
        *items,
        ttl_ms=5,
        public=True,
        server_info={"name": "A"},
        capabilities={"tools": {}},
        instructions="i",
        era="modern",
        version="2026-07-28",
    )


def test_a_kept_listing_comes_back_whole(tmp_path: Path) -> None:
    keep = Keep(FolderDocuments(tmp_path))
    keep.store(kept(), "f1")
    found = Keep(FolderDocuments(tmp_path)).load("a", "f1")
    assert found is not None
    assert {item.digest for item in found.definitions} == {item.digest for item in kept().definitions}
    assert (found.ttl_ms, found.public, found.server_info, found.era) == (5, True, {"name": "A"}, "modern")


def test_another_config_of_the_server_does_not_get_the_old_listing(tmp_path: Path) -> None:
    keep = Keep(FolderDocuments(tmp_path))
    keep.store(kept(), "f1")
    assert keep.load("a", "f2") is None
    assert keep.load("b", "f1") is None


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    keep = Keep(FolderDocuments(tmp_path))
    keep.store(kept(), "f1")
    [path] = (tmp_path / "catalog").iterdir()
    whole = path.read_bytes()
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert keep.load("a", "f1") is None
    path.write_bytes(b'{"head":{"v":99}}')
    assert keep.load("a", "f1") is None


def test_a_disk_that_refuses_costs_the_copy_alone(tmp_path: Path) -> None:
    keep = Keep(FolderDocuments(tmp_path))
    (tmp_path / "catalog").write_text("in the way")
    keep.store(kept(), "f1")
    assert keep.load("a", "f1") is None


def test_files_are_private(tmp_path: Path) -> None:
    """S189."""
    Keep(FolderDocuments(tmp_path)).store(kept(), "f1")
    [path] = (tmp_path / "catalog").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "catalog").stat().st_mode & 0o077 == 0
