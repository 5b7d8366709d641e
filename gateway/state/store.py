"""What outlives a request but not an operator's patience: counters, short facts, single-use marks, topics.

A few verbs over bytes, always with an end: everything put has a time to live. ``memory`` implements them for one
process; another process can only share them through a store that more than one can reach. Keys never hold secrets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.errors import GatewayError
from gateway.state.gcra import Allowance

MAX_KEY: Final = 512
"""Characters of a key or topic."""
MAX_VALUE: Final = 256 * 1024
"""Bytes of a value or message."""


class StoreRefused(GatewayError):
    """A key or value over its bound, or a store with no room; ours to fix, never shown to a client."""


def checked(key: str, value: bytes) -> None:
    """Refuse a key or value that no store takes.

    Raises:
        StoreRefused: it is too long, or the key is empty.
    """
    if not 0 < len(key) <= MAX_KEY:
        raise StoreRefused("a key has 1 to 512 characters")
    if len(value) > MAX_VALUE:
        raise StoreRefused("a value has at most 256 KiB")


@dataclass(frozen=True, slots=True)
class Charge:
    """One call counted against one bucket."""

    key: str
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class ChargeResult:
    """What came of charging several buckets together.

    With ``refused`` (an index into the charges) nothing was counted, and all would pass after ``retry_after_ms``
    if nobody else called meanwhile; the index is that of the bucket that takes longest.
    """

    refused: int | None = None
    retry_after_ms: int = 0


class Store(Protocol):
    """Where state lives. ``ttl`` is in seconds; names of different uses are told apart by a prefix of the key."""

    async def charge(self, items: Sequence[Charge], now: float) -> ChargeResult:
        """Count a call against every bucket or against none, atomically; ``now`` is monotonic seconds."""
        ...

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value, in place of an earlier one.

        Raises:
            StoreRefused: key or value is too long.
        """
        ...

    async def claim(self, key: str, value: bytes, ttl: float) -> bytes | None:
        """Keep a value unless one is alive, and return that one; atomically, so that of two callers one is the first.

        Raises:
            StoreRefused: key or value is too long.
        """
        ...

    async def get(self, key: str) -> bytes | None:
        """Return a value that is still alive."""
        ...

    async def delete(self, key: str) -> None:
        """Forget a value, if there is one."""
        ...

    async def take(self, key: str) -> bytes | None:
        """Return a value and forget it, so that only one caller ever gets it."""
        ...

    @property
    def reaches_others(self) -> bool:
        """Whether what is published now can reach other processes: never in memory, nor while a shared one is away."""
        ...

    def returned(self, listener: Callable[[], None]) -> None:
        """Hear whenever a shared store is there, first or again: it may have forgotten everything. Memory never is."""
        ...

    async def publish(self, topic: str, message: bytes) -> int:
        """Hand a message to everybody subscribed now and return how many they are; never waits for them."""
        ...

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Receive a topic's messages while the block runs. A subscriber that falls behind loses the oldest ones."""
        ...
