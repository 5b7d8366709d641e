"""Row 1 on the socket: what aiohttp's server does not bound by itself, and error pages that echo nothing.

A connection that sends no complete header block in time, or whose peer stops taking bytes, is ended here for every
kind of answer at once. Knows HTTP, nothing of MCP.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.endpoint.rejection import Rejection
from gateway.protocol.codes import INTERNAL_ERROR, INVALID_REQUEST
from gateway.telemetry.logs import frames_of, get_logger

KEEPALIVE: Final = 75.0
LINGERING: Final = 5.0

BASE_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "mcp-gateway"}
"""On every response; the last one keeps aiohttp from naming itself and its version (S19)."""

_log = get_logger("endpoint")

_BAD_REQUEST = Rejection(400, INVALID_REQUEST, "Bad request", "grammar", close=True)
_BROKEN = Rejection(500, INTERNAL_ERROR, "Internal error", "internal", close=True)
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of connections; times in seconds, ``total`` and ``per_source`` in connections.

    ``per_source`` is None where the peers are proxies, since their address says nothing of who is behind.
    """

    total: int = 4096
    per_source: int | None = 256
    header: float = 10.0
    write_stall: float = 30.0


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

Report = Callable[[str], None]
"""Takes the reason of each refusal or cut, a short constant."""


class Connection(RequestHandler):
    """One client connection."""

    def __init__(self, server: Server, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=KEEPALIVE,
            lingering_time=LINGERING,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for "no access log".
            auto_decompress=False,
        )
        self._server = server
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._source: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit a connection, or answer 503 at once when a cap is reached (S13)."""
        super().connection_made(transport)
        source = source_address(transport)
        if self._server.admit(source):
            self._source = source
        elif self.transport is not None:
            self.transport.write(_BUSY)
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timers and give the place back."""
        for timer in (self._header_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        if self._source is not None:
            self._server.release(self._source)
            self._source = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; a header block must be complete in time, counted from its first byte (S10)."""
        before = self._request_count
        super().data_received(data)
        complete = self._request_count > before
        if complete and self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
        elif not complete and data and self._header_timer is None and self._waiter is not None:
            self._header_timer = self._loop.call_later(self._server.bounds.header, self._cut, "slow_header")

    def pause_writing(self) -> None:
        """Watch a peer that stops reading."""
        super().pause_writing()
        self._unsent = self._buffered()
        self._stall_timer = self._loop.call_later(self._server.bounds.write_stall, self._check_stall)

    def resume_writing(self) -> None:
        """Stop watching: the peer reads again."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _buffered(self) -> int:
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def _check_stall(self) -> None:
        """Cut the connection if nothing was taken since the last look; else look again later (S12)."""
        unsent = self._buffered()
        if unsent >= self._unsent:
            self._cut("slow_client")
            return
        self._unsent = unsent
        self._stall_timer = self._loop.call_later(self._server.bounds.write_stall, self._check_stall)

    def _cut(self, reason: str) -> None:
        if self.transport is not None:
            self._server.report(reason)
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what the parser refused, or what our own code broke on, without a byte of the request (M2, S17)."""
        rejection = _BAD_REQUEST if status == 400 else _BROKEN
        if rejection is _BROKEN and exc is not None:
            _log.error("request_crashed", error=type(exc).__name__, frames=frames_of(exc))
        self._server.report(rejection.reason)
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun")
        response = web.Response(
            status=rejection.status, body=rejection.body(), headers=BASE_HEADERS, content_type="application/json"
        )
        response.force_close()
        return response


class Server(web.Server):
    """Makes connections and counts them; a client's disconnect cancels its handler (S95, M18)."""

    def __init__(self, handler: Handler, bounds: Bounds, report: Report) -> None:
        super().__init__(handler, handler_cancellation=True)
        self.bounds = bounds
        self.report = report
        self._count = 0
        self._sources: Counter[str] = Counter()

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop)

    def admit(self, source: str) -> bool:
        """Take a place for a connection; False where the total or its source is at its cap."""
        limit = self.bounds.per_source
        if self._count >= min(self.bounds.total, affordable()) or (
            limit is not None and self._sources[source] >= limit
        ):
            self.report("connections")
            return False
        self._count += 1
        self._sources[source] += 1
        return True

    def release(self, source: str) -> None:
        """Give a place back."""
        self._count -= 1
        self._sources[source] -= 1
        if self._sources[source] <= 0:
            del self._sources[source]


def affordable() -> int:
    """Return how many connections the process has descriptors for: a quarter stays for servers, the log and files."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(1, soft * 3 // 4)


def source_address(transport: asyncio.BaseTransport) -> str:
    """Return the peer's address, "" for one without."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""
