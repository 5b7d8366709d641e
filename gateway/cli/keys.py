"""``keys new``: a key for a client, printed once, and the entry that knows only its digest."""

from __future__ import annotations

import argparse
import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import date
from typing import Final

from gateway.cli.output import Exit, Output, escaped, wants_json
from gateway.config.names import ANONYMOUS, CLIENT_NAME
from gateway.protocol import rawjson

_PREFIX: Final = "mcpgw"
_ID_BYTES: Final = 4
_SECRET_BYTES: Final = 32
# What YAML reads back as the same text without quotes.
_PLAIN = re.compile(r"(?=.*[A-Za-z])[A-Za-z][A-Za-z0-9._-]*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key and its digest; the key itself is kept nowhere."""

    text: str
    sha256: str

    def __repr__(self) -> str:
        return f"NewKey(sha256={self.sha256!r})"


def new_key() -> NewKey:
    """Make a key of 256 random bits with a short name that is no secret."""
    text = f"{_PREFIX}_{secrets.token_hex(_ID_BYTES)}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewKey(text, hashlib.sha256(text.encode("ascii")).hexdigest())


def run(args: argparse.Namespace) -> int:
    """Make a key for one client."""
    name: str = args.name
    wrong = _wrong(name, args.group)
    if wrong:
        Output.errors().line(wrong)
        return Exit.UNKNOWN
    key = new_key()
    output = Output.standard()
    if wants_json(args):
        client: dict[str, object] = {"key_sha256": [key.sha256]}
        if args.expires:
            client["expires"] = args.expires.isoformat()
        if args.group:
            client["groups"] = args.group
        output.value({"name": name, "key": key.text, "clients": {name: client}})
        return Exit.FINE
    output.line("The key, shown only now; the client sends it as Authorization: Bearer KEY (see snippet):")
    output.line("")
    output.line(f"  {key.text}")
    output.line("")
    output.line(
        "The entry for the config; a client may list several, for rotation. With clients, nobody gets in without a key:"
    )
    output.line("")
    output.block(entry(name, key, args.group, args.expires))
    return Exit.FINE


def entry(name: str, key: NewKey, groups: list[str], expires: date | None) -> str:
    """Return the YAML to paste."""
    lines = ["clients:", f"  {_yaml(name)}:", f'    key_sha256: ["{key.sha256}"]']
    if expires:
        lines.append(f"    expires: {expires.isoformat()}")
    if groups:
        lines.append(f"    groups: [{', '.join(_yaml(group) for group in groups)}]")
    return "\n".join(lines)


def _wrong(name: str, groups: list[str]) -> str:
    if name == ANONYMOUS:
        return "keys new: anonymous is reserved: it means callers without credentials"
    if not CLIENT_NAME.fullmatch(name):
        return f"keys new: '{escaped(name[:64])}' cannot be a client's name: letters, digits and . _ @ -, at most 64"
    bad = next((group for group in groups if not group or group != group.strip() or not group.isprintable()), None)
    return "keys new: a group needs a name without spaces around it" if bad is not None else ""


def _yaml(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.casefold() not in _WORDS
    return text if plain else rawjson.encode(text).decode("utf-8")
