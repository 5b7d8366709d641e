"""One writer per log: an advisory lock on ``lock`` in the log's directory, held as long as the process lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from gateway.errors import ConfigError, Problem
from gateway.state.files import PRIVATE_FILE

LOCK_FILE: Final = "lock"


class DirectoryLock:
    """The lock of one directory. A crash releases it; the file stays and means nothing by itself."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK_FILE
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Take the lock, or make sure that it is still ours: the directory may have been replaced meanwhile.

        Raises:
            ConfigError: another process has it.
            OSError: the file cannot be opened.
        """
        if self._descriptor is not None and self._is_same(self._descriptor):
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                [
                    Problem(
                        "a running gateway writes this audit log",
                        file=str(self._path.parent),
                        hint="end it, or give each gateway its own audit.dir",
                    )
                ]
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        self.release()
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock up."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_same(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False
