"""Keeps listings fresh: on connect, on ``list_changed``, when their time is up; one server at a time never waits
for another. Publishes every refresh with the kinds that were said to have changed, also when the lists came back
equal; where only their time was up nothing was said, and who takes them sees for himself what differs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.catalog.collect import Source, collect
from gateway.errors import DownstreamError
from gateway.model.catalog import Kind, Listing
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

_log = get_logger("catalog")

MAX_AGE: Final = 300.0
"""Seconds after which any list is read again."""
MIN_AGE: Final = 15.0
RETRY: Final = 5.0
"""Seconds after which lists that could not be read, and are known to be out of date, are tried again."""
COALESCE: Final = 0.05
"""Seconds in which further news of changes is taken together."""
_ALL: Final = frozenset(Kind)

Publish: TypeAlias = Callable[[Listing, frozenset[Kind]], Awaitable[None]]


@dataclass(slots=True)
class _Watch:
    """One server's refreshing: what is waiting to be read, and what was read last."""

    wake: asyncio.Event
    kinds: frozenset[Kind]
    age: float
    last: Listing | None = None
    stale: bool = True
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while nothing is known to be out of date."""


class Refresher:
    """Reads lists in the background and hands complete ones to ``publish``.

    ``default_age`` are seconds, for servers that do not say how long their lists are good; a reload may change it.
    """

    def __init__(self, source: Source, publish: Publish, default_age: float, tasks: TaskSet) -> None:
        self._source = source
        self._publish = publish
        self.default_age = default_age
        self._tasks = tasks
        self._watches: dict[str, _Watch] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def apply(self, servers: Mapping[str, object]) -> None:
        """Stop refreshing servers that are gone; new ones start with their first ``changed``."""
        for name in [name for name in self._watches if name not in servers]:
            del self._watches[name]
            self._running.pop(name).cancel()

    def changed(self, server: str, kinds: frozenset[Kind] = _ALL) -> None:
        """Note that a server's lists may have changed, or can be read for the first time."""
        watch = self._watches.get(server)
        if watch is None:
            watch = self._watches[server] = _Watch(asyncio.Event(), kinds, self.default_age)
            self._running[server] = self._tasks.start(self._watch(server, watch), f"refresh:{server}")
        else:
            watch.kinds |= kinds
        watch.stale = True
        watch.settled.clear()
        watch.wake.set()

    async def settled(self, server: str, seconds: float) -> bool:
        """Wait until no list of a server is known to be out of date; False where that takes longer.

        A server that is not connected has nothing to be out of date: its lists are read again when it is back.
        """
        watch = self._watches.get(server)
        if watch is None or not watch.stale or self._source.hello(server) is None:
            return True
        try:
            async with asyncio.timeout(seconds):
                await watch.settled.wait()
        except TimeoutError:
            return False
        return True

    async def _watch(self, server: str, watch: _Watch) -> None:
        while True:
            try:
                # Jitter keeps many servers from being listed in one burst.
                async with asyncio.timeout(watch.age * random.uniform(0.9, 1.1)):
                    await watch.wake.wait()
                await asyncio.sleep(COALESCE)
            except TimeoutError:
                pass
            watch.wake.clear()
            kinds, watch.kinds = watch.kinds, frozenset()
            listing = await self._read(server, watch.last)
            if listing is not None:
                watch.age, watch.last = age(listing, self.default_age), listing
                await self._publish(listing, kinds)
                if not watch.wake.is_set():
                    watch.stale = False
                    watch.settled.set()
            elif watch.stale:
                # Calls may be waiting for it.
                watch.age, watch.kinds = RETRY, watch.kinds | kinds

    async def _read(self, server: str, last: Listing | None) -> Listing | None:
        """Read once; a server that cannot be read keeps its last complete lists."""
        if self._source.hello(server) is None:
            return None
        try:
            return await collect(self._source, server, last)
        except DownstreamError as error:
            _log.warning("catalog_refresh_failed", server=server, reason=error.reason.value, detail=error.message)
            return None


def age(listing: Listing, default: float) -> float:
    """Return the seconds for which lists are good; ``default`` where their server does not say."""
    seconds = default if listing.ttl_ms is None else listing.ttl_ms / 1000
    return min(MAX_AGE, max(MIN_AGE, default if seconds <= 0 else seconds))
