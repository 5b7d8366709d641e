"""The store of one process. Bounded everywhere: what is full drops what would have ended soonest."""

from __future__ import annotations

import heapq
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from gateway.state.gcra import Allowance
from gateway.state.store import Charge, ChargeResult, checked
from gateway.state.topics import MAX_SUBSCRIBERS, MAX_WAITING, Topics

MAX_BUCKETS: Final = 100_000
MAX_ENTRIES: Final = 100_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all values together."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a memory store may hold."""

    buckets: int = MAX_BUCKETS
    entries: int = MAX_ENTRIES
    size: int = MAX_BYTES
    waiting: int = MAX_WAITING
    subscribers: int = MAX_SUBSCRIBERS


@dataclass(slots=True)
class _Bucket:
    allowance: Allowance
    arrival: int


class MemoryStore:
    """Implements ``Store``; ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, bounds: Bounds | None = None) -> None:
        self._clock = clock
        self._bounds = bounds or Bounds()
        self._buckets: dict[str, _Bucket] = {}
        self._latest = 0.0
        self._entries: dict[str, tuple[float, bytes]] = {}
        self._endings: list[tuple[float, str]] = []
        self._size = 0
        self.topics = Topics(self._bounds.waiting, self._bounds.subscribers)

    async def charge(self, items: Sequence[Charge], now: float) -> ChargeResult:
        """Count a call against every bucket or against none."""
        # A clock that steps back must not open a window twice.
        now = self._latest = max(self._latest, now)
        arrivals: dict[str, int] = {}
        refused = ChargeResult()
        for index, item in enumerate(items):
            bucket = self._buckets.get(item.key)
            before = arrivals.get(item.key, bucket.arrival if bucket else 0)
            arrivals[item.key], wait_ms = item.allowance.charge(before, now)
            if wait_ms > refused.retry_after_ms:
                refused = ChargeResult(index, wait_ms)
        if refused.refused is None:
            for item in items:
                self._buckets[item.key] = _Bucket(item.allowance, arrivals[item.key])
            if len(self._buckets) > self._bounds.buckets:
                self._shrink_buckets(now)
        return refused

    def _shrink_buckets(self, now: float) -> None:
        """Drop the buckets that are as good as new; if those are too few, the ones nearest to it."""
        kept = {key: item for key, item in self._buckets.items() if not item.allowance.is_full(item.arrival, now)}
        # A tenth of room keeps this from running at every charge.
        excess = len(kept) - self._bounds.buckets * 9 // 10
        if excess > 0:
            for key in heapq.nsmallest(excess, kept, key=lambda key: kept[key].arrival / kept[key].allowance.count):
                del kept[key]
        self._buckets = kept

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value for ``ttl`` seconds."""
        checked(key, value)
        self._drop_ended()
        self._drop(key)
        while self._endings and (
            len(self._entries) >= self._bounds.entries or self._size + len(value) > self._bounds.size
        ):
            self._drop_first()
        ends = self._clock() + ttl
        self._entries[key] = (ends, value)
        self._size += len(value)
        heapq.heappush(self._endings, (ends, key))
        if len(self._endings) > 2 * len(self._entries) + 16:
            # Replaced and deleted entries leave their endings behind.
            self._endings = [(ends, key) for key, (ends, _) in self._entries.items()]
            heapq.heapify(self._endings)

    async def claim(self, key: str, value: bytes, ttl: float) -> bytes | None:
        """Keep a value unless one is alive, and return that one."""
        # Neither of the two waits for anything, so nobody comes between them.
        held = await self.get(key)
        if held is None:
            await self.put(key, value, ttl)
        return held

    async def get(self, key: str) -> bytes | None:
        """Return a value that is still alive."""
        self._drop_ended()
        entry = self._entries.get(key)
        return entry[1] if entry else None

    async def delete(self, key: str) -> None:
        """Forget a value."""
        self._drop(key)

    async def take(self, key: str) -> bytes | None:
        """Return a value once."""
        value = await self.get(key)
        self._drop(key)
        return value

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= len(entry[1])

    def _drop_ended(self) -> None:
        now = self._clock()
        while self._endings and self._endings[0][0] <= now:
            self._drop_first()

    def _drop_first(self) -> None:
        ends, key = heapq.heappop(self._endings)
        entry = self._entries.get(key)
        if entry is not None and entry[0] == ends:
            self._drop(key)

    @property
    def reaches_others(self) -> bool:
        """Nobody but this process knows this store."""
        return False

    def returned(self, listener: Callable[[], None]) -> None:
        """Never happens: this store is always there."""

    async def publish(self, topic: str, message: bytes) -> int:
        """Hand a message to everybody subscribed now."""
        return self.topics.deliver(topic, message)

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Receive a topic's messages while the block runs.

        Raises:
            StoreRefused: too many subscribers.
        """
        return self.topics.listen(topic)
