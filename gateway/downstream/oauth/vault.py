"""What has to survive a restart: tokens and registrations, one sealed file for each server and owner.

A file opens only as what it was written: with another server's name, another resource or another owner it does not
(S49), so nothing of one server ever reaches another. Blocking; used in threads.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Protocol

from gateway.errors import ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.state.files import secure_directory, write_atomic
from gateway.state.sealing import Sealer, SealError
from gateway.telemetry.logs import get_logger

_PURPOSE: Final = "server-credential"
MAX_FILE: Final = 256 * 1024
_log = get_logger("oauth")


class Vault(Protocol):
    """Keeps small objects under a name; ``context`` says what they belong to."""

    def load(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing."""

    def store(self, value: Object, *context: str) -> None:
        """Keep a value in place of an earlier one; an empty one is forgotten."""


class MemoryVault:
    """Keeps nothing beyond the process."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Object] = {}

    def load(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing."""
        return dict(self._kept.get(context, {}))

    def store(self, value: Object, *context: str) -> None:
        """Keep a value in place of an earlier one; an empty one is forgotten."""
        self._kept.pop(context, None)
        if value:
            self._kept[context] = dict(value)


class SealedVault:
    """Keeps sealed files in a directory of its own."""

    def __init__(self, directory: Path, sealer: Sealer) -> None:
        self._directory = directory
        self._sealer = sealer

    def load(self, *context: str) -> Object:
        """Return what was kept; empty where there is nothing that opens."""
        path = self._path(context)
        try:
            with path.open("rb") as file:
                token = file.read(MAX_FILE).decode("ascii").strip()
            value = rawjson.decode_strict(self._sealer.open(_PURPOSE, token, _bound(context)))
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, SealError, JsonError) as error:
            _log.warning("credential_not_read", server=context[0], error=type(error).__name__)
            return {}
        return value if isinstance(value, dict) else {}

    def store(self, value: Object, *context: str) -> None:
        """Keep a value in place of an earlier one; an empty one is forgotten. What cannot be written is logged."""
        path = self._path(context)
        try:
            if not value:
                path.unlink(missing_ok=True)
                return
            secure_directory(self._directory)
            token = self._sealer.seal(_PURPOSE, rawjson.encode(value), _bound(context))
            write_atomic(path, token.encode("ascii"))
        except (OSError, ConfigError) as error:
            _log.error("credential_not_kept", server=context[0], error=type(error).__name__)

    def _path(self, context: tuple[str, ...]) -> Path:
        # No keyed hash: the name must stay when the sealing key is replaced. The directory is closed to others.
        return self._directory / hashlib.sha256(_bound(context)).hexdigest()


def _bound(context: tuple[str, ...]) -> bytes:
    return rawjson.canonical(list(context))
