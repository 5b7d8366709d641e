"""Connects parts that do not know each other: metrics to what they measure, servers' credentials to where they last."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.audit import events
from gateway.config.loader import load
from gateway.config.root import Listen, LoadedConfig
from gateway.config.servers import Server
from gateway.downstream.oauth.consents import Consents
from gateway.downstream.oauth.credentials import Desk
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.vault import SealedVault
from gateway.errors import ConfigError
from gateway.protocol.rawjson import Object, Value
from gateway.state.documents import Documents
from gateway.state.files import read_or_create_key
from gateway.telemetry.metrics import Metrics

_KEY_BYTES: Final = 32


class ServerMeters:
    """Counts what happens to servers. Times of calls are taken by the chain, which knows their outcome."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def state(self, server: str, state: str) -> None:
        """Show the state."""
        self._metrics.set_state(server, state)

    def restarted(self, server: str, reason: str) -> None:
        """Count a restart."""
        self._metrics.downstream_restarts_total.inc(server=server, reason=reason)

    def protocol_error(self, server: str, kind: str) -> None:
        """Count a message no server may send."""
        self._metrics.downstream_protocol_errors_total.inc(server=server, kind=kind)

    def stderr(self, server: str, size: int) -> None:
        """Count what a process wrote to its standard error."""
        self._metrics.downstream_stderr_bytes_total.inc(size, server=server)

    def in_flight(self, server: str, calls: int) -> None:
        """Show the calls in flight."""
        self._metrics.inflight_calls.set(calls, server=server)

    def blocked(self, server: str) -> None:
        """Count a dial that the rules forbid."""
        self._metrics.ssrf_blocked_total.inc(purpose="server")


def desk(loaded: LoadedConfig, documents: Documents, shelf: Shelf, write: Callable[[Object], None]) -> Desk:
    """Make what the credentials of all servers share; ``write`` takes audit records."""

    def told(server: str, owner: str, result: str) -> None:
        write(events.server_event("downstream.consent", server, {"principal": owner or None, "result": result}))

    async def reread(name: str) -> Server | None:
        try:
            fresh = await asyncio.to_thread(load, loaded.path, os.environ)
        except ConfigError:
            return None
        return fresh.config.servers.get(name)

    vault, consents = SealedVault(documents, shelf.sealer), Consents(told, shelf=shelf)
    return Desk(vault, consents, origin_of(loaded.config.listen), reread, shelf)


def sealing_keys(loaded: LoadedConfig, state: Path) -> list[bytes]:
    """Return what seals: the configured keys, else one that is kept in ``state.dir``.

    Raises:
        ConfigError: that one cannot be used.
    """
    configured = [key.get_secret_value().encode() for key in loaded.config.state.sealing_keys]
    return configured or [read_or_create_key(state / "sealing.key", _KEY_BYTES)]


def plain(item: object) -> Value:
    """Return a fact as a value that can be recorded."""
    return item if isinstance(item, (bool, int, float, str, type(None))) else str(item)


def origin_of(listen: Listen) -> str:
    """Return the origin at which browsers reach the gateway: that of ``public_url``, else of the bind."""
    if listen.public_url:
        parts = urlsplit(listen.public_url)
        return f"{parts.scheme}://{parts.netloc}"
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{'https' if listen.tls else 'http'}://{host}:{listen.port}"
