"""JSON-RPC arrays, which only 2025-03-26 has: each element is judged by itself, a call of its own (S30, G064)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.endpoint.rejection import Rejected, Rejection
from gateway.protocol import codes, jsonrpc, methods
from gateway.protocol.jsonrpc import ErrorObject, Invalid, Message, Request
from gateway.protocol.rawjson import Value
from gateway.protocol.versions import OLDEST_LEGACY

MAX_ELEMENTS: Final = 50


def elements(value: Sequence[Value], version: str | None) -> list[Message | Invalid]:
    """Read the elements of an array in the session's version (None: no session).

    An element that is no message becomes its own error; the others are served.

    Raises:
        Rejected: the version has no arrays, or the array is empty, too long or holds a handshake.
    """
    if version != OLDEST_LEGACY:
        raise _refused("JSON-RPC arrays are not part of this protocol version")
    if not 0 < len(value) <= MAX_ELEMENTS:
        raise _refused(f"An array must hold 1 to {MAX_ELEMENTS} messages")
    read = [_parse(item) for item in value]
    if any(isinstance(item, Request) and item.method == methods.INITIALIZE for item in read):
        raise _refused("A handshake must not be part of an array")
    return read


def _parse(item: Value) -> Message | Invalid:
    try:
        return jsonrpc.parse(item)
    except Invalid as error:
        return error


def invalid_element(error: Invalid) -> bytes:
    """Write the answer to an element that is no message."""
    return jsonrpc.encode_error(error.id, ErrorObject(codes.INVALID_REQUEST, f"Invalid request: {error.message}"))


def join(bodies: Sequence[bytes]) -> bytes:
    """Write the array of answers."""
    return b"[" + b",".join(bodies) + b"]"


def _refused(message: str) -> Rejected:
    return Rejected(Rejection(400, codes.INVALID_REQUEST, f"Invalid request: {message}", "batch"))
