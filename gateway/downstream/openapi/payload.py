"""Writes arguments into the body of a request: JSON, a form, parts, text or bytes. Pure."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.downstream.openapi.bodies import FORM, Body, Field
from gateway.downstream.openapi.output import is_json
from gateway.downstream.openapi.serialise import BadArgument, fair_pairs_of, may_choose, text_of
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value

_UNNAMEABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Payload:
    """A body, and the ``Content-Type`` it goes with."""

    kind: str
    data: bytes


def payload_of(body: Body, arguments: Object, fixed: frozenset[str] = frozenset()) -> Payload | None:
    """Write a body; None where there is nothing to send.

    ``fixed`` are names that the config sends in the query: frameworks often read both as one.

    Raises:
        BadArgument: an argument cannot be sent.
    """
    if body.argument:
        value = arguments.get(body.argument)
        if body.argument not in arguments or (value is None and body.form != "json"):
            return Payload(body.media, b"") if body.required and body.form in ("text", "binary") else None
        return _whole(body, value, fixed)
    given = [each for each in body.fields if each.argument in arguments]
    if not given and not body.required:
        return None
    match body.form:
        case "form":
            return Payload(FORM, _form(given, arguments, fixed))
        case "multipart":
            return _parted(body, given, arguments)
        case _:
            return Payload(body.media, rawjson.encode({each.name: arguments[each.argument] for each in given}))


def _whole(body: Body, value: Value, fixed: frozenset[str]) -> Payload:
    members = value if isinstance(value, dict) else {}
    known = {each.name: each for each in body.fields}
    fields = [known.get(name) or Field(name, name, {}) for name in members]
    for name in members if body.form in ("form", "multipart") else ():
        if name not in body.declared:
            may_choose(body.argument, name, fixed)
    match body.form:
        case "json":
            return Payload(body.media, rawjson.encode(value))
        case "form":
            return Payload(FORM, _form(fields, members, fixed))
        case "multipart":
            return _parted(body, fields, members)
        case "text":
            return Payload(f"{body.media}; charset=utf-8", text_of(value).encode("utf-8", "replace"))
        case _:
            return Payload(body.media, _bytes(body.argument, value))


def _form(fields: list[Field], arguments: Object, fixed: frozenset[str]) -> bytes:
    pairs = [
        pair
        for each in fields
        if arguments[each.argument] is not None
        for pair in fair_pairs_of(each.parameter, arguments[each.argument], fixed)
    ]
    return "&".join(pairs).encode()


def _parted(body: Body, fields: list[Field], arguments: Object) -> Payload:
    boundary = secrets.token_hex(16)
    return Payload(f"{body.media}; boundary={boundary}", _multipart(fields, arguments, boundary.encode()))


def _multipart(fields: list[Field], arguments: Object, boundary: bytes) -> bytes:
    """Write one part for each field, for a list one for each item (RFC 7578)."""
    parts = [
        b"--" + boundary + b"\r\n" + b"".join(_part(each, item, arguments)) + b"\r\n"
        for each in fields
        for item in _items(arguments[each.argument])
    ]
    return b"".join(parts) + b"--" + boundary + b"--\r\n"


def _items(value: Value) -> list[Value]:
    """Return what the parts of a field hold: a list is as many parts as it has items."""
    return [item for item in (value if isinstance(value, list) else [value]) if item is not None]


def _part(each: Field, value: Value, arguments: Object) -> Iterator[bytes]:
    yield b'Content-Disposition: form-data; name="' + _escaped(each.argument, each.name) + b'"'
    if each.binary:
        given = arguments.get(each.filename) if each.filename else None
        name = given if isinstance(given, str) and given else each.name
        yield b'; filename="' + _escaped(each.filename or each.argument, name) + b'"'
    if each.media:
        yield b"\r\nContent-Type: " + each.media.encode()
    yield b"\r\n\r\n"
    if each.binary:
        yield _bytes(each.argument, value)
    elif is_json(each.media):
        yield rawjson.encode(value)
    else:
        yield text_of(value).encode("utf-8", "replace")


def _escaped(argument: str, name: str) -> bytes:
    """Write a name into a header field of a part, as browsers do (WHATWG HTML, multipart/form-data)."""
    if _UNNAMEABLE.search(name) or len(name) > 1024:
        raise BadArgument(argument, "it is no name for a file or field")
    return name.replace('"', "%22").encode("utf-8", "replace")


def _bytes(argument: str, value: Value) -> bytes:
    if not isinstance(value, str):
        raise BadArgument(argument, "it needs to be a text in base64")
    compact = "".join(value.split()).replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadArgument(argument, "it is not base64") from None
