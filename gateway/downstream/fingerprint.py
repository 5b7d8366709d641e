"""Digests of server configs: what tells an unchanged server from a changed one, without telling its secrets. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from gateway.config.servers import Server
from gateway.protocol import rawjson

SHORT: Final = 12
"""Hex digits of the form that clients see."""

_NOT_OURS: Final = {
    "namespace",
    "tools",
    "required",
    "park",
    "instructions",
    "validate_",
    "text",
    "results",
    "pin",
}
"""What this package never reads: a change there must not end a process (G128)."""

_IDENTITY: Final = {"command", "args", "env", "cwd", "sandbox", "url", "openapi", "headers", "tls"}

_OFFERING: Final = {"command", "args", "cwd", "sandbox", "url", "openapi", "transport", "protocol"}
"""What decides what a server lists. Of ``headers`` and ``env`` the names do: their values are credentials mostly, and
a renewed one leads to the same server."""

_TAG: Final = b"mcp-gateway-server-v1\n"
_IDENTITY_TAG: Final = b"mcp-gateway-identity-v1\n"
_OFFERING_TAG: Final = b"mcp-gateway-offering-v1\n"


@runtime_checkable
class Secret(Protocol):
    """A config value that does not show itself."""

    def get_secret_value(self) -> str:
        """Return the text."""


def fingerprint(name: str, server: Server, key: bytes) -> str:
    """Return the hex digest of everything a connection depends on, secrets included.

    ``key`` makes it useless for guessing secrets; the same key gives the same digest.
    """
    plain = {"name": name, "server": _plain(server.model_dump(exclude=_NOT_OURS)), **_document(server)}
    return hmac.new(key, _TAG + rawjson.canonical(plain), hashlib.sha256).hexdigest()


def identity(server: Server, key: bytes) -> str:
    """Return the hex digest of what an operator wrote about who a server is: command or address, and credentials."""
    plain = _plain(server.model_dump(include=_IDENTITY))
    return hmac.new(key, _IDENTITY_TAG + rawjson.canonical(plain), hashlib.sha256).hexdigest()


def offering(name: str, server: Server, key: bytes) -> str:
    """Return the hex digest of what the lists of a server depend on, as far as its config says.

    Until a server has been asked again, what it listed before is good under settings with the same digest.
    """
    names = {"headers": sorted(map(str.casefold, server.headers)), "env": sorted(server.env)}
    plain = {"name": name, "server": _plain(server.model_dump(include=_OFFERING)), **names, **_document(server)}
    return hmac.new(key, _OFFERING_TAG + rawjson.canonical(plain), hashlib.sha256).hexdigest()


def _document(server: Server) -> dict[str, object]:
    return {"document": server.document.digest} if server.document is not None else {}


def _plain(value: object) -> object:
    if isinstance(value, Secret):
        return {"secret": value.get_secret_value()}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
