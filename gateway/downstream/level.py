"""How much a legacy server logs: one level for a whole connection, which therefore only grows.

Knows levels; how a server is asked is the dialect's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError
from gateway.protocol import meta
from gateway.telemetry.logs import get_logger

_log = get_logger("downstream")


class Level:
    """``ask`` sends a level to the server."""

    def __init__(self, server: str, ask: Callable[[str], Awaitable[Reply]]) -> None:
        self._server = server
        self._ask = ask
        self._reached: str | None = None
        self._one = asyncio.Lock()

    def forget(self) -> None:
        """Begin again: the server is another one, or does not remember."""
        self._reached = None

    async def reach(self, level: str) -> None:
        """Make the server log at least this much; a call is worth more than its log messages."""
        async with self._one:
            if self._reached is not None and meta.LOG_LEVELS.index(self._reached) <= meta.LOG_LEVELS.index(level):
                return
            try:
                reply = await self._ask(level)
            except DownstreamError as error:
                _log.info("log_level_failed", server=self._server, reason=error.message)
                return
            if reply.result is not None:
                self._reached = level
