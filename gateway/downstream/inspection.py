"""Whether a server is who it should be: where connections ask, and what they hand over to be judged.

Who decides is somebody else (``Inspector``); the one here lets everything pass.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.config.servers import Server
from gateway.downstream.dialect import Hello, Page
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome

MAX_AGE: Final = 300.0
"""Seconds after which what a connection offers is read again."""

Seals: TypeAlias = Mapping[str, object]
"""What files looked like when they were judged, by path."""


class Quarantined(DownstreamError):
    """The server is not who it should be: it is not started, not connected to, or left again."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.UNAVAILABLE, message)


class WrongKey(DownstreamError):
    """The server's TLS key is not among the configured ones; nothing was sent to it. ``found`` is its digest."""

    def __init__(self, message: str, found: str) -> None:
        super().__init__(Reason.UNAVAILABLE, message)
        self.found = found


@dataclass(frozen=True, slots=True)
class Meeting:
    """A connection that stands and that nobody may use yet. ``whose`` is "" for the one that everybody shares."""

    name: str
    server: Server
    whose: str
    hello: Hello
    key_digest: str
    page: Callable[[Kind, str | None], Awaitable[Page]]
    call: Callable[[Call, Exchange], Awaitable[Outcome]]


class Offer:
    """The digests of what one connection offers, by ``kind:name``; read again when they may have changed."""

    def __init__(
        self, read: Callable[[], Awaitable[Mapping[str, str]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._changes = 1
        self._known = 0
        self._until = 0.0
        self._digests: Mapping[str, str] = {}

    def changed(self) -> None:
        """Note that what is known is out of date."""
        self._changes += 1

    async def digests(self) -> Mapping[str, str]:
        """Return what is offered now; reading stops calls until it is over.

        Raises:
            DownstreamError: it cannot be read.
        """
        if self._is_fresh():
            return self._digests
        async with self._lock:
            while not self._is_fresh():
                changes = self._changes
                digests = await self._read()
                self._digests, self._known, self._until = digests, changes, self._clock() + MAX_AGE
        return self._digests

    def _is_fresh(self) -> bool:
        return self._known == self._changes and self._clock() < self._until


class Inspector:
    """Lets everything pass; who holds servers to what they were is a subclass."""

    async def before(self, name: str, server: Server) -> Seals | None:
        """Judge a server before it is started or dialed; returns what ``after`` has to look at again.

        Raises:
            Quarantined: it must not be.
        """
        return None

    async def after(self, name: str, server: Server, seals: Seals) -> None:
        """Judge again once it runs, before anything is sent to it.

        Raises:
            Quarantined: what runs may be something else.
        """

    async def met(self, meeting: Meeting) -> Offer | None:
        """Judge who answers; returns what the connection offers where calls on it have to be held against that.

        Raises:
            Quarantined: somebody else.
            DownstreamError: it could not be told.
        """
        return None

    def wrong_key(self, name: str, whose: str, found: str) -> None:
        """Take note of a TLS key that is not among the configured ones."""

    async def cleared(self, call: Call, offer: Offer | None = None) -> Failure | None:
        """Return why a call must not go to its server now, None where it may; waits a bounded time for fresh lists.

        Raises:
            DownstreamError: the lists may have changed and cannot be read in time.
        """
        return None
