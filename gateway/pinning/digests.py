"""Reads files whose content is part of a server's identity. Blocking: meant for a thread."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable

_CHUNK = 1 << 20
MISSING = "missing"


def file_digest(path: str) -> str:
    """Return the hex SHA-256 of a regular file's content, ``missing`` where there is none that can be read."""
    try:
        # A pipe or a device would make an ordinary open wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return MISSING
    try:
        return _digest(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else MISSING
    except OSError:
        return MISSING
    finally:
        os.close(descriptor)


def _digest(descriptor: int) -> str:
    hasher = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest()


def seals_of(paths: Iterable[str]) -> dict[str, object]:
    """Return what tells a file from one put in its place: device, inode, size and times, None where there is none."""
    return {path: _seal(path) for path in paths}


def _seal(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def started(executables: Iterable[str], files: Iterable[str]) -> dict[str, str]:
    """Return the facts of a start: each executable's path and content, and the declared files."""
    facts: dict[str, str] = {}
    for number, path in enumerate(executables):
        facts["executable" if not number else f"executable:{number}"] = path
        facts["executable_sha256" if not number else f"executable_sha256:{number}"] = file_digest(path)
    return facts | {f"file:{path}": file_digest(path) for path in files}
