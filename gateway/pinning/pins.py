"""The pins of all servers in the document ``pins.json``: what was approved, and nothing there changes by itself.

Definitions are kept whole, so that a later change can be shown and not only told. Several replicas may share it: what
one of them writes is built on what the others wrote before. Reading and saving block.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.errors import ConfigError, GatewayError, Problem
from gateway.pinning.facts import Facts
from gateway.pinning.fingerprint import Known
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.protocol.shapes import a_list, a_text, an_object, texts_by_name
from gateway.state.documents import ABSENT, Conflict, Documents, Version

PIN_FILE: Final = "pins.json"
_FORMAT: Final = 2
_TRIES: Final = 50
"""Attempts to write, each lost to another replica that wrote something; after so many something is wrong."""
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


class Overtaken(GatewayError):
    """Somebody else has changed the same server's pin; what it is now is known."""


class Pins:
    """The document, and what it held when it was last read or written. May be used from several threads."""

    def __init__(self, documents: Documents) -> None:
        """Read the document; none is as good as an empty one.

        Raises:
            ConfigError: it is there but cannot be read as what it should be. It is never made anew by itself: who
                could damage it could also have the damage approved.
        """
        self._documents = documents
        self._lock = threading.Lock()
        self._changed: dict[str, Pin | None] = {}
        self._changing = threading.Lock()
        self._version, self._pins = self._read()

    def get(self, server: str) -> Pin | None:
        """Return a server's pin."""
        return self._pins.get(server)

    def save(self, server: str, pin: Pin | None, before: Pin | None) -> None:
        """Put a pin in place of the one of a server that was ``before``, None for none; it counts once it is durable.

        Raises:
            Overtaken: it is not that one any more.
            ConfigError: what others have written meanwhile is damaged; everything is as before.
            OSError: it cannot be written; everything is as before.
        """
        with self._lock:
            for _ in range(_TRIES):
                if self._pins.get(server) != before:
                    raise Overtaken(server)
                pins = {name: kept for name, kept in self._pins.items() if name != server}
                if pin is not None:
                    pins[server] = pin
                try:
                    self._version = self._documents.replace(PIN_FILE, _body(pins), self._version)
                except Conflict:
                    self._reread()
                    continue
                self._pins = pins
                return
        raise OSError("others write all the time")

    def refresh(self) -> None:
        """Read what others have written.

        Raises:
            ConfigError: it is damaged, or cannot be read; everything is as before.
        """
        with self._lock:
            self._reread()

    def take_changed(self) -> Mapping[str, Pin | None]:
        """Return the servers whose pins others have changed since this was last asked, with what they were before."""
        # Not the lock that is held while a database is waited for: this is asked on the loop.
        with self._changing:
            changed, self._changed = self._changed, {}
        return changed

    def _reread(self) -> None:
        version, pins = self._read()
        others = {name: self._pins.get(name) for name in {*pins, *self._pins} if pins.get(name) != self._pins.get(name)}
        self._version, self._pins = version, pins
        with self._changing:
            # What it was when this was last asked, also where it changed twice since.
            self._changed = others | self._changed

    def _read(self) -> tuple[Version, dict[str, Pin]]:
        place = self._documents.place(PIN_FILE)
        try:
            document = self._documents.load(PIN_FILE)
            return (document.version, _parse(place, document.data)) if document is not None else (ABSENT, {})
        except OSError as error:
            raise _damaged(place, error.strerror or type(error).__name__) from None


def _body(pins: Mapping[str, Pin]) -> bytes:
    body: Object = {"v": _FORMAT, "servers": {name: _value(kept) for name, kept in sorted(pins.items())}}
    return rawjson.pretty(body).encode() + b"\n"


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


def _parse(place: str, data: bytes) -> dict[str, Pin]:
    try:
        value = rawjson.decode_value(data)
    except JsonError as error:
        raise _damaged(place, str(error)) from None
    if isinstance(value, dict) and value.get("v") == 1:
        hint = "it was written by a version that held nothing back; remove it to have every server recorded anew"
        raise ConfigError([Problem("the pin file is of an older form", file=place, hint=hint)])
    servers = value.get("servers") if isinstance(value, dict) and value.get("v") == _FORMAT else None
    if not isinstance(servers, dict):
        raise _damaged(place, "is not a pin file of this version")
    try:
        return {name: _read_pin(pin) for name, pin in servers.items()}
    except ValueError:
        raise _damaged(place, "holds something that is no pin") from None


def _read_pin(value: Value) -> Pin:
    body = an_object(value)
    forms = {
        name: tuple(_read_known(each) for each in a_list(item))
        for name, item in an_object(body.get("definitions")).items()
    }
    if not all(forms.values()):
        raise ValueError("a definition without any approved form")
    return Pin(
        facts=texts_by_name(body.get("facts")),
        instructions=_read_known(body.get("instructions")),
        definitions=forms,
        rejected=texts_by_name(body.get("rejected")),
        at=a_text(body.get("at")),
    )


def _read_known(value: Value) -> Known:
    body = an_object(value)
    return Known(a_text(body.get("digest")), a_text(body.get("text")))


def _damaged(place: str, why: str) -> ConfigError:
    hint = "restore it; to trust every server anew as it is now, remove the file"
    return ConfigError([Problem(f"the pin file cannot be used: {why}", file=place, hint=hint)])
