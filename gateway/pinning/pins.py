"""The pins of all servers in ``state.dir/pins.json``: recorded at first sight, and nothing there changes by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.errors import ConfigError, Problem
from gateway.pinning.fingerprint import Fingerprint
from gateway.pinning.verify import Difference, differences
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.state.files import write_atomic

_FORMAT: Final = 1
_MAX_BYTES: Final = 64 * 2**20
_TEXTS: Final = ("config", "version", "server_info", "capabilities", "instructions")


class Pins:
    """What each server was when it was first seen, and how it differs now."""

    def __init__(self, path: Path) -> None:
        """Read the file; none is as good as an empty one.

        Raises:
            ConfigError: it is there but cannot be read as what it should be. It is never made anew by itself: who
                could damage it could also have the damage approved.
        """
        self._path = path
        self._recorded = _load(path)
        self._differences: dict[str, tuple[Difference, ...]] = {}

    def check(self, server: str, observed: Fingerprint) -> tuple[Difference, ...] | None:
        """Compare a server with its pin; the first sight is recorded, durably, and returns None.

        Returns only the differences that the last check of this server did not have: each is news once.

        Raises:
            OSError: the file cannot be written.
        """
        recorded = self._recorded.get(server)
        if recorded is None:
            self._recorded[server] = observed
            try:
                self._save()
            except OSError:
                del self._recorded[server]
                raise
            return None
        known = self._differences.get(server, ())
        self._differences[server] = differences(recorded, observed)
        return tuple(item for item in self._differences[server] if item not in known)

    def state(self, server: str) -> str:
        """Return ``recorded``, ``changed`` or, for a server never seen, ``unknown``."""
        if server not in self._recorded:
            return "unknown"
        return "changed" if self._differences.get(server) else "recorded"

    def changed(self, server: str) -> tuple[Difference, ...]:
        """Return how a server differs from its pin, as of its last check."""
        return self._differences.get(server, ())

    def _save(self) -> None:
        body: Object = {"v": _FORMAT, "servers": {name: _value(pin) for name, pin in self._recorded.items()}}
        write_atomic(self._path, rawjson.pretty(body).encode() + b"\n")


def _value(pin: Fingerprint) -> Value:
    texts: dict[str, Value] = {name: getattr(pin, name) for name in _TEXTS}
    return texts | {"definitions": {**pin.definitions}}


def _load(path: Path) -> dict[str, Fingerprint]:
    try:
        if path.stat().st_mode & 0o022:
            raise _damaged(path, "others than its owner may write it")
        with path.open("rb") as file:
            value = rawjson.decode_value(file.read(_MAX_BYTES))
        servers = value.get("servers") if isinstance(value, dict) and value.get("v") == _FORMAT else None
        if not isinstance(servers, dict):
            raise _damaged(path, "is not a pin file of this version")
        return {name: _read(path, pin) for name, pin in servers.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _damaged(path, error.strerror or type(error).__name__) from None
    except JsonError as error:
        raise _damaged(path, str(error)) from None


def _read(path: Path, value: Value) -> Fingerprint:
    definitions = value.get("definitions") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(definitions, dict):
        raise _damaged(path, "holds something that is no pin")
    texts = {name: value.get(name) for name in _TEXTS}
    if not all(isinstance(item, str) for item in (*texts.values(), *definitions.values())):
        raise _damaged(path, "holds something that is no pin")
    named = {name: str(item) for name, item in texts.items()}
    return Fingerprint(**named, definitions={name: str(item) for name, item in definitions.items()})


def _damaged(path: Path, why: str) -> ConfigError:
    hint = "restore it; to trust every server anew as it is now, remove the file"
    return ConfigError([Problem(f"the pin file cannot be used: {why}", file=str(path), hint=hint)])
