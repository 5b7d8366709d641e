"""An HTTP server on loopback that takes what is posted to it, and answers what it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web


class Hook:
    """Keeps every body that it answered with success; ``answers`` are the next statuses, 200 after them."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[int] = []
        self.asked = 0
        self.refuses: bytes | None = None

    @classmethod
    @asynccontextmanager
    async def listening(cls) -> AsyncIterator[Hook]:
        """Serve on a free port."""
        hook = cls()
        app = web.Application()
        app.router.add_post("/{path:.*}", hook._take)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield hook
        await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.asked += 1
        self.headers.append(dict(request.headers))
        status = self.answers.pop(0) if self.answers else 200
        if self.refuses is not None and self.refuses in body:
            status = 422
        if status == 200:
            self.bodies.append(body)
            self.paths.append(request.path)
        return web.Response(status=status, headers={"Retry-After": "0"})

    def records(self) -> list[dict[str, object]]:
        """Return the records of all bodies of JSON Lines."""
        return [json.loads(line) for body in self.bodies for line in body.splitlines()]

    def events(self) -> list[object]:
        """Return their events."""
        return [record["event"] for record in self.records()]


async def until(ask: Callable[[], object]) -> None:
    """Wait, at most 5 seconds, until the answer is true."""
    async with asyncio.timeout(5):
        while not ask():
            await asyncio.sleep(0.01)
