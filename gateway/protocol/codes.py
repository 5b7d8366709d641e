"""JSON-RPC error codes, and the one table from code to HTTP status (2026-07-28 basic/index §Error Codes)."""

from __future__ import annotations

from typing import Final

from gateway.errors import Reason
from gateway.protocol.versions import Era

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

LEGACY_RESOURCE_NOT_FOUND: Final = -32002
LEGACY_URL_ELICITATION: Final = -32042
LEGACY_SESSION: Final = -32001
"""Not found / gone, as the body of a 404 for a session: clients of the legacy era look for it."""

REASON_CODES: Final[dict[Reason, int]] = {
    Reason.RATE_LIMITED: -31001,
    Reason.UNAVAILABLE: -31002,
    Reason.TIMEOUT: -31003,
    Reason.PROTOCOL_ERROR: -31004,
    Reason.TOO_LARGE: -31005,
    Reason.AUDIT_UNAVAILABLE: -31006,
    Reason.OVERLOADED: -31007,
    Reason.DENIED: -31008,
    Reason.CANCELLED: -31009,
}
"""Codes of the gateway's own refusals outside ``tools/call``; all outside the range JSON-RPC and MCP reserve."""

_MODERN_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


def reason_code(reason: Reason) -> int:
    """Return the JSON-RPC code of a refusal of any method but ``tools/call``."""
    return REASON_CODES.get(reason, REASON_CODES[Reason.DENIED])


def runs_nothing(code: int) -> bool:
    """Tell whether a server's error is about the request itself, so that nothing has run."""
    return code in _MODERN_STATUS


def http_status(code: int, era: Era) -> int:
    """Return the HTTP status for an error, our own or relayed.

    Modern: 400 and 404 as streamable-http demands, 200 for everything else. Legacy requests that got past
    parsing always travel with 200, since its clients take a 4xx for the end of the session.
    """
    return _MODERN_STATUS.get(code, 200) if era is Era.MODERN else 200


def is_undefined_reserved(code: int) -> bool:
    """Tell whether a code lies in the range the specification reserves without being defined by it."""
    defined = (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION)
    return -32099 <= code <= -32020 and code not in defined
