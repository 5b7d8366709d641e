"""Makes the transport that a server's config asks for, one after the other for the same server."""

from __future__ import annotations

from collections import Counter

from gateway.config.servers import Server
from gateway.downstream.guardian import Guardian
from gateway.downstream.http import HttpTransport
from gateway.downstream.meters import Meters
from gateway.downstream.openapi.channel import ApiChannel
from gateway.downstream.sse import SseTransport
from gateway.downstream.stdio import StdioTransport
from gateway.downstream.transport import Transport


class Transports:
    """The factory that the pool uses outside of tests."""

    def __init__(self, guardian: Guardian, meters: Meters) -> None:
        self._guardian = guardian
        self._meters = meters
        self._generations: Counter[str] = Counter()

    def __call__(self, name: str, server: Server) -> Transport:
        """Return a transport that is not open yet; its generation tells it from its predecessors."""
        self._generations[name] += 1
        generation = self._generations[name]
        match server.kind:
            case "stdio":
                return StdioTransport(name, server, self._guardian, self._meters, generation)
            case "http" if server.transport == "sse":
                return SseTransport(name, server, self._meters, generation)
            case "http":
                return HttpTransport(name, server, self._meters, generation)
            case "openapi":
                return ApiChannel(name, server, self._meters, generation)
