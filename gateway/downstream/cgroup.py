"""A memory cgroup for one process, where the gateway may make one; everywhere else the answer is no.

Knows both layouts. Version 2 needs a delegated subtree (systemd ``Delegate=memory``); a container's own subtree is
usually read-only. The caller falls back to RLIMIT_DATA.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One group of ours with a limit set."""

    path: Path

    def add(self, pid: int) -> bool:
        """Move a process into it; False where the kernel refuses."""
        return _write(self.path / "cgroup.procs", str(pid))

    def remove(self) -> None:
        """Remove it; it stays where something still lives in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def create(memory: int, root: Path = ROOT, membership: Path = SELF) -> Cgroup | None:
    """Make a group limited to ``memory`` bytes below or beside our own; None where that is not possible."""
    for parent, limit, swap in _places(root, membership):
        path = parent / f"mcp-gateway-{os.getpid()}-{next(_numbers)}"
        try:
            path.mkdir()
        except OSError:
            continue
        if (path / limit).exists() and _write(path / limit, str(memory)):
            # Without this a process over its limit would fill the swap instead of ending.
            _write(path / swap[0], swap[1] or str(memory))
            return Cgroup(path)
        with contextlib.suppress(OSError):
            path.rmdir()
    return None


def _places(root: Path, membership: Path) -> list[tuple[Path, str, tuple[str, str]]]:
    """Where a group could be made: parent, the limit's file, and file and value of the swap limit."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    places: list[tuple[Path, str, tuple[str, str]]] = []
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "" and (root / "cgroup.controllers").exists():
            own = root / name.lstrip("/")
            # A version 2 group with processes cannot have limited children, so beside comes before below.
            places += [(parent, "memory.max", ("memory.swap.max", "0")) for parent in (own.parent, own)]
        elif "memory" in controllers.split(","):
            own = root / "memory" / name.lstrip("/")
            places.append((own, "memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", "")))
    return [place for place in places if place[0].is_relative_to(root)]


def _write(path: Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError:
        return False
    return True
