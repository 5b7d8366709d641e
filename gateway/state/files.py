"""Small private files that must survive a crash whole: directories, keys, replaced contents.

Blocking; meant for start-up and for threads. Knows nothing of what the files hold.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from gateway.errors import ConfigError, Problem

ADMIN_TOKEN_FILE: Final = "admin.token"  # noqa: S105 - a file's name.
"""Holds the token that ``serve`` makes where no users are configured, in ``state.dir``."""
PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
_OTHERS: Final = 0o077


def secure_directory(path: Path) -> Path:
    """Make sure a directory of ours exists, closed to everybody else where that is ours to decide.

    Missing ones are made with 0700, parents included, whatever the umask is. An existing one that we own loses the
    rights of group and others, unless it is sticky and so shared on purpose.

    Raises:
        ConfigError: it is no directory, or cannot be made.
    """
    try:
        _make(path)
        found = path.stat()
        shared = stat.S_IMODE(found.st_mode)
        if not stat.S_ISDIR(found.st_mode):
            raise ConfigError([Problem("is not a directory", file=str(path))])
        if shared & _OTHERS and not shared & stat.S_ISVTX and found.st_uid == os.geteuid():
            path.chmod(shared & ~_OTHERS)
    except OSError as error:
        raise ConfigError([Problem(f"cannot be used as a directory: {error.strerror}", file=str(path))]) from None
    return path


def _make(path: Path) -> None:
    missing: list[Path] = []
    current = path
    while not current.exists() and current != current.parent:
        missing.append(current)
        current = current.parent
    for each in reversed(missing):
        each.mkdir(PRIVATE_DIRECTORY, exist_ok=True)


def read_or_create_key(path: Path, size: int) -> bytes:
    """Return the ``size`` random bytes kept in a file; the first caller makes them.

    The file appears whole or not at all, with 0600; of several processes that start at once one wins and all agree.

    Raises:
        ConfigError: the file can be read by others, has another size, or cannot be read or made.
    """
    try:
        if not path.exists():
            _create_key(path, size)
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _OTHERS:
                raise ConfigError([Problem("holds a key and can be read by others", str(path), hint="chmod 600 it")])
            key = file.read(size + 1)
    except OSError as error:
        raise ConfigError([Problem(f"key cannot be read or made: {error.strerror}", file=str(path))]) from None
    if len(key) != size:
        raise ConfigError([Problem(f"must hold a key of exactly {size} bytes", file=str(path))])
    return key


def _create_key(path: Path, size: int) -> None:
    temporary = _write_beside(path, secrets.token_bytes(size), PRIVATE_FILE)
    try:
        # A link, unlike a rename, does not replace what another process made in the meantime.
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    sync_directory(path.parent)


def write_atomic(path: Path, data: bytes, mode: int = PRIVATE_FILE) -> None:
    """Replace a file's contents: afterwards, also after a power cut, it holds the old or the new ones, never a part.

    Raises:
        OSError: it could not be written; the old contents are still there.
    """
    temporary = _write_beside(path, data, mode)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _write_beside(path: Path, data: bytes, mode: int) -> Path:
    """Write a durable temporary file in the same directory, so that it can be renamed or linked into place."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # The umask may have taken rights away that the caller asked for; it never adds any.
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable.

    Raises:
        OSError: the disk did not confirm it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
