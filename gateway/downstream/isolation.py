"""Who shares a connection with whom (contract: Instances and isolation; S101). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.config.servers import Server
from gateway.model.call import Call
from gateway.model.principal import Principal
from gateway.protocol import capabilities, rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era

LANES: Final = 4
"""Connections of one key: so many of its calls may wait for people before the next one waits with them."""

SESSION: str = "session:"
PRINCIPAL: str = "principal:"
_PARTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"elicitation": ("form", "url"), "sampling": ("context", "tools"), "roots": ()}
)
"""What is declared of each capability: few combinations, so that no client can make connections at will."""
_DECLARED: Final = "\n"
"""Between whose a connection is and what was declared on it; in no session id and no principal."""


def needs_era(server: Server, call: Call) -> bool:
    """Tell whether the answer depends on what the server speaks."""
    by_era = server.isolation == "auto" and not is_personal(server)
    return by_era or _may_ask(server) or bool(extensions(server, None, call))


def is_personal(server: Server) -> bool:
    """Tell whether what a principal gets of a server depends on who it is: its lists, or its credentials."""
    return server.catalog == "principal" or server.auth.is_per_principal


def fails_apart(server: Server) -> bool:
    """Tell whether a start that fails for one principal says nothing about others; a command fails for everybody."""
    return server.kind != "stdio" and is_personal(server)


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


def listed_with(server: Server) -> Object:
    """Return the client capabilities to declare on the connection that reads a legacy server's lists.

    All that some client may be asked for, since servers leave tools out for a client that cannot be asked; nothing
    where the same connection carries calls of clients that may not be able to answer.
    """
    return capabilities.whole(sorted(server.asks)) if _may_ask(server) and server.isolation != "shared" else {}


def extensions(server: Server, era: Era | None, call: Call) -> Object:
    """Return the client's extensions to declare in the handshake with a legacy server.

    None where one connection is everybody's: what it declares is the gateway's own choice.
    """
    if era is Era.MODERN or server.isolation == "shared":
        return {}
    return capabilities.carried(call.caller.capabilities, call.caller.era, Era.LEGACY)


def _parts(name: str, value: Value) -> Object:
    return {part: {} for part in _PARTS[name] if isinstance(value, dict) and isinstance(value.get(part), dict)}


def key_of(server: Server, era: Era | None, call: Call) -> str | None:
    """Return the name of the connection that serves a call; None is the one that serves everybody.

    ``auto`` shares modern servers, which are stateless by definition, unless their catalog or their credentials are
    per principal. Where something is declared, the connection is never everybody's: a question must not reach another
    principal (S96).
    """
    whose, asks, said = _whose(server, era, call), declared(server, era, call), extensions(server, era, call)
    if not asks and not said:
        return whose
    said = {**asks, capabilities.EXTENSIONS: said} if said else asks
    digest = hashlib.sha256(rawjson.canonical(said)).hexdigest()[:32]
    return f"{whose or PRINCIPAL + call.principal.id}{_DECLARED}{digest}"


def lane(key: str, number: int) -> str:
    """Return the name of a key's connection of this number; the first has the key's own."""
    return key if number == 1 else f"{key}{_DECLARED}{number}"


def lanes(server: Server) -> int:
    """Return how many connections one key may have at once, while calls on them wait for people."""
    return 1 if server.isolation == "shared" else LANES


def may_use(key: str | None, call: Call) -> bool:
    """Tell whether a connection is one that a caller shares, whatever was declared on it."""
    whose = None if key is None else key.partition(_DECLARED)[0]
    return whose in (None, PRINCIPAL + call.principal.id) or (
        bool(call.caller.session) and whose == SESSION + call.caller.session
    )


def own_key(principal: Principal) -> str:
    """Return the name of a principal's connection on which nothing is declared."""
    return PRINCIPAL + principal.id


def is_own(key: str | None, principal: Principal) -> bool:
    """Tell whether a connection belongs to a principal, whatever was declared on it."""
    return key is not None and key.partition(_DECLARED)[0] == own_key(principal)


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
            shared = era is Era.MODERN and not is_personal(server)
            return None if shared else PRINCIPAL + call.principal.id
