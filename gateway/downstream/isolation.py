"""Who shares a connection with whom (contract: Instances and isolation; S101). Pure."""

from __future__ import annotations

from gateway.config.servers import Server
from gateway.model.call import Call
from gateway.protocol.versions import Era

SESSION: str = "session:"
PRINCIPAL: str = "principal:"


def needs_era(server: Server) -> bool:
    """Tell whether the answer depends on what the server speaks."""
    return server.isolation == "auto" and server.catalog == "shared"


def key_of(server: Server, era: Era | None, call: Call) -> str | None:
    """Return the name of the connection that serves a call; None is the one that serves everybody.

    ``auto`` shares modern servers, which are stateless by definition, unless their catalog is per principal.
    """
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
