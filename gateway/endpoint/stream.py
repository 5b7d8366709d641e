"""One SSE response: what is sent waits in a bounded queue, silence is filled with heartbeats, a slow reader is dropped.

Knows events and one HTTP response; not what the events say.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol

from aiohttp import web

from gateway.endpoint.connection import BASE_HEADERS
from gateway.protocol import sse
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics

QUEUE_BYTES: Final = 256 * 1024
"""Unsent bytes one stream may hold before its client counts as too slow (S12)."""

HEARTBEAT: Final = 8.0
"""Seconds of silence after which a comment is sent; clients and proxies cut at 10 s (G019)."""

_PIECE: Final = 64 * 1024
_HEADERS: Final = {**BASE_HEADERS, **sse.HEADERS, "Cache-Control": "no-cache, no-store, no-transform"}

StillAllowed = Callable[[], bool]
"""Asked before each heartbeat: whether the stream may go on."""


def always() -> bool:
    """Allow a stream to go on, as its request was judged a moment ago."""
    return True


def nothing() -> None:
    """Say nothing at the end."""


class StreamCap:
    """How many streams one principal may hold open at once; a reload may change ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: Counter[str] = Counter()

    def acquire(self, principal_id: str) -> bool:
        """Take a place; False where there is none."""
        if self._open[principal_id] >= self.limit:
            return False
        self._open[principal_id] += 1
        return True

    def release(self, principal_id: str) -> None:
        """Give a place back."""
        self._open[principal_id] -= 1
        if self._open[principal_id] <= 0:
            del self._open[principal_id]


class CallStream(Protocol):
    """What a call needs of the response it is answered on."""

    @property
    def started(self) -> bool:
        """Whether the response has become a stream."""

    def begun_when_late(self) -> AbstractContextManager[None]:
        """Begin the response if the body takes long."""

    def send(self, data: bytes) -> None:
        """Send one message without waiting."""

    def offer(self, data: bytes) -> None:
        """Do the same with a message that may be lost, and is where there is no room for it."""

    async def finish(self, data: bytes | None) -> web.StreamResponse:
        """Send the last message, if any, and end the response."""

    def abandon(self) -> None:
        """Forget a client that has gone."""


class EventStream:
    """The response to one request, once it has become a stream.

    ``send`` starts the response with its first event and never blocks. ``kind`` is the metric's label.
    """

    def __init__(
        self, request: web.BaseRequest, headers: Mapping[str, str], kind: str, tasks: TaskSet, metrics: Metrics
    ) -> None:
        self._request = request
        self._headers = headers
        self._response: web.StreamResponse | None = None
        self._kind = kind
        self._tasks = tasks
        self._metrics = metrics
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()
        self._last: bytes | None = None
        self._finishing = False
        self._pump: asyncio.Task[None] | None = None
        self.still_allowed: StillAllowed = always
        self.farewell: Callable[[], None] = nothing
        """Called when the stream may not go on; what it sends is the stream's end."""
        self.prologue = b""
        """Events written before all others; to be set before the response begins."""

    @property
    def started(self) -> bool:
        """Whether the response has become a stream."""
        return self._pump is not None

    @property
    def open(self) -> bool:
        """Whether events still can be sent."""
        return not self._finishing and not self._ended.is_set()

    def start(self) -> None:
        """Send the headers now, before any event."""
        if self._pump is None and self.open:
            self._pump = self._tasks.start(self._run(), f"stream-{self._kind}")

    @contextmanager
    def begun_when_late(self, after: float | None = None) -> Iterator[None]:
        """Begin the response if the body takes long: what clients and proxies give up on is silence (G019).

        ``after`` is in seconds.
        """
        timer = asyncio.get_running_loop().call_later(HEARTBEAT if after is None else after, self.start)
        try:
            yield
        finally:
            timer.cancel()

    def send(self, data: bytes) -> None:
        """Queue one message; a client whose queue is full is dropped, and with it what was waiting."""
        self.put(sse.encode(data))

    def offer(self, data: bytes) -> None:
        """Queue one message if there is room for it: no server's notification costs its client the answer."""
        event = sse.encode(data)
        if self.has_room(len(event)):
            self.put(event)

    def has_room(self, size: int) -> bool:
        """Tell whether an event of this size would not make the client count as too slow."""
        return self._queued + size <= QUEUE_BYTES

    def put(self, event: bytes) -> None:
        """Queue one event as it is written, under the same bound."""
        if not self.open:
            return
        if self._queued + len(event) > QUEUE_BYTES:
            self._drop("slow_client")
            return
        self._queue.append(event)
        self._queued += len(event)
        self.start()
        self._wake.set()

    async def finish(self, data: bytes | None) -> web.StreamResponse:
        """Send the last event, if any, and end the response; returns once all of it is written or the client gone."""
        self.close(None if data is None else sse.encode(data))
        return await self.wait_ended()

    def close(self, last: bytes | None) -> None:
        """Send the last event, if any, as it is written, and end the response without waiting."""
        if self.open:
            self.start()
            self._last = last
            self._finishing = True
            self._wake.set()

    def end(self) -> None:
        """End the response after what is queued, without waiting."""
        self._finishing = True
        self._wake.set()
        if self._pump is None:
            self._ended.set()

    def expired(self) -> None:
        """Count that the stream ends because its credential does."""
        if self.open:
            self._metrics.streams_closed_total.inc(kind=self._kind, reason="expired")

    def abandon(self) -> None:
        """Forget a client that has gone."""
        self._queue.clear()
        self._queued = 0
        self._finishing = True
        if self._pump is None:
            self._ended.set()
        else:
            self._pump.cancel()

    async def wait_ended(self) -> web.StreamResponse:
        """Wait until the stream is over, for whatever reason."""
        await self._ended.wait()
        return self._response or web.StreamResponse()

    def _drop(self, reason: str) -> None:
        self._metrics.streams_closed_total.inc(kind=self._kind, reason=reason)
        self._queue.clear()
        transport = self._request.transport
        if transport is not None:
            transport.abort()
        self.abandon()

    async def _run(self) -> None:
        try:
            with self._metrics.streams.hold(kind=self._kind), suppress(ConnectionError):
                response = self._response = web.StreamResponse(headers={**_HEADERS, **self._headers})
                await response.prepare(self._request)
                await _write(response, self.prologue)
                await self._write_all(response)
                await response.write_eof()
        finally:
            self._finishing = True
            self._ended.set()

    def _judge(self) -> None:
        if not self.still_allowed():
            self.farewell()
            self._finishing = True

    async def _write_all(self, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        asked = loop.time()
        while True:
            # A stream that is never silent is asked about as often as one that is.
            if loop.time() - asked >= HEARTBEAT:
                asked = loop.time()
                self._judge()
            while self._queue:
                event = self._queue.popleft()
                await response.write(event)
                self._queued -= len(event)
            if self._finishing:
                break
            self._wake.clear()
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._wake.wait()
            except TimeoutError:
                self._judge()
                if not self._finishing:
                    await response.write(sse.HEARTBEAT)
        if self._last is not None:
            await _write(response, self._last)


async def _write(response: web.StreamResponse, data: bytes) -> None:
    for start in range(0, len(data), _PIECE):
        await response.write(data[start : start + _PIECE])
