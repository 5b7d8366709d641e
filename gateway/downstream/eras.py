"""Which era each server spoke when it was last met, kept over restarts. A hint, never a decision."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError
from gateway.protocol.versions import Era
from gateway.telemetry.logs import get_logger

MAX_ENTRIES: Final = 1024
_MAX_BYTES: Final = 2**20
_log = get_logger("downstream")


class Eras:
    """Era by config fingerprint, in a small file (0600, replaced atomically) or in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, Era] = self._load()

    def get(self, fingerprint: str) -> Era | None:
        """Return the era last seen, None for a server never met."""
        return self._known.get(fingerprint)

    def remember(self, fingerprint: str, era: Era) -> None:
        """Note an era; the oldest note goes when there are too many."""
        if self._known.get(fingerprint) is era:
            return
        self._known.pop(fingerprint, None)
        self._known[fingerprint] = era
        while len(self._known) > MAX_ENTRIES:
            del self._known[next(iter(self._known))]
        self._save()

    def forget(self, fingerprint: str) -> None:
        """Drop a note that proved wrong."""
        if self._known.pop(fingerprint, None) is not None:
            self._save()

    def _load(self) -> dict[str, Era]:
        """Read the file; one that cannot be read is as good as none, since everything in it can be found again."""
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                value = rawjson.decode_value(file.read(_MAX_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, JsonError) as error:
            _log.warning("eras_unreadable", error=type(error).__name__)
            return {}
        known = list(value.items())[-MAX_ENTRIES:] if isinstance(value, dict) else []
        eras = {era.value: era for era in Era}
        return {key: eras[item] for key, item in known if isinstance(item, str) and item in eras}

    def _save(self) -> None:
        if self._path is None:
            return
        try:
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".eras-")
        except OSError as error:
            _log.warning("eras_not_saved", error=type(error).__name__)
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(rawjson.encode({key: era.value for key, era in self._known.items()}))
            Path(name).replace(self._path)
        except OSError as error:
            _log.warning("eras_not_saved", error=type(error).__name__)
            Path(name).unlink(missing_ok=True)
