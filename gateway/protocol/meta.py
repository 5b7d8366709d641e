"""``_meta`` of requests and results: reserved keys, limits, and what survives a hop (basic/index §_meta)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Members, Object, Value

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_INFO: Final = PREFIX + "clientInfo"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
SERVER_INFO: Final = PREFIX + "serverInfo"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - a member name, no password
TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")

OWN_PREFIX: Final = "dev.mcp-gateway/"
"""Ours alone, though the specification does not reserve it: from others such keys are dropped in both directions."""

INSTANCE: Final = OWN_PREFIX + "instance"
REFUSAL: Final = OWN_PREFIX + "refusal"

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""RFC 5424 severities, least severe first."""

MAX_KEYS = 16
MAX_BYTES = 4096
MAX_TOKEN_LENGTH = 256
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE_MAX = 512
_LABEL = r"[A-Za-z][A-Za-z0-9-]*"
_RESERVED_PREFIX = re.compile(rf"{_LABEL}\.(?:modelcontextprotocol|mcp)(?:\.{_LABEL})*/.*", re.DOTALL)
_KNOWN = frozenset(
    {
        *(PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, SUBSCRIPTION_ID, SERVER_INFO),
        *(PROGRESS_TOKEN, *TRACE_KEYS, INSTANCE, REFUSAL),
    }
)
_FOLDED = frozenset(key.casefold() for key in _KNOWN)


class MetaError(ValueError):
    """A ``_meta`` that cannot be served; the text names the member and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class RequestMeta:
    """What a request's ``_meta`` said. ``extra`` are the client's own keys, passed on unchanged."""

    version: str | None = None
    capabilities: Object | None = None
    client_info: Object | None = None
    log_level: str | None = None
    progress_token: Id | None = None
    trace: dict[str, str] = field(default_factory=dict)
    extra: Object = field(default_factory=dict)


def is_modern(params: Object) -> bool:
    """Tell whether ``_meta`` carries a mark of the modern era (contract: version or clientCapabilities)."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and (PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta)


def read(params: Object) -> RequestMeta:
    """Read ``params._meta``; reserved keys and our own are consumed, at most 16 others of at most 4 KiB are kept.

    Raises:
        MetaError: a known key of the wrong type or in another spelling of case, or too many or too large other ones.
    """
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        raise MetaError("_meta must be an object")
    if any(key not in _KNOWN and key.casefold() in _FOLDED for key in meta):
        raise MetaError("_meta holds a key that differs from a known one only by case")
    extra = {key: item for key, item in meta.items() if not _consumed(key)}
    if len(extra) > MAX_KEYS or len(rawjson.encode(extra)) > MAX_BYTES:
        raise MetaError(f"_meta may hold at most {MAX_KEYS} keys and {MAX_BYTES} bytes besides the reserved ones")
    level = _string(meta, LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise MetaError(f"{LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return RequestMeta(
        version=_string(meta, PROTOCOL_VERSION),
        capabilities=_object(meta, CLIENT_CAPABILITIES),
        client_info=_object(meta, CLIENT_INFO),
        log_level=level,
        progress_token=_token(meta),
        trace=trace_context(meta),
        extra=extra,
    )


def _consumed(key: str) -> bool:
    return (
        key == PROGRESS_TOKEN
        or key in TRACE_KEYS
        or key.startswith(OWN_PREFIX)
        or _RESERVED_PREFIX.fullmatch(key) is not None
    )


def _string(meta: Object, key: str) -> str | None:
    value = meta.get(key)
    if value is not None and not isinstance(value, str):
        raise MetaError(f"{key} must be a string")
    return value


def _object(meta: Object, key: str) -> Object | None:
    value = meta.get(key)
    if value is not None and not isinstance(value, dict):
        raise MetaError(f"{key} must be an object")
    return value


def _token(meta: Object) -> Id | None:
    value = meta.get(PROGRESS_TOKEN)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise MetaError("progressToken must be a string or an integer")
    if isinstance(value, str) and len(value) > MAX_TOKEN_LENGTH:
        raise MetaError(f"progressToken must not be longer than {MAX_TOKEN_LENGTH} characters")
    return value


def trace_context(meta: Mapping[str, Value]) -> dict[str, str]:
    """Keep a well-formed W3C trace context (basic/index §OpenTelemetry trace context; S71).

    ``baggage`` is dropped in both directions: it can carry anything, and here it would cross into another's hands
    (W3C Baggage §Privacy Considerations).
    """
    parent, state = meta.get("traceparent"), meta.get("tracestate")
    if not isinstance(parent, str) or _TRACEPARENT.fullmatch(parent) is None:
        return {}
    if isinstance(state, str) and len(state) <= _TRACESTATE_MAX and state.isascii() and state.isprintable():
        return {"traceparent": parent, "tracestate": state}
    return {"traceparent": parent}


def strip_reserved(meta: Members, keep: frozenset[str] = frozenset()) -> Members:
    """Drop reserved keys and ours from ``_meta`` of a server, but for those in ``keep`` and a valid trace context."""
    trace = trace_context({key: rawjson.peek(meta[key]) for key in TRACE_KEYS if key in meta})
    return {key: item for key, item in meta.items() if key in keep or key in trace or not _consumed(key)}


def without_reserved(members: Members) -> Members:
    """Drop from a server's params or result what its ``_meta`` holds for its own hop alone; an unreadable one goes."""
    own = members.get("_meta")
    if own is None:
        return members
    try:
        kept = strip_reserved(rawjson.decode_members(own))
    except rawjson.JsonError:
        kept = {}
    rest = {key: item for key, item in members.items() if key != "_meta"}
    return members | {"_meta": rawjson.raw(kept)} if kept else rest


def is_logged(level: object, asked: object) -> bool:
    """Tell whether a message of this level reaches a request that asked for logs from a level on."""
    if level not in LOG_LEVELS or asked not in LOG_LEVELS:
        return False
    return LOG_LEVELS.index(str(level)) >= LOG_LEVELS.index(str(asked))


def without_ours(result: Members) -> Members:
    """Drop our own keys from the ``_meta`` of a server's result: there they would pass for this gateway's word."""
    own = result.get("_meta")
    if own is None:
        return result
    try:
        members = rawjson.decode_members(own)
    except rawjson.JsonError:
        return result
    kept = {key: item for key, item in members.items() if not key.startswith(OWN_PREFIX)}
    return result if len(kept) == len(members) else result | {"_meta": rawjson.raw(kept)}


def merge(result: Members, additions: dict[str, Value]) -> Members:
    """Return the result with ``additions`` in its ``_meta``; what the server put there stays, but for equal keys."""
    own = result.get("_meta")
    members: Members = {}
    if own is not None:
        try:
            members = rawjson.decode_members(own)
        except rawjson.JsonError:
            members = {}
    added = {key: rawjson.raw(value) for key, value in additions.items()}
    return result | {"_meta": rawjson.raw(members | added)}
