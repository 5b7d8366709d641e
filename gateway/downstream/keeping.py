"""Keeps one server's catalog connection up: opens it again when it ends, later each time, or at once when asked to."""

from __future__ import annotations

import asyncio
import contextlib

from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.slot import Slot
from gateway.errors import DownstreamError


class Keeping:
    """The loop around one slot."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._kick = asyncio.Event()

    async def run(self) -> None:
        """Open the connection whenever there is none, until cancelled."""
        while True:
            try:
                connection = await self._slot.get()
            except DownstreamError as error:
                await self._pause(error.patience if isinstance(error, NoToken) else 0.0)
                continue
            await connection.over.wait()
            await self._pause()

    def retry(self) -> None:
        """Connect now, where the server is waited for."""
        if self._slot.connection is None:
            self._slot.retry()
            self._kick.set()

    async def _pause(self, least: float = 0.0) -> None:
        """Wait until the next try, or until somebody wants it now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self._slot.wait(), least)):
                await self._kick.wait()
        self._kick.clear()
