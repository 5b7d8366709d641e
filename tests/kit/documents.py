"""Places that several replicas share, for tests: a directory, and a database of one PostgreSQL server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gateway.errors import ConfigError
from gateway.state.documents import Documents
from gateway.state.folder import FolderDocuments
from gateway.state.postgres import PostgresDocuments

KEYS = ["a-sealing-key-that-all-replicas-have-in-tests"]
Opener = Callable[[], Documents]


def folder_opener(folder: Path) -> Opener:
    """Return what opens a shared directory once more."""
    return lambda: FolderDocuments(folder, shared=True)


def postgres_opener(url: str) -> Opener:
    """Return what opens a database once more; it may still be starting."""

    def opened() -> Documents:
        deadline = time.monotonic() + 10
        while True:
            try:
                return PostgresDocuments(url)
            except ConfigError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    return opened
