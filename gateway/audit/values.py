"""Values that a record may hold: those that conditions read, exactly; or all of them, with what is secret masked. Pure.

They stand in records as JSON texts, since a record itself holds no fractions and no large integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.protocol.strings import split_pointer
from gateway.text import secrets

Path: TypeAlias = tuple[str, ...]

MAX_KEPT: Final = 4_096
"""Bytes of one JSON text in a record."""
MAX_STRING: Final = 256
"""Characters of a text in ``redacted``."""
MAX_PATHS: Final = 64
_SCANNED: Final = 8_192
"""Characters that are searched for secrets: only the first of them are kept."""
_MAX_DEPTH: Final = 16
_SHORTER: Final = (MAX_STRING, 64, 16)
CUT: Final = "…"


@dataclass(frozen=True, slots=True)
class Picked:
    """The arguments that conditions read, as a JSON text; ``missing`` are the paths whose values are not in it."""

    text: str
    missing: tuple[Path, ...] = ()


def picked(arguments: Object, reads: Iterable[Path], redact: Iterable[str]) -> Picked:
    """Keep the arguments at these paths and nothing beside them, so that every condition says again what it said.

    What is not there stays absent, and what a path leads through keeps its kind: an object without the member, or the
    value that is none. A path that ``redact`` touches, or whose value is too long, is missing.
    """
    hidden = pointers(tuple(redact))
    kept: Object = {}
    missing = [
        path for path in reads if any(_touch(pointer, path) for pointer in hidden) or not _place(kept, arguments, path)
    ]
    return Picked(_text(kept), tuple(missing))


def _place(kept: Object, arguments: Object, path: Path) -> bool:
    """Copy what is at a path; False, with nothing changed, where it is too much."""
    source: Value = arguments
    for depth, part in enumerate(path):
        if not isinstance(source, dict) or part not in source:
            return _put(kept, path[:depth], {} if isinstance(source, dict) else source)
        source = source[part]
    return _put(kept, path, source)


def _put(kept: Object, path: Path, value: Value) -> bool:
    if len(_text(kept).encode()) + len(_text(value).encode()) + 4 * sum(map(len, path)) > MAX_KEPT:
        return False
    if not path:
        if isinstance(value, dict):
            for key, item in value.items():
                kept.setdefault(key, item)
        return True
    place = kept
    for part in path[:-1]:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            return True
        place = inner
    before = place.get(path[-1])
    # An object on the way to another path must not replace what that path has already put there.
    if not (isinstance(before, dict) and value == {}):
        place[path[-1]] = value
    return True


def _touch(pointer: Path, path: Path) -> bool:
    """Tell whether one leads to, into or through the other."""
    return all(a in (b, "*") for a, b in zip(pointer, path, strict=False))


def redacted(value: Value, hidden: tuple[Path, ...]) -> str | None:
    """Return a JSON text without secrets: those with a telling name, at a pointer, or of a known form.

    Texts are cut; None where it is still too long.
    """
    for limit in _SHORTER:
        text = _text(_masked(value, hidden, limit, _MAX_DEPTH))
        if len(text.encode()) <= MAX_KEPT:
            return text
    return None


def masked(value: Value, hidden: tuple[Path, ...]) -> Value:
    """Return a value with what pointers lead to replaced by ``[R:len]``, everything else as it is."""
    if not hidden:
        return value
    if isinstance(value, dict):
        return {
            key: _hole(item) if _ends(hidden, key) else masked(item, _below(hidden, key)) for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _hole(item) if _ends(hidden, str(at)) else masked(item, _below(hidden, str(at)))
            for at, item in enumerate(value)
        ]
    return value


@lru_cache(maxsize=256)
def pointers(texts: tuple[str, ...]) -> tuple[Path, ...]:
    """Split the JSON pointers of a config, which the loader has checked."""
    return tuple(split_pointer(text) for text in texts)


def _masked(value: Value, hidden: tuple[Path, ...], limit: int, depth: int) -> Value:
    match value:
        case str():
            return _shown(value, limit)
        case dict() | list() if not depth:
            return f"{type(value).__name__}:{len(value)}"
        case dict():
            return {
                _shown(key, limit): _hole(item)
                if secrets.is_secret_name(key) or _ends(hidden, key)
                else _masked(item, _below(hidden, key), limit, depth - 1)
                for key, item in value.items()
            }
        case list():
            return [
                _hole(item) if _ends(hidden, str(at)) else _masked(item, _below(hidden, str(at)), limit, depth - 1)
                for at, item in enumerate(value)
            ]
        case _:
            return value


def _shown(text: str, limit: int) -> str:
    shown = secrets.redact(text[:_SCANNED])
    return shown if len(shown) <= limit else shown[:limit] + CUT


def _hole(value: Value) -> str:
    return f"[R:{len(value) if isinstance(value, str) else len(_text(value))}]"


def _ends(hidden: tuple[Path, ...], name: str) -> bool:
    return any(len(pointer) == 1 and pointer[0] in (name, "*") for pointer in hidden)


def _below(hidden: tuple[Path, ...], name: str) -> tuple[Path, ...]:
    return tuple(pointer[1:] for pointer in hidden if len(pointer) > 1 and pointer[0] in (name, "*"))


def _text(value: Value) -> str:
    try:
        return rawjson.canonical_decoded(value).decode()
    except JsonError:
        # Only a server's answer can hold what cannot be written again.
        return '"unreadable"'
