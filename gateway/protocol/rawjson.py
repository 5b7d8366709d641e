"""JSON as this gateway reads and writes it; the only home of msgspec.

Requests are judged as values: ``decode_strict`` accepts exactly one reading of a text or none, so that
no other parser can read it differently (duplicate keys, NaN, lone surrogates, deep nesting).
Definitions are judged as values and travel as bytes: ``decode_exact`` demands the same of them.
Results travel as bytes: ``decode_members`` splits an object one level deep and leaves the rest ``Raw``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar, Union, cast

import msgspec

Raw = msgspec.Raw
Value: TypeAlias = Union[bool, int, float, str, "list[Value]", "dict[str, Value]", None]
Object: TypeAlias = dict[str, Value]
Members: TypeAlias = dict[str, msgspec.Raw]
T = TypeVar("T")

MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_KEYS = 10_000
MAX_NUMBER_LENGTH = 64
_INT_LIMIT = 2**63

_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_OPENING = frozenset(b"[{")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_FLOAT = re.compile(rb"[0-9][.eE]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89abABcdefCDEF]")


class JsonError(ValueError):
    """A text this gateway does not accept as JSON; ``reason`` is a short constant for audit and metrics."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not acceptable as JSON: {reason}")
        self.reason = reason


def decode_strict(data: bytes) -> Value:
    """Decode a request body.

    Raises:
        JsonError: not UTF-8, a byte order mark, duplicate keys (after unescaping), NaN or Infinity, an integer
            beyond ±(2^63-1), a number that overflows or is spelled with over 64 characters, a lone surrogate,
            nesting over 64, over 100,000 nodes or over 10,000 keys in one object.
    """
    return _decode_once(data, _STRICT)


def decode_exact(data: bytes) -> Value:
    """Decode a server's text that is judged as a value and passed on as bytes, such as a definition.

    As strict as ``decode_strict``, but for integers: those are exact at any size that 64 characters can spell,
    since schemas name limits such as 2^64-1.

    Raises:
        JsonError: as for ``decode_strict``.
    """
    return _decode_once(data, _EXACT)


def _decode_once(data: bytes, decoder: json.JSONDecoder) -> Value:
    if data.startswith(_BOMS):
        raise JsonError("byte_order_mark")
    _check_size(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise JsonError("not_utf8") from None
    try:
        value = cast("Value", decoder.decode(text))
    except JsonError:
        raise
    except ValueError:
        raise JsonError("syntax") from None
    if _SURROGATE_ESCAPE.search(text) is not None:
        _check_surrogates(value)
    return value


def _check_size(data: bytes) -> None:
    """Bound depth and number of nodes before anything recurses: a few passes over the bytes, none of them nested.

    What follows a syntax error may be counted wrongly, which is harmless: such a text is refused anyway.
    """
    unescaped = _without_escapes(data)
    if unescaped.count(b'"') > 4 * MAX_NODES:
        raise JsonError("too_many_nodes")
    structure = _without_strings(unescaped)
    opened = structure.count(b"[") + structure.count(b"{")
    if opened + structure.count(b",") > MAX_NODES:
        raise JsonError("too_many_nodes")
    if opened <= MAX_DEPTH:
        return
    depth = 0
    for bracket in structure.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in _OPENING else -1
        if depth > MAX_DEPTH:
            raise JsonError("too_deep")
        if depth < 0:
            raise JsonError("syntax")


def _without_escapes(data: bytes) -> bytes:
    return data.replace(b"\\\\", b"").replace(b'\\"', b"")


def _without_strings(unescaped: bytes) -> bytes:
    """Return what is outside of strings: without escapes every quote ends or begins one."""
    return b"".join(unescaped.split(b'"')[::2])


def _check_surrogates(value: Value) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonError("lone_surrogate") from None


def _object(pairs: list[tuple[str, Value]]) -> Object:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise JsonError("duplicate_key")
    if len(pairs) > MAX_KEYS:
        raise JsonError("too_many_keys")
    return result


def _exact_integer(literal: str) -> int:
    if len(literal) > MAX_NUMBER_LENGTH:
        raise JsonError("number_too_long")
    return int(literal)


def _integer(literal: str) -> int:
    number = _exact_integer(literal)
    if not -_INT_LIMIT < number < _INT_LIMIT:
        raise JsonError("integer_out_of_range")
    return number


def _number(literal: str) -> float:
    if len(literal) > MAX_NUMBER_LENGTH:
        raise JsonError("number_too_long")
    number = float(literal)
    if not math.isfinite(number):
        raise JsonError("number_out_of_range")
    return number


def _constant(literal: str) -> float:
    raise JsonError("not_a_number")


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_int=_integer, parse_constant=_constant)
_EXACT = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_int=_exact_integer, parse_constant=_constant
)


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_values = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="sorted")


def decode_members(data: bytes | msgspec.Raw) -> Members:
    """Split a JSON object into its members without reading them; the last of equal keys wins.

    Raises:
        JsonError: not UTF-8, a lone surrogate, not JSON, not an object, or nested beyond what can be walked.
    """
    _check_utf8(data)
    try:
        return _members.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        broken = _LONE_SURROGATE.search(memoryview(data)) is not None
        raise JsonError("lone_surrogate" if broken else "not_an_object") from None


def decode_items(data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """Split a JSON array into its items without reading them.

    Raises:
        JsonError: not UTF-8, not a JSON array, or nested beyond what can be walked.
    """
    _check_utf8(data)
    try:
        return _items.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise JsonError("not_an_array") from None


def decode_value(data: bytes | msgspec.Raw) -> Value:
    """Read any JSON text of a server or of our own files. For requests of clients use ``decode_strict``.

    Raises:
        JsonError: not JSON, or nested beyond what can be walked.
    """
    try:
        return cast("Value", _values.decode(data))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise JsonError("syntax") from None


def decode_as(kind: type[T], data: bytes | msgspec.Raw) -> T:
    """Read what one gateway wrote for another: a dataclass, with the types of its fields.

    Raises:
        JsonError: it is something else.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise JsonError("other_shape") from None


def repaired(data: bytes) -> bytes:
    """Replace by U+FFFD what is not UTF-8 and what is half a surrogate pair; the structure stays as it was.

    Never for what is passed on: only to learn which call a broken answer belongs to.
    """
    return _LONE_SURROGATE.sub(rb"\\ufffd", data.decode("utf-8", "replace").encode())


def peek(item: msgspec.Raw | None) -> Value:
    """Read a member of a server's message where anything unusable counts as null: absent, out of range, too deep."""
    if item is None:
        return None
    try:
        return decode_value(item)
    except JsonError:
        return None


def _check_utf8(data: bytes | msgspec.Raw) -> None:
    """Look at every byte once, where a text enters: skipped members are not decoded, so msgspec would not."""
    if isinstance(data, bytes) and not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise JsonError("not_utf8") from None


def encode(value: object) -> bytes:
    """Write a value as compact UTF-8; ``Raw`` members are copied as they are.

    Raises:
        JsonError: a string with a lone surrogate (nothing decoded here has one), or nested beyond what can be walked.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        raise JsonError("lone_surrogate") from None
    except RecursionError:
        raise JsonError("too_deep") from None


def pretty(value: object) -> str:
    """Write a value over several lines, for people and for files that people edit."""
    return json.dumps(_plain(value), ensure_ascii=False, indent=2)


def raw(value: object) -> msgspec.Raw:
    """Encode a value for use as a member among raw ones. Raises as ``encode`` does."""
    return msgspec.Raw(encode(value))


def raw_bytes(item: msgspec.Raw) -> bytes:
    """Return the JSON text that an undecoded member holds."""
    return bytes(memoryview(item))


def is_text(item: msgspec.Raw, text: bytes) -> bool:
    """Tell whether a member is spelled exactly so, without copying it: it can be megabytes."""
    view = memoryview(item)
    return view.nbytes == len(text) and view.tobytes() == text


def canonical(value: object) -> bytes:
    """Write the canonical form: keys sorted by code point, no spaces, UTF-8, exact integers, shortest floats.

    Used for digests and the audit chain. Unlike RFC 8785 it keeps integers beyond 2^53 exact.

    Raises:
        JsonError: NaN or infinity, a lone surrogate, or nested beyond what can be walked.
    """
    try:
        text = json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8")
    except JsonError:
        raise
    except RecursionError:
        raise JsonError("too_deep") from None
    except UnicodeEncodeError:
        raise JsonError("lone_surrogate") from None
    except ValueError:
        raise JsonError("number_out_of_range") from None


def canonical_plain(value: Value) -> bytes:
    """Write the canonical form of a decoded value without floats: the same bytes as ``canonical``, many times as fast.

    Raises:
        JsonError: a lone surrogate, or nested beyond what can be walked.
    """
    try:
        return _sorted_encoder.encode(value)
    except UnicodeEncodeError:
        raise JsonError("lone_surrogate") from None
    except RecursionError:
        raise JsonError("too_deep") from None


def canonical_decoded(value: Value) -> bytes:
    """Write the canonical form of a value that was decoded here, fast unless it holds floats or very large integers.

    Raises:
        JsonError: a lone surrogate, or nested beyond what can be walked.
    """
    try:
        text = canonical_plain(value)
    except OverflowError:
        return canonical(value)
    # Floats are all that the two writers spell differently.
    return canonical(value) if _FLOAT.search(_without_strings(_without_escapes(text))) else text


def _plain(value: object) -> Any:
    """Make a tree that the encoder knows: raw members decoded, mappings and tuples as dicts and lists."""
    if isinstance(value, msgspec.Raw):
        return decode_value(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
