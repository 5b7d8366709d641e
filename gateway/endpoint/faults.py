"""Servers' own errors, as a client of either era may see them (contract: Servers' own errors). Pure."""

from __future__ import annotations

from typing import Final

from gateway.endpoint.classify import SHOWN
from gateway.errors import Reason
from gateway.model.call import Call, Sort
from gateway.model.catalog import Kind
from gateway.model.outcome import LOOK, Failure
from gateway.protocol import capabilities, codes, methods, rawjson
from gateway.protocol.codes import reason_code
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import JsonError, Raw, Value
from gateway.protocol.versions import Era
from gateway.telemetry.text import printable

GATEWAY = "gateway"
"""``data.source`` of every error that is ours and not a server's."""

_OUR_HOP = frozenset({codes.HEADER_MISMATCH, codes.UNSUPPORTED_VERSION})
_UNUSABLE = frozenset({codes.LEGACY_RESOURCE_NOT_FOUND, codes.LEGACY_URL_ELICITATION})


_UNKNOWN: Final[dict[Sort, str]] = {Kind.TOOL: "Unknown tool", Kind.PROMPT: "Unknown prompt"}


def unknown(call: Call) -> ErrorObject:
    """Return the one answer for names that are unknown, hidden or held back, all alike (S60)."""
    what = _UNKNOWN.get(call.target.kind)
    if what is not None:
        return ErrorObject(codes.INVALID_PARAMS, f"{what}: {printable(call.exposed, SHOWN)}")
    legacy = call.caller.era is Era.LEGACY
    code = codes.LEGACY_RESOURCE_NOT_FOUND if legacy else codes.INVALID_PARAMS
    return ErrorObject(code, "Resource not found", rawjson.raw({"uri": call.exposed}))


def of_server(call: Call, error: ErrorObject, server_era: str) -> ErrorObject | Failure:
    """Return a server's error for this client: as it is, under another code, or as a failure of our hop."""
    if error.code in _OUR_HOP:
        return _protocol_error(call)
    if error.code == codes.MISSING_CLIENT_CAPABILITY:
        return _capability(call, error)
    if call.caller.era is Era.MODERN:
        return _for_modern(call, error)
    modern_server = server_era == Era.MODERN.value
    if modern_server and call.method == methods.RESOURCES_READ and error.code == codes.INVALID_PARAMS:
        return ErrorObject(codes.LEGACY_RESOURCE_NOT_FOUND, error.message, error.data)
    return error


def _for_modern(call: Call, error: ErrorObject) -> ErrorObject:
    if error.code == codes.LEGACY_RESOURCE_NOT_FOUND and call.method == methods.RESOURCES_READ:
        return ErrorObject(codes.INVALID_PARAMS, error.message, _with_uri(error.data, call.exposed))
    if error.code in _UNUSABLE or codes.is_undefined_reserved(error.code):
        return _wrapped(error)
    return error


def _with_uri(data: Raw | None, uri: str) -> Raw:
    """Add ``uri`` to a server's data; data that is no object gives way."""
    try:
        members = rawjson.decode_members(data) if data is not None else {}
    except JsonError:
        members = {}
    return rawjson.raw(members | {"uri": rawjson.raw(uri)})


def _wrapped(error: ErrorObject) -> ErrorObject:
    """Move an error whose code means nothing in this version out of the reserved range, whole."""
    server: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        server["data"] = error.data
    data = {"source": GATEWAY, "reason": Reason.PROTOCOL_ERROR.value, "server": server}
    return ErrorObject(reason_code(Reason.PROTOCOL_ERROR), error.message, rawjson.raw(data))


def _protocol_error(call: Call) -> Failure:
    return Failure(
        Reason.PROTOCOL_ERROR,
        f'Server "{call.target.server}" did not accept how this gateway speaks to it. The call did not run. {LOOK}',
    )


def _capability(call: Call, error: ErrorObject) -> ErrorObject | Failure:
    """Relay a missing capability only if it is the client that lacks it."""
    required, withheld = _required(error.data), _withheld(call, error.data)
    if withheld:
        return Failure(
            Reason.DENIED,
            f'Server "{call.target.server}" needs the extension {", ".join(withheld)} of its client, which this '
            "gateway does not pass on to it. The call did not run. Ask the gateway's operators about it.",
        )
    if not required or any(name not in call.caller.capabilities for name in required):
        return error
    return Failure(
        Reason.DENIED,
        f'Server "{call.target.server}" needs to ask the client ({", ".join(sorted(required))}), which this gateway\'s '
        "config does not allow it (asks). The call did not run. Ask the gateway's operators to allow it.",
    )


def _required(data: Raw | None) -> set[str]:
    try:
        value: Value = rawjson.decode_value(data) if data is not None else None
    except JsonError:
        return set()
    named = value.get("requiredCapabilities") if isinstance(value, dict) else None
    return set(named) & {"elicitation", "sampling", "roots"} if isinstance(named, dict) else set()


def _withheld(call: Call, data: Raw | None) -> list[str]:
    """Return the extensions that a server misses although the client declared them: they cannot be passed on."""
    value = rawjson.peek(data)
    named = value.get("requiredCapabilities") if isinstance(value, dict) else None
    wanted = capabilities.extensions_of(named) if isinstance(named, dict) else {}
    declared = call.caller.capabilities
    kept_back = capabilities.extensions_of(declared).keys() - capabilities.carried(
        declared, call.caller.era, Era.MODERN
    )
    return sorted(wanted.keys() & kept_back)
