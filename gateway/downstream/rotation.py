"""Configured headers whose values are kept in files: a server that refuses one may know a newer value (G099).

The config is read again once, and only the values of the same headers of an otherwise unchanged server are taken.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from gateway.config.servers import Server
from gateway.downstream.authorizer import NOTHING, Refusal
from gateway.telemetry.logs import get_logger

INTERVAL: Final = 10.0
"""Seconds between two readings for the same server."""
_log = get_logger("downstream")

Reread: TypeAlias = Callable[[str], Awaitable[Server | None]]
"""Reads a server's config again, by name; None where it cannot be read or is gone."""


async def nothing_new(name: str) -> Server | None:
    """Know nothing newer."""
    return None


class RotatingHeaders:
    """The authorizer of a server with configured headers alone. ``clock`` gives monotonic seconds."""

    def __init__(self, name: str, server: Server, reread: Reread, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._server = server
        self._reread = reread
        self._clock = clock
        self._values: Mapping[str, str] = NOTHING
        self._next = 0.0

    async def headers(self) -> Mapping[str, str]:
        """Return the newer values, where there are any."""
        return self._values

    async def refused(self, refusal: Refusal) -> bool:
        """Read the config again after a 401; tell whether there is something else to send."""
        if refusal.status != 401 or not self._server.headers:
            return False
        if self._values != refusal.sent:
            return True
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + INTERVAL
        fresh = await self._reread(self._name)
        if fresh is None or not self._is_same(fresh):
            return False
        values = {name: value.get_secret_value() for name, value in fresh.headers.items()}
        known = {name: value.get_secret_value() for name, value in self._server.headers.items()} | dict(self._values)
        if values == known:
            return False
        self._values = values
        _log.info("headers_read_again", server=self._name)
        return True

    def _is_same(self, fresh: Server) -> bool:
        bare: dict[str, object] = {"headers": {}}
        same = fresh.model_copy(update=bare) == self._server.model_copy(update=bare)
        return same and fresh.headers.keys() == self._server.headers.keys()
