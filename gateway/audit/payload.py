"""What the log keeps of arguments and results: sizes, their shape, and keyed digests, never a value. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, TypeAlias

from gateway.audit import fields
from gateway.audit.keys import AuditKey
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members, Object, Value

Mode: TypeAlias = Literal["none", "shape", "shape+hmac"]
MODES: Final[tuple[Mode, ...]] = ("none", "shape", "shape+hmac")

MAX_PATHS: Final = 64
MAX_DEPTH: Final = 4
_MAX_LIST_ITEMS: Final = 8
CUT: Final = "…"
"""The path that counts what a shape left out."""


def arguments_block(mode: Mode, arguments: Object, key: AuditKey) -> Object:
    """Describe the arguments of a call: ``args_bytes`` (of their canonical form), ``args_shape``, ``args_hmac``."""
    canonical = rawjson.canonical_decoded(arguments)
    block: Object = {"mode": mode, "args_bytes": len(canonical)}
    if mode != "none":
        block["args_shape"] = shape(arguments)
    if mode == "shape+hmac":
        block["args_hmac"] = key.digest("arguments", canonical)
    return block


def result_block(mode: Mode, result: Members, key: AuditKey) -> Object:
    """Describe a result by the bytes its server sent: ``result_bytes``, ``result_hmac``."""
    data = rawjson.encode(result)
    block: Object = {"mode": mode, "result_bytes": len(data)}
    if mode == "shape+hmac":
        block["result_hmac"] = key.digest("result", data)
    return block


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
