"""Rows 8 to 10 of the checks: what the headers say of a body, reading it within limits, and what it holds.

Reading is the only I/O; judging is pure. Every limit is checked before the bytes it is about are kept.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gateway.endpoint.rejection import Rejected, Rejection
from gateway.errors import Reason
from gateway.protocol import codes, jsonrpc, rawjson
from gateway.protocol.jsonrpc import Message
from gateway.protocol.rawjson import JsonError, Value

_CONTENT_TYPE = re.compile(r"application/json\s*(?:;(.*))?", re.IGNORECASE | re.DOTALL)
_CHARSET = re.compile(r"\s*charset\s*=\s*\"?([^\";\s]*)\"?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """``size`` in bytes; ``gap`` and ``total`` in seconds without a byte, and for the whole body."""

    size: int
    gap: float = 10.0
    total: float = 30.0


class Source(Protocol):
    """Where the bytes come from; ``readany`` returns b"" at the end."""

    def at_eof(self) -> bool:
        """Tell whether everything has been read."""

    async def readany(self) -> bytes:
        """Return what has arrived, waiting for at least one byte."""


def judge_headers(headers: Mapping[str, str], limits: BodyLimits) -> None:
    """Check length, encoding and type, in this order.

    Raises:
        Rejected: 413 or 415.
    """
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length.lstrip("0")[:20] or "0") > limits.size:
        raise Rejected(_too_large(limits.size))
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Rejected(_unsupported("content_encoding", "Content-Encoding is not supported: send the body as it is"))
    if not _is_json(headers.get("content-type", "")):
        raise Rejected(_unsupported("content_type", "Content-Type must be application/json"))


def _is_json(content_type: str) -> bool:
    match = _CONTENT_TYPE.fullmatch(content_type.strip())
    if match is None:
        return False
    charsets = [found[1].lower() for part in (match[1] or "").split(";") if (found := _CHARSET.fullmatch(part))]
    return all(charset in ("utf-8", "utf8") for charset in charsets)


def _unsupported(reason: str, message: str) -> Rejection:
    return Rejection(415, codes.INVALID_REQUEST, message, reason, close=True)


def _too_large(size: int) -> Rejection:
    code = codes.reason_code(Reason.TOO_LARGE)
    return Rejection(413, code, f"The body may have at most {size} bytes", "body_too_large", close=True)


async def read(source: Source, limits: BodyLimits) -> bytes:
    """Read a whole body.

    Raises:
        Rejected: 413 one byte over the limit; 408 for a stall or a body that takes too long (S11, S15).
    """
    body = bytearray()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limits.total
    try:
        async with asyncio.timeout(min(limits.gap, limits.total)) as patience:
            while not source.at_eof():
                body += await source.readany()
                if len(body) > limits.size:
                    raise Rejected(_too_large(limits.size))
                patience.reschedule(min(deadline, loop.time() + limits.gap))
        return bytes(body)
    except TimeoutError:
        rejection = Rejection(408, codes.INVALID_REQUEST, "The body came too slowly", "slow_body", close=True)
        raise Rejected(rejection) from None


def decode(body: bytes) -> Value:
    """Read the JSON text (row 9).

    Raises:
        Rejected: 400 with −32700 and id null; the reason names the fault for the audit log.
    """
    try:
        return rawjson.decode_strict(body)
    except JsonError as error:
        message = f"Parse error: {error.reason.replace('_', ' ')}"
        rejection = Rejection(400, codes.PARSE_ERROR, message, "json", data={"reason": error.reason})
        raise Rejected(rejection) from None


def message(value: Value) -> Message:
    """Read one JSON-RPC message (row 10).

    Raises:
        Rejected: 400 with −32600, the id echoed where it is valid.
    """
    try:
        return jsonrpc.parse(value)
    except jsonrpc.Invalid as error:
        rejection = Rejection(400, codes.INVALID_REQUEST, f"Invalid request: {error.message}", "jsonrpc", error.id)
        raise Rejected(rejection) from None
