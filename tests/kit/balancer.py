"""A plain balancer: each request to the next gateway that is ready, over connections that stay open.

In a thread of its own, so that tests may block. What it does is what people have: it asks each gateway whether it is
ready, turns away from one that is not, and sends a request that was not taken (a connection refused, 503) to another.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web

LOOK: Final = 0.1
"""Seconds between two looks at whether a gateway is ready."""
_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade"})


@dataclass(frozen=True, slots=True)
class Place:
    """One gateway behind it: where it serves, and where it says whether it is ready."""

    url: str
    ready: str


@dataclass(slots=True, eq=False)
class Balancer:
    """What it did so far; ``port`` is where it listens."""

    places: Sequence[Place]
    port: int = 0
    up: set[int] = field(default_factory=set)
    served: Counter[int] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    """Requests that no gateway answered, by what was seen."""
    moved: int = 0
    """Requests that went to another gateway since the first did not take them."""
    _turn: Iterator[int] = field(default_factory=itertools.count)
    _http: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def _order(self) -> list[int]:
        start = next(self._turn)
        numbers = [(start + step) % len(self.places) for step in range(len(self.places))]
        return [number for number in numbers if number in self.up] or numbers

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one request through the gateway whose turn it is."""
        body = await request.read()
        order = self._order()
        for last, number in ((number == order[-1], number) for number in order):
            try:
                answer = await self._passed(request, body, number, is_last=last)
            except aiohttp.ClientConnectorError:
                self.up.discard(number)
                self.moved += 1
                continue
            except aiohttp.ClientError as error:
                self.failed[type(error).__name__] += 1
                return web.Response(status=502, text="the gateway ended")
            if answer is not None:
                self.served[number] += 1
                return answer
            self.moved += 1
        self.failed["nobody"] += 1
        return web.Response(status=502, text="no gateway")

    async def _passed(
        self, request: web.BaseRequest, body: bytes, number: int, *, is_last: bool
    ) -> web.StreamResponse | None:
        assert self._http is not None
        head = {key: value for key, value in request.headers.items() if key.lower() not in _HOP | {"host"}}
        url = self.places[number].url + request.path.removeprefix("/mcp")
        asked = self._http.request(request.method, url, data=body or None, headers=head, allow_redirects=False)
        async with asked as reply:
            if reply.status == 503 and not is_last:
                return None
            kept = {key: value for key, value in reply.headers.items() if key.lower() not in _HOP}
            response = web.StreamResponse(status=reply.status, headers=kept)
            if reply.content_length is not None:
                response.content_length = reply.content_length
            elif reply.status not in (204, 304):
                response.enable_chunked_encoding()
            with suppress(ConnectionError):
                await response.prepare(request)
                async for chunk in reply.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response

    async def look(self) -> None:
        """Ask for ever who is ready."""
        assert self._http is not None
        while True:
            for number, place in enumerate(self.places):
                try:
                    async with self._http.get(place.ready, timeout=aiohttp.ClientTimeout(total=1)) as reply:
                        (self.up.add if reply.status == 200 else self.up.discard)(number)
                except (aiohttp.ClientError, TimeoutError):
                    self.up.discard(number)
            await asyncio.sleep(LOOK)

    async def run(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Serve until told to stop."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._http:
            # A client that leaves is felt behind the balancer too.
            runner = web.ServerRunner(web.Server(self.handle, handler_cancellation=True), shutdown_timeout=1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            looking = asyncio.get_running_loop().create_task(self.look())
            started.set()
            await stop.wait()
            looking.cancel()
            await runner.cleanup()


@contextmanager
def balancing(places: Sequence[Place]) -> Iterator[Balancer]:
    """Balance for a block."""
    balancer, started = Balancer(places), threading.Event()
    held: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        stop = asyncio.Event()
        held.append((asyncio.get_running_loop(), stop))
        await balancer.run(started, stop)

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="balancer", daemon=True)
    thread.start()
    try:
        assert started.wait(10), "the balancer does not listen"
        yield balancer
    finally:
        loop, stop = held[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
