"""Who shares a connection with whom (contract: Instances and isolation; S101). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.config.servers import Server
from gateway.model.call import Call
from gateway.protocol import capabilities, rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era

SESSION: str = "session:"
PRINCIPAL: str = "principal:"
_PARTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"elicitation": ("form", "url"), "sampling": ("context", "tools"), "roots": ()}
)
"""What is declared of each capability: few combinations, so that no client can make connections at will."""
_DECLARED: Final = "\n"
"""Between whose a connection is and what was declared on it; in no session id and no principal."""


def needs_era(server: Server) -> bool:
    """Tell whether the answer depends on what the server speaks."""
    return (server.isolation == "auto" and server.catalog == "shared") or _may_ask(server)


def _may_ask(server: Server) -> bool:
    return bool(server.asks) and server.park


def declared(server: Server, era: Era | None, call: Call) -> Object:
    """Return the client capabilities to declare in the handshake with a legacy server: the client's within ``asks``.

    Nothing where calls are not parked, since then no question could be answered. That roots change is not promised.
    """
    if era is Era.MODERN or not _may_ask(server):
        return {}
    found = capabilities.intersect(call.caller.capabilities, sorted(server.asks))
    return {name: _parts(name, value) for name, value in found.items()}


def _parts(name: str, value: Value) -> Object:
    return {part: {} for part in _PARTS[name] if isinstance(value, dict) and isinstance(value.get(part), dict)}


def key_of(server: Server, era: Era | None, call: Call) -> str | None:
    """Return the name of the connection that serves a call; None is the one that serves everybody.

    ``auto`` shares modern servers, which are stateless by definition, unless their catalog is per principal. Where
    something is declared, the connection is never everybody's: a question must not reach another principal (S96).
    """
    whose, said = _whose(server, era, call), declared(server, era, call)
    if not said:
        return whose
    digest = hashlib.sha256(rawjson.canonical(said)).hexdigest()[:32]
    return f"{whose or PRINCIPAL + call.principal.id}{_DECLARED}{digest}"


def is_of(key: str, session: str) -> bool:
    """Tell whether a connection belongs to a legacy client session."""
    return key.partition(_DECLARED)[0] == SESSION + session


def _whose(server: Server, era: Era | None, call: Call) -> str | None:
    match server.isolation:
        case "shared":
            return None
        case "session" if call.caller.session:
            return SESSION + call.caller.session
        case "session" | "principal":
            return PRINCIPAL + call.principal.id
        case "auto":
            shared = era is Era.MODERN and server.catalog == "shared"
            return None if shared else PRINCIPAL + call.principal.id
