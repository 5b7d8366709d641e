"""Makes the transport that a server's config asks for, one after the other for the same server."""

from __future__ import annotations

from collections import Counter

from gateway.config.servers import Server
from gateway.downstream.guardian import Guardian
from gateway.downstream.http import HttpTransport
from gateway.downstream.meters import Meters
from gateway.downstream.sse import SseTransport
from gateway.downstream.stdio import StdioTransport
from gateway.downstream.transport import Transport
from gateway.errors import DownstreamError, Reason


class Counts:
    """One server's counts of bytes; what breaks the protocol is counted where the dialect's own is."""

    def __init__(self, server: str, meters: Meters) -> None:
        self._server = server
        self._meters = meters

    def stderr(self, size: int) -> None:
        """Pass the bytes of standard error on."""
        self._meters.stderr(self._server, size)

    def protocol_error(self, kind: str) -> None:
        """Leave it to the inbox, which hears of it too."""


class Transports:
    """The factory that the pool uses outside of tests."""

    def __init__(self, guardian: Guardian, meters: Meters) -> None:
        self._guardian = guardian
        self._meters = meters
        self._generations: Counter[str] = Counter()

    def __call__(self, name: str, server: Server) -> Transport:
        """Return a transport that is not open yet; its generation tells it from its predecessors.

        Raises:
            DownstreamError: the server is of a kind that has no transport.
        """
        self._generations[name] += 1
        generation, counts = self._generations[name], Counts(name, self._meters)
        match server.kind:
            case "stdio":
                return StdioTransport(name, server, self._guardian, counts, generation)
            case "http" if server.transport == "sse":
                return SseTransport(name, server, counts, generation)
            case "http":
                return HttpTransport(name, server, counts, generation)
            case "openapi":
                raise DownstreamError(Reason.UNAVAILABLE, f'server "{name}" is an OpenAPI document: not served')
