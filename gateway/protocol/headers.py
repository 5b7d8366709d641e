"""Headers that mirror the body (2026-07-28 streamable-http §Request Metadata): codec, extraction and check."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from gateway.protocol.rawjson import Object, Value

VERSION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"
SESSION_ID: Final = "Mcp-Session-Id"
LAST_EVENT_ID: Final = "Last-Event-ID"

_PREFIX, _SUFFIX = "=?base64?", "?="
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_DECIMAL = re.compile(r"-?[0-9]{1,64}(?:\.[0-9]{1,64})?")
_TYPES = ("string", "integer", "boolean")
_DATA_KEYWORDS = frozenset({"enum", "const", "default", "examples"})
_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})


class HeaderError(ValueError):
    """A header value or an ``x-mcp-header`` annotation that breaks the rules; the text says how."""


def encode_value(text: str) -> str:
    """Write a string as a header value, Base64 with the sentinel where plain ASCII will not do (§Value Encoding).

    A tab is encoded too: it is allowed, but not everything on the way leaves it alone.

    Raises:
        HeaderError: a lone surrogate, which has no UTF-8.
    """
    if _PLAIN.fullmatch(text) and not (text.startswith(_PREFIX) and text.endswith(_SUFFIX)):
        return text
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise HeaderError("holds a lone surrogate") from None
    return _PREFIX + base64.b64encode(data).decode("ascii") + _SUFFIX


def decode_value(text: str) -> str:
    """Read a header value back; outer blanks are no part of it (RFC 9110 §5.5).

    Raises:
        HeaderError: characters outside visible ASCII, blank and tab; Base64 that is not canonical; not UTF-8.
    """
    text = text.strip(" \t")
    if not text.isascii() or any((ord(char) < 0x20 and char != "\t") or char == "\x7f" for char in text):
        raise HeaderError("contains characters that a header must not carry")
    if not (text.startswith(_PREFIX) and text.endswith(_SUFFIX) and len(text) >= len(_PREFIX) + len(_SUFFIX)):
        return text
    payload = text[len(_PREFIX) : -len(_SUFFIX)]
    try:
        data = base64.b64decode(payload, validate=True)
        decoded = data.decode("utf-8")
    except (binascii.Error, ValueError):
        raise HeaderError("is not valid Base64 of UTF-8") from None
    if base64.b64encode(data).decode("ascii") != payload:
        raise HeaderError("is not canonical Base64")
    return decoded


@dataclass(frozen=True, slots=True)
class ParamHeader:
    """One ``x-mcp-header`` annotation: header name without prefix, path of property names, type."""

    name: str
    path: tuple[str, ...]
    type: str


def param_headers(schema: Value) -> tuple[ParamHeader, ...]:
    """Collect the ``x-mcp-header`` annotations of an inputSchema (§Schema Extension).

    Raises:
        HeaderError: an annotation that makes the tool definition invalid.
    """
    found: list[ParamHeader] = []
    seen: set[str] = set()
    for path, reachable, node in _subschemas(schema):
        name = node.get("x-mcp-header")
        if "x-mcp-header" not in node:
            continue
        where = "/".join(path) or "the schema itself"
        if not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
            raise HeaderError(f"x-mcp-header of {where} is no header name")
        if not reachable or not path:
            raise HeaderError(f"x-mcp-header of {where} is not reachable through properties alone")
        if name.lower() in seen:
            raise HeaderError(f"x-mcp-header {name} occurs twice")
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise HeaderError(f"x-mcp-header of {where} needs type string, integer or boolean")
        seen.add(name.lower())
        found.append(ParamHeader(name, path, kind))
    return tuple(found)


def _subschemas(schema: Value) -> Iterator[tuple[tuple[str, ...], bool, Object]]:
    """Yield every subschema with its path and whether only ``properties`` led to it, in the order of the text.

    Unknown keywords are entered as well: an annotation anywhere else makes a definition invalid. A stack instead of
    recursion, since nesting is the server's choice.
    """
    stack: list[tuple[tuple[str, ...], bool, Value]] = [((), True, schema)]
    while stack:
        path, reachable, node = stack.pop()
        if isinstance(node, dict):
            yield path, reachable, node
            stack.extend(reversed(list(_children(path, reachable, node))))
        elif isinstance(node, list):
            stack.extend((path, False, item) for item in reversed(node))


def _children(path: tuple[str, ...], reachable: bool, node: Object) -> Iterator[tuple[tuple[str, ...], bool, Value]]:
    for key, value in node.items():
        if key in _MAP_KEYWORDS and isinstance(value, dict):
            direct = key == "properties"
            for name, child in value.items():
                yield (*path, name) if direct else (*path, key, name), reachable and direct, child
        elif key not in _DATA_KEYWORDS:
            yield (*path, key), False, value


def _value_at(arguments: Value, path: tuple[str, ...]) -> Value:
    node = arguments
    for name in path:
        if not isinstance(node, dict) or name not in node:
            return None
        node = node[name]
    return node


def _text(value: Value) -> str | None:
    """Spell a value as the header does; None for what cannot be mirrored: null, arrays, objects.

    Numbers that the schema forbids are spelled all the same: leaving the header out would turn the server's answer
    about the argument into one about the header.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float() if value.is_integer():
            return str(int(value))
        case int() | float():
            return str(value)
        case _:
            return None


def render(arguments: Value, headers: tuple[ParamHeader, ...]) -> dict[str, str]:
    """Return the ``Mcp-Param-*`` headers for a call's arguments; absent and null values have none.

    Raises:
        HeaderError: as ``encode_value``.
    """
    rendered = {}
    for header in headers:
        text = _text(_value_at(arguments, header.path))
        if text is not None:
            rendered[PARAM_PREFIX + header.name] = encode_value(text)
    return rendered


def check(arguments: Value, headers: tuple[ParamHeader, ...], received: Mapping[str, str]) -> None:
    """Compare received ``Mcp-Param-*`` headers with the body (§Server Behavior for Custom Headers).

    ``received`` has lower-case names. Integers are compared as numbers.

    Raises:
        HeaderError: missing, unexpected, unreadable or different.
    """
    for header in headers:
        name = PARAM_PREFIX + header.name
        expected = _value_at(arguments, header.path)
        text = received.get(name.lower())
        if text is None:
            if _text(expected) is not None:
                raise HeaderError(f"{name} is missing")
            continue
        try:
            actual = decode_value(text)
        except HeaderError as error:
            raise HeaderError(f"{name} {error}") from None
        if not _equal(actual, expected):
            raise HeaderError(f"{name} does not match the body")


def _equal(actual: str, expected: Value) -> bool:
    if actual == _text(expected):
        return True
    number = isinstance(expected, (int, float)) and not isinstance(expected, bool)
    # Decimal compares exactly with both, so that integers beyond 2^53 are not rounded into equality.
    return number and _DECIMAL.fullmatch(actual) is not None and Decimal(actual) == expected
