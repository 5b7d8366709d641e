"""One file of the log: how it is named, begun, appended to, and read. A file is written by one run of the gateway only.

``NNNNNNNN.jsonl`` starts with one or more ``audit.segment`` records, then holds one record a line.
Knows bytes and file descriptors, not what records say.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.audit.chain import MAX_RECORD
from gateway.state.files import PRIVATE_FILE, sync_directory

if sys.platform == "darwin":
    import fcntl

SUFFIX: Final = ".jsonl"
TORN_SUFFIX: Final = ".torn"
_NAME: Final = re.compile(r"[0-9]{8}\.jsonl")
# A string that is cut off runs to the end: what looks like a brace in it is none.
_BRACES: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment on disk."""

    number: int
    path: Path


def segment_path(directory: Path, number: int) -> Path:
    """Return where a segment lies."""
    return directory / f"{number:08d}{SUFFIX}"


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments of a directory in their order.

    Raises:
        OSError: the directory cannot be read.
    """
    found = [Segment(int(path.name[:8]), path) for path in directory.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda segment: segment.number)


def read_lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield each line without its end, and whether it had one. A longer line than a record comes cut, unended.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb", buffering=1 << 20) as file:
        while line := file.readline(MAX_RECORD):
            ended = line.endswith(b"\n")
            yield (line[:-1] if ended else line), ended


def whole_length(tail: bytes) -> int:
    """Return the length of the complete JSON object at the start of an unended line, 0 where none is complete.

    What a crash tears off is the beginning of a line: it holds no complete object with something else behind it.
    """
    depth = 0
    for match in _BRACES.finditer(tail):
        if match[0] == b"{":
            depth += 1
        elif match[0] == b"}":
            depth -= 1
            if depth <= 0:
                return match.end()
    return 0


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def _write(descriptor: int, data: bytes | memoryview) -> int:
    return os.write(descriptor, data)


@dataclass(frozen=True, slots=True)
class Disk:
    """The three system calls that can fail for reasons of their own; tests put failing ones in their place."""

    open: Callable[[Path, int, int], int] = os.open
    write: Callable[[int, bytes | memoryview], int] = _write
    sync: Callable[[int], None] = _sync


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file a path led to."""

    device: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        return cls(found.st_dev, found.st_ino)


class SegmentFile:
    """A segment open for appending. Every method but ``close`` raises OSError when the disk refuses.

    ``size`` counts what was written whole, ``durable`` what the disk has confirmed.
    """

    def __init__(self, path: Path, descriptor: int, disk: Disk) -> None:
        self.path = path
        self.size = 0
        self.durable = 0
        self._descriptor = descriptor
        self._disk = disk
        self.identity = Identity.of(os.fstat(descriptor))

    @classmethod
    def create(cls, path: Path, disk: Disk) -> SegmentFile:
        """Begin a new file, which must not exist yet."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return cls(path, disk.open(path, flags, PRIVATE_FILE), disk)

    def check(self) -> None:
        """Make sure that the path still leads to this file and nobody else wrote to it or cut it."""
        found = self.path.stat()
        if Identity.of(found) != self.identity or found.st_size != self.size:
            raise OSError(errno.ESTALE, "the segment was moved, cut or written by somebody else")

    def append(self, data: bytes) -> None:
        """Write all of ``data``; after an error part of it may be in the file, beyond ``size``."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._disk.write(self._descriptor, rest) :]
        self.size += len(data)

    def sync(self) -> None:
        """Make what was written durable. After an error nothing since the last success counts, ever."""
        size = self.size
        self._disk.sync(self._descriptor)
        self.durable = size

    def settle(self) -> None:
        """After a failed write: drop the part of it that got into the file, and make the rest durable."""
        os.ftruncate(self._descriptor, self.size)
        self.sync()

    def publish(self) -> None:
        """Make the file's name durable too."""
        sync_directory(self.path.parent)

    def close(self) -> None:
        """Give the descriptor back; never raises."""
        try:
            os.close(self._descriptor)
        except OSError:
            # Whatever a failing disk has to say here, sync has said before.
            return


def cut(path: Path, identity: Identity, size: int) -> int:
    """Cut a file back to its durable size and return how many bytes went; 0 when it is gone or another file.

    Raises:
        OSError: it could not be cut.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        found = os.fstat(descriptor)
        if Identity.of(found) != identity or found.st_size <= size:
            return 0
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
        return found.st_size - size
    finally:
        os.close(descriptor)
