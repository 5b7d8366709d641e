"""What a load drew on, as it was then: files, found or not, and patterns with what they matched. Not what it means.

Whoever watches compares stamps, which costs a ``stat`` a file, and reads a file again only where its stamp is another.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from gateway.config.places import Loc

Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, size, and when content and inode last changed."""

_CASES: Final = (".cases.yaml", ".cases.yml")
"""Test cases lie beside the policies they are for (``NAME.cases.yaml``)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One file: its stamp, None where none could be had, and a digest of what a load takes from it.

    ``problem`` says why nothing could be taken; the digest is empty then.
    """

    stamp: Stamp | None
    digest: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything one load drew on. ``referred`` are those of the files whose names are values, for others to read."""

    files: Mapping[Path, Seen] = field(default_factory=dict)
    patterns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    referred: Mapping[Loc, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """How files and patterns are at one moment, as far as that shows without reading.

    ``beside`` has what patterns match and no load has read yet: it may be in the middle of being written too.
    """

    stamps: Mapping[Path, Stamp | None]
    patterns: Mapping[str, tuple[str, ...]]
    beside: Mapping[str, Stamp | None] = field(default_factory=dict)

    def agrees(self, other: Look) -> bool:
        """Tell whether a load that drew on the one would find nothing changed in the other."""
        return self.stamps == other.stamps and self.patterns == other.patterns


def remembered(sources: Sources) -> Look:
    """Return what a look would have shown when the load read the files."""
    return Look({path: seen.stamp for path, seen in sources.files.items()}, sources.patterns)


def look(sources: Sources) -> Look:
    """Look at the same files and patterns now; blocks for as long as the file system does."""
    stamps = {path: stamp_of(path) for path in sources.files}
    patterns = {pattern: matches(pattern) for pattern in sources.patterns}
    new = {found for each in patterns.values() for found in each if Path(found) not in stamps}
    return Look(stamps, patterns, {found: stamp_of(Path(found)) for found in new})


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of what a path leads to through any symlinks, None where nothing can be had."""
    try:
        return stamp(path.stat())
    except (OSError, ValueError):
        return None


def stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def matches(pattern: str) -> tuple[str, ...]:
    """Return the paths of policies that a glob matches, in order.

    Raises:
        ValueError: it can be no path.
    """
    return tuple(sorted(found for found in glob.glob(pattern, recursive=True) if not found.endswith(_CASES)))
