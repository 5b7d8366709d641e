"""The way to a server: opens transports until one is found over which a common language is spoken.

Knows how eras are told apart and in which order they are tried; what is said afterwards is the connection's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.config.servers import Server
from gateway.downstream.authorizer import authorize
from gateway.downstream.dialect import Dialect, Peer
from gateway.downstream.handshake import HandshakeRefused, NoEndpoint, handshake
from gateway.downstream.leg import Leg
from gateway.downstream.legacy import Legacy
from gateway.downstream.modern import Modern
from gateway.downstream.openapi.channel import ApiChannel
from gateway.downstream.openapi.dialect import OpenApi
from gateway.downstream.probe import Finding, probe
from gateway.downstream.setup import Setup
from gateway.downstream.wire import Wire
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.protocol.versions import Era
from gateway.telemetry.logs import get_logger

OLDER_TIMEOUT: Final = 10.0
"""Seconds for a server that takes no POST to show the transport of 2024-11-05; it does so at once, or it has none."""

_log = get_logger("downstream")


class Approach:
    """One way to one server. ``wire`` is the transport in hand, also after a failure."""

    def __init__(
        self, setup: Setup, on_closed: Callable[[Wire, str], None], on_changed: Callable[[frozenset[Kind]], None]
    ) -> None:
        self._setup = setup
        self._on_closed = on_closed
        self._on_changed = on_changed
        self.wire: Wire | None = None

    async def meet(self) -> Dialect:
        """Find the era as configured, remembered or probed, in this order.

        Raises:
            DownstreamError: there is none; the caller closes ``wire``.
        """
        if self._setup.server.kind == "openapi":
            return await self._read()
        configured = self._setup.server.protocol if self._setup.server.transport != "sse" else "legacy"
        if configured == "legacy" or (configured == "auto" and self._setup.era is Era.LEGACY):
            wire = await self._open()
            try:
                return await self._greet(wire)
            except HandshakeRefused:
                if configured == "legacy":
                    raise
                _log.info("era_doubted", server=self._setup.name)
        return await self._probe(must_be_modern=configured == "modern")

    async def _read(self) -> Dialect:
        """Read the document of an API: it speaks no era that could be found out."""
        wire = await self._open()
        assert isinstance(wire.transport, ApiChannel)
        wire.dialect = await OpenApi.meet(self._peer(wire), wire.transport)
        return wire.dialect

    async def _probe(self, *, must_be_modern: bool) -> Dialect:
        timeouts = self._setup.server.timeouts
        wire = await self._live()
        known = must_be_modern or self._setup.era is not None or wire.transport.kind == "http"
        finding = await probe(self._peer(wire), timeouts.start if known else timeouts.probe)
        if finding.era is Era.MODERN:
            return self._modern(wire, finding)
        if must_be_modern:
            raise DownstreamError(Reason.PROTOCOL_ERROR, f'server "{self._setup.name}" does not speak the modern era')
        # A server that gave up over the probe is started once more, and not probed again.
        wire = await self._live()
        try:
            return await self._greet(wire)
        except HandshakeRefused:
            if finding.certain:
                raise
        # It was silent but not legacy: a modern server that is slow to start is asked again, without haste.
        wire = await self._live()
        finding = await probe(self._peer(wire), timeouts.start)
        if finding.era is Era.MODERN:
            return self._modern(wire, finding)
        raise DownstreamError(Reason.PROTOCOL_ERROR, f'server "{self._setup.name}" speaks neither era of MCP')

    def _peer(self, wire: Wire) -> Peer:
        server = self._setup.server
        return Peer(
            self._setup.name,
            wire.transport,
            server.timeouts,
            tuple(server.asks),
            replace(self._setup.events, changed=self._on_changed),
            Leg(self._setup.tracer, self._setup.name, server),
        )

    def _modern(self, wire: Wire, finding: Finding) -> Dialect:
        assert finding.hello is not None
        wire.dialect = Modern(self._peer(wire), finding.hello)
        return wire.dialect

    async def _greet(self, wire: Wire) -> Dialect:
        asking, seconds = self._setup.asking, self._setup.server.timeouts.start
        try:
            session = await handshake(self._peer(wire), seconds, asking.capabilities)
        except NoEndpoint as refused:
            wire = await self._older(wire, refused)
            session = await handshake(self._peer(wire), seconds, asking.capabilities)
        wire.dialect = Legacy(self._peer(wire), session, asking)
        return wire.dialect

    async def _older(self, wire: Wire, refused: NoEndpoint) -> Wire:
        """Reach a server over the transport of 2024-11-05 (2025-11-25 basic/transports §Backwards Compatibility)."""
        server = self._setup.server
        if wire.transport.kind != "http" or server.transport != "auto":
            raise refused
        await wire.transport.aclose()
        wire.over = True
        try:
            async with asyncio.timeout(OLDER_TIMEOUT):
                return await self._open(server.model_copy(update={"transport": "sse"}))
        except (DownstreamError, TimeoutError):
            if self.wire is not None:
                self.wire.over = True
            raise refused from None

    async def _live(self) -> Wire:
        """Return the wire in hand, or a new one where it is over."""
        if self.wire is not None and not self.wire.over:
            return self.wire
        if self.wire is not None:
            await self.wire.transport.aclose()
        return await self._open()

    async def _open(self, server: Server | None = None) -> Wire:
        inspector, name = self._setup.inspector, self._setup.name
        seals = await inspector.before(name, self._setup.server)
        made = self._setup.make(name, server or self._setup.server)
        authorize(made, self._setup.authorizer)
        wire = Wire(made, self._setup.events, self._on_closed)
        # Known before it is open, so that a cancelled start leaves nothing behind either.
        self.wire = wire
        await wire.transport.open(wire)
        if seals is not None:
            # What was looked at may have been exchanged before it ran; nothing was sent to it yet.
            await inspector.after(name, self._setup.server, seals)
        return wire
