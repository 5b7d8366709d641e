"""Documents as files in a directory: of one replica alone, or on a mount that several share.

Private files, replaced by rename and synced. Compare and replace is under an advisory lock, which a crash releases and
network file systems pass on; what others changed is found by looking at sizes and times, since no file system of many
machines tells of it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, ParamSpec, TypeAlias, TypeVar

from gateway.errors import ConfigError
from gateway.state.documents import ABSENT, MAX_DOCUMENT, Change, Conflict, Document, Health, Unreachable, Version
from gateway.state.files import PRIVATE_FILE, secure_directory, sync_directory, write_atomic
from gateway.state.threads import Threads

LOCK: Final = ".lock"
LOOK: Final = 0.5
"""Seconds between two looks at what others changed."""
PATIENCE: Final = 5.0
"""Seconds to wait for the lock; whoever holds it writes one file."""
_PAUSE: Final = 0.005
_OTHERS_WRITE: Final = 0o022

_P = ParamSpec("_P")
_T = TypeVar("_T")
_HANGS: Final = "does not answer"
_Seen: TypeAlias = Mapping[str, tuple[int, int, int]]


class FolderDocuments:
    """The documents of one directory, which exists. ``shared``: others write there too, and are looked out for."""

    def __init__(self, directory: Path, *, shared: bool = False) -> None:
        self._directory = directory
        self._shared = shared
        self._threads = Threads("documents")
        self._reachable = True
        self._since = _now()
        self._reason = ""
        self._looking: asyncio.Future[tuple[_Seen | None, str]] | None = None

    @property
    def shared(self) -> bool:
        """Whether other replicas read and write here too."""
        return self._shared

    def load(self, name: str) -> Document | None:
        """Return a document; see ``Documents``. One that others may write is as good as unreadable."""
        self._check()
        path = self._directory / name
        try:
            found = path.stat()
            if found.st_mode & _OTHERS_WRITE:
                raise PermissionError(errno.EPERM, "others than its owner may write it")
            if found.st_size > MAX_DOCUMENT:
                raise OSError(errno.EFBIG, "is too large")
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return Document(data, _version(data))

    def replace(self, name: str, data: bytes | None, expected: Version | None) -> Version:
        """Put a document in place of another; see ``Documents``."""
        if data is not None and len(data) > MAX_DOCUMENT:
            raise OSError(errno.EFBIG, "is too large")
        self._check()
        path = self._directory / name
        with self._locked():
            if expected is not None:
                current = self.load(name)
                if (current.version if current is not None else ABSENT) != expected:
                    raise Conflict(name)
            if data is None:
                path.unlink(missing_ok=True)
                if path.parent.exists():
                    sync_directory(path.parent)
                return ABSENT
            if path.parent != self._directory:
                _make(path.parent)
            write_atomic(path, data)
        return _version(data)

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin so; see ``Documents``."""
        self._check()
        return sorted(name for name in self._look() if name.startswith(prefix))

    def _check(self) -> None:
        """Ask nothing of a mount that hangs: whoever does waits for as long as it likes."""
        if self._reason == _HANGS:
            raise Unreachable(errno.EHOSTUNREACH, _HANGS)

    async def beside(self, work: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run work that reads or writes here in threads of its own; see ``Documents``."""
        return await self._threads.run(work, *args, **kwargs)

    async def changes(self) -> AsyncIterator[Change]:
        """Yield what others change; what is written here may be among it, too."""
        if not self._shared:
            return
        before: _Seen = {}
        while True:
            # At first everything counts as changed: it may have been, since somebody read it at the start.
            was, now = self._reachable, await self._watched()
            changed = _changed(before, now) if now is not None else frozenset[str]()
            before = now if now is not None else before
            if changed or was != self._reachable:
                yield Change(changed, self._reachable, anew=self._reachable and not was)
            await asyncio.sleep(LOOK)

    async def _watched(self) -> _Seen | None:
        """Look at everything, and take note of whether that can be done; a look that hangs is the only one."""
        try:
            looking = self._looking or self._threads.begin(self._looked)
        except Unreachable as error:
            found, self._reason = None, error.strerror or ""
        else:
            await asyncio.wait([looking], timeout=PATIENCE)
            self._looking = None if looking.done() else looking
            found, self._reason = looking.result() if looking.done() else (None, _HANGS)
        if self._reachable != (found is not None):
            self._reachable, self._since = found is not None, _now()
        return found

    def _looked(self) -> tuple[_Seen | None, str]:
        try:
            return self._look(), ""
        except OSError as error:
            return None, error.strerror or type(error).__name__

    def _look(self) -> dict[str, tuple[int, int, int]]:
        found: dict[str, tuple[int, int, int]] = {}
        for folder in ("", *(each.name for each in os.scandir(self._directory) if each.is_dir())):
            for each in os.scandir(self._directory / folder):
                # What begins with a dot is being written, or is the lock.
                if each.name.startswith("."):
                    continue
                try:
                    seen = each.stat()
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(seen.st_mode):
                    name = f"{folder}/{each.name}" if folder else each.name
                    found[name] = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        return found

    def place(self, name: str) -> str:
        """Return where a document is."""
        return str(self._directory / name)

    def health(self) -> Health:
        """Return how things stand; an own directory is not watched, since who writes to it tells."""
        return Health("directory" if self._shared else "state_dir", self._reachable, self._since, self._reason)

    def close(self) -> None:
        """Let the threads go."""
        self._threads.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep others out, in this process and in others."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._directory / LOCK, flags, PRIVATE_FILE)
        try:
            deadline = time.monotonic() + PATIENCE
            while not _taken(descriptor):
                if time.monotonic() > deadline:
                    raise Unreachable(errno.ETIMEDOUT, "somebody holds its lock")
                threading.Event().wait(_PAUSE)
            yield
        finally:
            os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(folder: Path) -> None:
    try:
        secure_directory(folder)
    except ConfigError as error:
        raise OSError(errno.ENOTDIR, error.problems[0].message) from None


def _changed(before: _Seen, now: _Seen) -> frozenset[str]:
    return frozenset(name for name in {*before, *now} if before.get(name) != now.get(name))


def _version(data: bytes) -> Version:
    """Return the digest: who writes the same again has changed nothing for anybody."""
    return hashlib.sha256(data).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
