"""The files of one load: bounded, regular, and the same at the end as at the beginning.

Editors write by rename, by truncating, or by swapping a symlink. A load whose files changed while it ran is
thrown away, so that no half of an old and half of a new config is ever served; that a file is not in the middle
of being written is for whoever watches it to wait for. An empty file is never taken for an empty config.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.config.places import Loc
from gateway.config.sources import Seen, Sources, matches, stamp, stamp_of
from gateway.errors import ConfigError, Problem

MAX_CONFIG: Final = 1024 * 1024
MAX_VALUE: Final = 64 * 1024
MAX_REFERRED: Final = 16 * 1024 * 1024
MAX_FILES: Final = 1000

_REASONS: Final = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist",
    errno.EACCES: "may not be read by this user",
    errno.EPERM: "may not be read by this user",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "is a loop of symbolic links",
    errno.ENAMETOOLONG: "has a name that is too long",
}


class Unreadable(ConfigError):
    """The main config file could not be read at all, so that nothing can be said about what is in it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__([Problem(message=reason, file=str(path))])


class FileProblem(Exception):
    """A file cannot be used; the text says why, in words that go behind its name."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held, and who may read it."""

    data: bytes
    mode: int
    owner: int


class Reading:
    """Reads files and remembers which, also those that could not be read, and in what state they were."""

    def __init__(self) -> None:
        self._seen: dict[Path, Seen] = {}
        self._patterns: dict[str, tuple[str, ...]] = {}
        self._referred: dict[Loc, Path] = {}

    def sources(self) -> Sources:
        """Return what was drawn on so far, in order, each once."""
        return Sources(dict(self._seen), dict(self._patterns), dict(self._referred))

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Return the paths that a pattern matches, in order.

        Raises:
            ValueError: it can be no path.
        """
        found = matches(pattern)
        self._patterns[pattern] = found
        return found

    def refer(self, loc: Loc, path: Path) -> None:
        """Remember the state of a file that the value at ``loc`` names for others to read, such as a certificate."""
        with suppress(FileProblem):
            # Remembered too; whoever needs it says what is wrong with it.
            self.read(path, MAX_REFERRED)
        if path in self._seen:
            self._referred[loc] = path

    def read(self, path: Path, limit: int) -> Content:
        """Read a whole file.

        Raises:
            FileProblem: it does not exist, is no regular file, may not be read, is longer than ``limit`` bytes, or
                this load has read too many files.
        """
        if path not in self._seen and len(self._seen) >= MAX_FILES:
            raise FileProblem(f"is one file too many: at most {MAX_FILES} are read")
        before = stamp_of(path)
        try:
            status, data = _read(path, limit)
        except FileProblem as problem:
            self._seen.setdefault(path, Seen(before, "", str(problem)))
            raise
        content = Content(data, stat.S_IMODE(status.st_mode), status.st_uid)
        self._seen.setdefault(path, Seen(stamp(status), _digest(content)))
        return content

    def unchanged(self) -> bool:
        """Tell whether every file is still the one that was read, or as unreadable."""
        return all(stamp_of(path) == seen.stamp for path, seen in self._seen.items())


def _read(path: Path, limit: int) -> tuple[os.stat_result, bytes]:
    descriptor = _open(path)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise FileProblem("is a directory")
        if not stat.S_ISREG(status.st_mode):
            raise FileProblem("is not a regular file")
        with open(descriptor, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError:
        raise FileProblem("cannot be read") from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise FileProblem(f"is longer than {limit // 1024} KiB")
    return status, data


def _digest(content: Content) -> str:
    """Digest what a load takes from a file; who may read it is part of that, see ``exposure``."""
    facts = f"{content.mode:o} {content.owner}\n".encode()
    return hashlib.sha256(facts + content.data).hexdigest()


def _open(path: Path) -> int:
    try:
        # Without O_NONBLOCK opening a named pipe would wait for a writer.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileProblem(_REASONS.get(error.errno or 0, "cannot be opened")) from None
    except ValueError:
        raise FileProblem("has a NUL character in its name") from None


def exposure(content: Content, user: int) -> str:
    """Say who else may read a file that holds a secret; empty where that is as narrow as it can be.

    Its group may read a file that belongs to somebody else: a mounted Kubernetes secret belongs to root and is
    readable for the group of the pod, and without that this user could not read it.
    """
    if content.mode & stat.S_IROTH:
        return "may be read by everybody"
    if content.mode & stat.S_IRGRP and content.owner == user:
        return "may be read by its group"
    return ""
