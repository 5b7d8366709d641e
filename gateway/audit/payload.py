"""What the log keeps of arguments and results: sizes, shape, keyed digests, and values where a mode asks for them.

Pure. ``full`` values stand beside the chain; see ``sidecars``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, TypeAlias

from gateway.audit import fields, values
from gateway.audit.keys import AuditKey
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Members, Object, Value

Mode: TypeAlias = Literal["none", "shape", "shape+hmac", "conditions", "redacted", "full"]
MODES: Final[tuple[Mode, ...]] = ("none", "shape", "shape+hmac", "conditions", "redacted", "full")
"""Least revealing first."""
_WITH_DIGESTS: Final = frozenset(MODES[2:])
MAX_RESULT: Final = 2**20
"""Bytes of a result that is read for ``redacted``; of a longer one nothing is kept."""

MAX_PATHS: Final = 64
MAX_DEPTH: Final = 4
_MAX_LIST_ITEMS: Final = 8
CUT: Final = "…"
"""The path that counts what a shape left out."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """What to keep of one call. ``reads`` are the paths that conditions read, ``redact`` JSON pointers to hide."""

    mode: Mode
    reads: tuple[values.Path, ...] = ()
    redact: tuple[str, ...] = ()


def arguments_block(keeping: Keeping, arguments: Object, key: AuditKey) -> Object:
    """Describe the arguments of a call: ``args_bytes`` (of their canonical form), ``args_shape``, ``args_hmac``.

    ``conditions`` adds ``args`` and ``args_missing``, ``redacted`` adds ``args``, or ``args_cut`` for too many.
    """
    canonical = rawjson.canonical_decoded(arguments)
    block: Object = {"mode": keeping.mode, "args_bytes": len(canonical)}
    if keeping.mode != "none":
        block["args_shape"] = shape(arguments)
    if keeping.mode in _WITH_DIGESTS:
        block["args_hmac"] = key.digest("arguments", canonical)
    if keeping.mode == "conditions":
        block |= _for_conditions(arguments, keeping)
    elif keeping.mode == "redacted":
        block |= _shown("args", values.redacted(arguments, values.pointers(keeping.redact)))
    return block


def result_block(keeping: Keeping, result: Members, key: AuditKey) -> Object:
    """Describe a result by the bytes its server sent: ``result_bytes``, ``result_hmac``, ``result`` (redacted)."""
    data = rawjson.encode(result)
    block: Object = {"mode": keeping.mode, "result_bytes": len(data)}
    if keeping.mode in _WITH_DIGESTS:
        block["result_hmac"] = key.digest("result", data)
    if keeping.mode == "redacted":
        block |= _shown("result", _redacted_result(data, keeping.redact))
    return block


def full_arguments(keeping: Keeping, arguments: Object) -> bytes:
    """Return the text of the arguments to keep beside the chain."""
    hidden = values.masked(arguments, values.pointers(keeping.redact))
    return b'{"args":' + rawjson.canonical_decoded(hidden) + b"}"


def full_result(keeping: Keeping, result: Members) -> bytes:
    """Return the text of a result to keep beside the chain."""
    data = rawjson.encode(result)
    if keeping.redact and len(data) <= MAX_RESULT:
        value = values.masked(rawjson.peek(rawjson.Raw(data)), _in_result(keeping.redact))
        data = rawjson.encode(value)
    return b'{"result":' + data + b"}"


def _for_conditions(arguments: Object, keeping: Keeping) -> Object:
    picked = values.picked(arguments, keeping.reads[: values.MAX_PATHS], keeping.redact)
    missing = [*picked.missing, *keeping.reads[values.MAX_PATHS :]]
    block: Object = {"args": picked.text}
    if missing:
        block["args_missing"] = [[fields.name(part) for part in path] for path in missing[: values.MAX_PATHS]]
    return block


def _redacted_result(data: bytes, redact: tuple[str, ...]) -> str | None:
    if len(data) > MAX_RESULT:
        return None
    try:
        return values.redacted(rawjson.decode_value(data), _in_result(redact))
    except JsonError:
        return None


def _in_result(redact: tuple[str, ...]) -> tuple[values.Path, ...]:
    """Look for what pointers name in the structured part of a result too: servers echo what they were asked."""
    return tuple(("structuredContent", *pointer) for pointer in values.pointers(redact))


def _shown(member: str, text: str | None) -> Object:
    return {f"{member}_cut": True} if text is None else {member: text}


def shape(arguments: Object) -> Object:
    """Return type and length for each path (JSON Pointer without its first slash): ``{"title": "str:24"}``.

    Lengths are characters of strings, items of lists and objects. At most 64 paths, 4 levels and 8 items of a list;
    ``…`` counts the paths left out.
    """
    found: Object = {}
    shown = 0
    for path, kind in islice(_walk("", arguments, MAX_DEPTH), MAX_PATHS):
        found[fields.name(path)] = kind
        shown += 1
    left_out = _paths(arguments, MAX_DEPTH) - shown
    if left_out:
        found[CUT] = f"cut:{left_out}"
    return found


def _paths(value: Value, depth: int) -> int:
    """Count what ``_walk`` would yield below a value, without writing down a path for each."""
    if not depth:
        return 0
    if isinstance(value, dict):
        return len(value) + sum(_paths(item, depth - 1) for item in value.values() if isinstance(item, (dict, list)))
    if isinstance(value, list):
        return sum(1 + _paths(item, depth - 1) for item in value[:_MAX_LIST_ITEMS] if isinstance(item, (dict, list)))
    return 0


def _walk(path: str, value: Value, depth: int) -> Iterator[tuple[str, str]]:
    if path:
        yield path, _kind(value)
    if not depth:
        return
    prefix = f"{path}/" if path else ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(prefix + key.replace("~", "~0").replace("/", "~1"), item, depth - 1)
    elif isinstance(value, list):
        for index, item in enumerate(value[:_MAX_LIST_ITEMS]):
            if isinstance(item, (dict, list)):
                yield from _walk(f"{prefix}{index}", item, depth - 1)


def _kind(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return f"str:{len(value)}"
        case list():
            return f"list:{len(value)}"
        case dict():
            return f"object:{len(value)}"
