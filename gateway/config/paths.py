"""Which values are paths, and what relative ones are relative to: the folder of the config file, not of the caller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gateway.config.places import Loc, Mapping, find, put

_PATHS: Final[tuple[Loc, ...]] = (
    ("listen", "tls", "cert"),
    ("listen", "tls", "key"),
    ("listen", "tls", "client_ca"),
    ("servers", "*", "cwd"),
    ("servers", "*", "tls", "ca"),
    ("servers", "*", "auth", "ca"),
    ("servers", "*", "pin", "files", "*"),
    ("servers", "*", "openapi"),
    ("auth", "jwt", "ca"),
    ("telemetry", "otlp", "ca"),
    ("state", "dir"),
    ("state", "ca"),
    ("audit", "dir"),
)
# A bare word is looked up in PATH.
_COMMANDS: Final[tuple[Loc, ...]] = (("servers", "*", "command"), ("servers", "*", "sandbox", "*"))
_READ_LATER: Final[tuple[Loc, ...]] = (
    ("listen", "tls", "cert"),
    ("listen", "tls", "key"),
    ("listen", "tls", "client_ca"),
    ("servers", "*", "tls", "ca"),
    ("servers", "*", "auth", "ca"),
    ("servers", "*", "openapi"),
    ("auth", "jwt", "ca"),
    ("telemetry", "otlp", "ca"),
)
"""Files that are not read by a load, but whose content is in force: where it changes, it is taken anew.

Not ``pin.files``: what those held when a server started is what counts until it starts again.
"""
_DEFAULTS: Final = (("state", "./state"), ("audit", "audit"))


def make_absolute(tree: Mapping, base: Path) -> None:
    """Make every path in an expanded tree absolute, defaults included."""
    for section, default in _DEFAULTS:
        values = tree.setdefault(section, {})
        if isinstance(values, dict):
            values.setdefault("dir", default)
    for pattern in _PATHS:
        for loc, value in find(tree, pattern):
            if isinstance(value, str) and value and "://" not in value:
                put(tree, loc, os.path.normpath(base / value))
    for pattern in _COMMANDS:
        for loc, value in find(tree, pattern):
            if loc[-1] in ("command", 0) and isinstance(value, str) and "/" in value:
                put(tree, loc, os.path.normpath(base / value))


def referred(tree: Mapping) -> list[tuple[Loc, Path]]:
    """Return the files that an absolute tree names for others to read, each with its place."""
    return [
        (loc, Path(value))
        for pattern in _READ_LATER
        for loc, value in find(tree, pattern)
        if isinstance(value, str) and value and "://" not in value
    ]
