"""Changes the texts inside a JSON text and nothing else: every other byte stays (numbers, spaces, order, what we do
not know). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError

Change: TypeAlias = Callable[[str], str]
"""Takes a text and returns it changed, or the same object."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""Never goes back: for a text of escapes alone going back takes many times its length in memory."""
_IS_KEY: Final = re.compile(rb"\s*:")
_BINARY_KEYS: Final = frozenset({b'"data"', b'"blob"'})
_BASE64: Final = re.compile(rb'"[A-Za-z0-9+/_=\s-]*"')
_PLAIN: Final = re.compile(rb'"[\x20-\x7e]*"')


def changed(data: bytes, change: Change, *, plain_too: bool = True) -> bytes:
    """Return a valid JSON text with each of its texts changed, keys too.

    Base64 in ``data`` and ``blob`` is left alone. Without ``plain_too`` texts of printable ASCII without escapes are
    not looked at: a change that leaves them as they are costs nothing for them.
    """
    parts: list[bytes] = []
    at, key = 0, b""
    for match in _STRING.finditer(data):
        token = match[0]
        if _IS_KEY.match(data, match.end()) is not None:
            key, binary = token, False
        else:
            binary = key in _BINARY_KEYS and _BASE64.fullmatch(token) is not None
        if binary or (not plain_too and b"\\" not in token and _PLAIN.fullmatch(token) is not None):
            continue
        after = _changed(token, change)
        if after is not token:
            parts += [data[at : match.start()], after]
            at = match.end()
    if not parts:
        return data
    parts.append(data[at:])
    return b"".join(parts)


def _changed(token: bytes, change: Change) -> bytes:
    try:
        text = rawjson.decode_value(token)
    except JsonError:
        return token
    if not isinstance(text, str):
        return token
    after = change(text)
    return token if after == text else rawjson.encode(after)


def without(data: bytes, pointers: tuple[tuple[str, ...], ...]) -> bytes:
    """Return a JSON text without the members that pointers lead to (RFC 6901, split); ``*`` stands for every item.

    What a pointer does not find is not missed; every other byte of what stays is kept, but for spaces between members.
    """
    here = [pointer for pointer in pointers if pointer]
    if not here or not data.lstrip().startswith((b"{", b"[")):
        return data
    if data.lstrip().startswith(b"{"):
        members = rawjson.decode_members(data)
        kept = {name: _reduced(item, _below(here, name)) for name, item in members.items() if not _ends(here, name)}
        return data if len(kept) == len(members) and all(kept[n] is members[n] for n in kept) else rawjson.encode(kept)
    items = rawjson.decode_items(data)
    left = [_reduced(item, _below(here, str(at))) for at, item in enumerate(items) if not _ends(here, str(at))]
    same = len(left) == len(items) and all(one is other for one, other in zip(left, items, strict=True))
    return data if same else rawjson.encode(left)


def _below(pointers: list[tuple[str, ...]], name: str) -> tuple[tuple[str, ...], ...]:
    return tuple(pointer[1:] for pointer in pointers if len(pointer) > 1 and pointer[0] in (name, "*"))


def _ends(pointers: list[tuple[str, ...]], name: str) -> bool:
    return any(len(pointer) == 1 and pointer[0] in (name, "*") for pointer in pointers)


def _reduced(item: rawjson.Raw, pointers: tuple[tuple[str, ...], ...]) -> rawjson.Raw:
    if not pointers:
        return item
    data = rawjson.raw_bytes(item)
    after = without(data, pointers)
    return item if after is data else rawjson.Raw(after)


def split_pointer(pointer: str) -> tuple[str, ...]:
    """Split a JSON pointer into its unescaped parts.

    Raises:
        ValueError: it does not begin with ``/``.
    """
    if not pointer.startswith("/"):
        raise ValueError("a JSON pointer begins with /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
