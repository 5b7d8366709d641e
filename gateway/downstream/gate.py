"""How many calls one server has at a time, and how many may wait; beyond that the answer is no, at once (S86, G119)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.errors import DownstreamError, Reason


class Gate:
    """Places for calls on one server."""

    def __init__(self, server: str, places: int, queue: int) -> None:
        self._server = server
        self._queue = queue
        self._places = asyncio.Semaphore(places)
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Calls that wait for a place."""
        return self._waiting

    @asynccontextmanager
    async def place(self, timeout: float) -> AsyncIterator[None]:
        """Hold a place while the body runs; wait for one no longer than ``timeout`` seconds.

        Raises:
            DownstreamError: ``overloaded``: the queue is full, or the wait too long. Nothing was sent.
        """
        if self._places.locked():
            if self._waiting >= self._queue:
                raise self._full()
            await self._wait(timeout)
        else:
            await self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    async def _wait(self, timeout: float) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout):
                await self._places.acquire()
        except TimeoutError:
            raise self._full() from None
        finally:
            self._waiting -= 1

    def _full(self) -> DownstreamError:
        text = f'server "{self._server}" is at its limit; nothing was sent, try again later'
        return DownstreamError(Reason.OVERLOADED, text)
