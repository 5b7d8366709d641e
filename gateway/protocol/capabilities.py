"""Capabilities: what a client may be asked for, what the gateway offers, and extensions in both directions.

2026-07-28 basic/versioning §Extension Negotiation, 2025-11-25 basic/lifecycle. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.methods import ELICIT, ROOTS, SAMPLE
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era

ASKS: Final = {"elicitation": ELICIT, "sampling": SAMPLE, "roots": ROOTS}
"""Client capability of each request that a server may send to a client."""

_WHOLE: Final[Object] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {},
}
EXTENSIONS: Final = "extensions"
UI: Final = "io.modelcontextprotocol/ui"
"""MCP Apps."""
TASKS: Final = "io.modelcontextprotocol/tasks"

MAX_EXTENSIONS: Final = 32
"""Extensions of one side that count; what it declares beyond is ignored."""
MAX_SETTINGS: Final = 4096
"""Bytes of one extension's settings; an extension with more is ignored."""

GATEWAY_UI: Final[Object] = {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}
"""What lists are asked with: servers of MCP Apps may leave their apps out for a client that does not declare it."""

_CAPABILITY_OF = {method: capability for capability, method in ASKS.items()}
_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IDENTIFIER = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_OF_ONE_HOP: Final = frozenset(
    {"io.modelcontextprotocol/oauth-client-credentials", "io.modelcontextprotocol/enterprise-managed-authorization"}
)
"""How a client gets its token for this gateway: nothing that a server behind it could have a part in."""
_CELLS: Final[dict[str, frozenset[tuple[Era, Era]]]] = {TASKS: frozenset({(Era.MODERN, Era.MODERN)})}
"""Between which eras, of client and server, an extension can be carried, where that is not all of them."""
_UNDERSTOOD: Final = frozenset({UI, TASKS}) | _OF_ONE_HOP
"""Extensions whose methods, if any, are known: every other one may have methods of its own."""


def intersect(declared: Object, asks: Iterable[str]) -> Object:
    """Return what may be declared to a server: what the client declared, within what ``asks`` permits.

    A capability that is no object counts as not declared.
    """
    return {name: declared[name] for name in asks if isinstance(declared.get(name), dict)}


def whole(asks: Iterable[str]) -> Object:
    """Return these capabilities with all their parts: what some client may have."""
    return {name: _WHOLE[name] for name in asks if name in _WHOLE}


def capability_of(method: str) -> str | None:
    """Return the client capability that a server's request needs, None for methods that are no ask."""
    return _CAPABILITY_OF.get(method)


def offered(extensions: Object) -> Object:
    """Return the capabilities the endpoint offers: the same for every client, but for extensions (contract)."""
    features: Object = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
        # Towards modern clients too, since logs of servers pass on (2026-07-28 server/utilities/logging §Capabilities).
        "logging": {},
    }
    return features | {EXTENSIONS: extensions} if extensions else features


def extensions_of(capabilities: Object) -> Object:
    """Return the well-formed extensions among capabilities: an identifier with a prefix, settings that are an object.

    At most 32, each of bounded size.
    """
    listed = capabilities.get(EXTENSIONS)
    if not isinstance(listed, dict):
        return {}
    found = [name for name, settings in listed.items() if _is_extension(name, settings)]
    return {name: listed[name] for name in found[:MAX_EXTENSIONS]}


def _is_extension(name: str, settings: Value) -> bool:
    if len(name) > MAX_SETTINGS or _IDENTIFIER.fullmatch(name) is None or not isinstance(settings, dict):
        return False
    return len(rawjson.encode(settings)) <= MAX_SETTINGS


def carried(capabilities: Object, client: Era, server: Era) -> Object:
    """Return the extensions of one side that can pass through the gateway, between a client and a server."""
    return {
        name: settings
        for name, settings in extensions_of(capabilities).items()
        if name not in _OF_ONE_HOP and (name not in _CELLS or (client, server) in _CELLS[name])
    }


def to_server(declared: Object, asks: Iterable[str], client: Era, server: Era) -> Object:
    """Return the whole capabilities to declare to a server for a client: asks and extensions."""
    extensions = carried(declared, client, server)
    within = intersect(declared, asks)
    return within | {EXTENSIONS: extensions} if extensions else within


def opaque(extensions: Iterable[str]) -> frozenset[str]:
    """Return the extensions that may have methods, notifications and result types this gateway does not know."""
    return frozenset(extensions) - _UNDERSTOOD


def agreed(client: Object, server: Object) -> frozenset[str]:
    """Return the extensions that both sides declare and that may bring what this gateway does not know."""
    return opaque(extensions_of(client).keys() & extensions_of(server).keys())


def merged(offers: Iterable[Object]) -> Object:
    """Return what several servers offer together: every extension of any of them.

    Settings are what all servers of an extension agree on, member by member: a member that differs, or that one of
    them does not have, is left out, since not every server would keep that promise.
    """
    together: Object = {}
    for offer in offers:
        for name, settings in offer.items():
            together[name] = _common(together[name], settings) if name in together else settings
    return together


def _common(one: Value, other: Value) -> Value:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    return {
        key: _common(one[key], other[key])
        for key in one
        if key in other
        and (_same(one[key], other[key]) or (isinstance(one[key], dict) and isinstance(other[key], dict)))
    }


def _same(one: Value, other: Value) -> bool:
    """Compare as JSON does: ``true`` is not 1."""
    return rawjson.canonical(one) == rawjson.canonical(other)
