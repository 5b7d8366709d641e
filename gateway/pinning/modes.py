"""How strictly a server is held: as its config says, else by what else is configured. Pure."""

from __future__ import annotations

from gateway.config.root import Config
from gateway.config.servers import Server
from gateway.pinning.verify import Mode, Terms


def terms_of(server: Server, config: Config) -> Terms:
    """Return the terms of one server."""
    mode = server.pin.mode or default_mode(config)
    new, rotating = server.pin.new_tools == "allow", frozenset(server.pin.rotating)
    return Terms(mode, new, rotating, several=server.catalog == "principal")


def default_mode(config: Config) -> Mode:
    """Return ``warn`` while nothing but servers is configured, ``tofu`` once callers or rules are."""
    tls = config.listen.tls
    guarded = config.clients or config.policies or config.views or config.auth.jwt or (tls and tls.client_ca)
    return "tofu" if guarded else "warn"
