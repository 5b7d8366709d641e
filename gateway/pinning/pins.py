"""The pins of all servers in ``state.dir/pins.json``: what was approved, and nothing there changes by itself.

Definitions are kept whole, so that a later change can be shown and not only told. Saving blocks on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.errors import ConfigError, Problem
from gateway.pinning.facts import Facts
from gateway.pinning.fingerprint import Known
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.state.files import write_atomic

_FORMAT: Final = 2
_MAX_BYTES: Final = 256 * 2**20
NO_TEXT: Final = Known("", "")


@dataclass(frozen=True, slots=True)
class Pin:
    """What was approved of one server. A definition may have several approved forms, the newest last.

    ``rejected`` has the digests of what an operator looked at and refused, by item. ``at`` is ISO 8601 in UTC.
    """

    facts: Facts = field(default_factory=dict)
    instructions: Known = NO_TEXT
    definitions: Mapping[str, tuple[Known, ...]] = field(default_factory=dict)
    rejected: Mapping[str, str] = field(default_factory=dict)
    at: str = ""


class Pins:
    """The file, and what it held when it was last read or written."""

    def __init__(self, path: Path) -> None:
        """Read the file; none is as good as an empty one.

        Raises:
            ConfigError: it is there but cannot be read as what it should be. It is never made anew by itself: who
                could damage it could also have the damage approved.
        """
        self._path = path
        self._pins = _load(path)

    def get(self, server: str) -> Pin | None:
        """Return a server's pin."""
        return self._pins.get(server)

    def save(self, server: str, pin: Pin | None) -> None:
        """Put a pin in place of a server's, None to forget it; it counts once it is durable.

        Raises:
            OSError: the file cannot be written; everything is as before.
        """
        pins = {name: kept for name, kept in self._pins.items() if name != server}
        if pin is not None:
            pins[server] = pin
        body: Object = {"v": _FORMAT, "servers": {name: _value(kept) for name, kept in sorted(pins.items())}}
        write_atomic(self._path, rawjson.pretty(body).encode() + b"\n")
        self._pins = pins


def _value(pin: Pin) -> Value:
    definitions: Object = {name: [_known(each) for each in forms] for name, forms in sorted(pin.definitions.items())}
    return {
        "at": pin.at,
        "facts": {**pin.facts},
        "instructions": _known(pin.instructions),
        "definitions": definitions,
        "rejected": {**pin.rejected},
    }


def _known(known: Known) -> Value:
    return {"digest": known.digest, "text": known.text}


def _load(path: Path) -> dict[str, Pin]:
    try:
        if path.stat().st_mode & 0o022:
            raise _damaged(path, "others than its owner may write it")
        with path.open("rb") as file:
            value = rawjson.decode_value(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _damaged(path, error.strerror or type(error).__name__) from None
    except JsonError as error:
        raise _damaged(path, str(error)) from None
    if isinstance(value, dict) and value.get("v") == 1:
        hint = "it was written by a version that held nothing back; remove it to have every server recorded anew"
        raise ConfigError([Problem("the pin file is of an older form", file=str(path), hint=hint)])
    servers = value.get("servers") if isinstance(value, dict) and value.get("v") == _FORMAT else None
    if not isinstance(servers, dict):
        raise _damaged(path, "is not a pin file of this version")
    try:
        return {name: _read(pin) for name, pin in servers.items()}
    except ValueError:
        raise _damaged(path, "holds something that is no pin") from None


def _read(value: Value) -> Pin:
    body = _object(value)
    forms = {
        name: tuple(_read_known(each) for each in _list(item))
        for name, item in _object(body.get("definitions")).items()
    }
    if not all(forms.values()):
        raise ValueError
    return Pin(
        facts=_texts(body.get("facts")),
        instructions=_read_known(body.get("instructions")),
        definitions=forms,
        rejected=_texts(body.get("rejected")),
        at=_text(body.get("at")),
    )


def _read_known(value: Value) -> Known:
    body = _object(value)
    return Known(_text(body.get("digest")), _text(body.get("text")))


def _texts(value: Value) -> dict[str, str]:
    return {name: _text(item) for name, item in _object(value).items()}


def _object(value: Value) -> Object:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _list(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise ValueError
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _damaged(path: Path, why: str) -> ConfigError:
    hint = "restore it; to trust every server anew as it is now, remove the file"
    return ConfigError([Problem(f"the pin file cannot be used: {why}", file=str(path), hint=hint)])
