from __future__ import annotations

from pathlib import Path

import pytest

from gateway.downstream.cgroup import Cgroup, create


def membership(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "membership"
    path.write_text("\n".join(lines) + "\n")
    return path


class Kernel:
    """A cgroup file system as far as files can imitate one: new groups get their control files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *files: str, only_below: Path | None = None) -> None:
        plain = Path.mkdir

        def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
            plain(path, mode, parents, exist_ok)
            if path.name.startswith("mcp-gateway-") and (only_below is None or path.parent == only_below):
                for name in files:
                    (path / name).touch()

        monkeypatch.setattr(Path, "mkdir", mkdir)


def test_version_2_prefers_a_group_beside_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that holds processes cannot have limited children."""
    root = tmp_path / "fs"
    (root / "system" / "gateway").mkdir(parents=True)
    (root / "cgroup.controllers").touch()
    Kernel(monkeypatch, "memory.max", "memory.swap.max", "cgroup.procs")
    group = create(1000, root, membership(tmp_path, "0::/system/gateway"))
    assert group is not None
    assert group.path.parent == root / "system"
    assert (group.path / "memory.max").read_text() == "1000"
    assert (group.path / "memory.swap.max").read_text() == "0"
    assert group.add(4711)
    assert (group.path / "cgroup.procs").read_text() == "4711"


def test_version_1_limits_memory_and_swap_below_our_own_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "fs"
    (root / "memory" / "box").mkdir(parents=True)
    Kernel(monkeypatch, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cgroup.procs")
    group = create(1000, root, membership(tmp_path, "5:cpu,memory:/box", "0::/"))
    assert group is not None
    assert group.path.parent == root / "memory" / "box"
    assert (group.path / "memory.limit_in_bytes").read_text() == "1000"
    assert (group.path / "memory.memsw.limit_in_bytes").read_text() == "1000"


def test_a_group_without_a_memory_limit_is_removed_again(tmp_path: Path) -> None:
    root = tmp_path / "fs"
    (root / "own").mkdir(parents=True)
    (root / "cgroup.controllers").touch()
    assert create(1000, root, membership(tmp_path, "0::/own")) is None
    assert sorted(path.name for path in root.iterdir()) == ["cgroup.controllers", "own"]
    assert list((root / "own").iterdir()) == []


@pytest.mark.parametrize("lines", [["0::/"], ["5:memory:/../../etc"], ["5:cpu:/x"]])
def test_nothing_is_made_where_there_is_no_place(tmp_path: Path, lines: list[str]) -> None:
    assert create(1000, tmp_path / "none", membership(tmp_path, *lines)) is None


def test_a_system_without_cgroups_has_none(tmp_path: Path) -> None:
    assert create(1000, tmp_path, tmp_path / "missing") is None


def test_a_group_that_is_gone_takes_nothing_and_can_be_removed(tmp_path: Path) -> None:
    group = Cgroup(tmp_path / "gone")
    assert not group.add(1)
    group.remove()
