"""Events that were sent and may have to be sent again: kept for a short time, within one bound for all sessions.

Knows bytes and their age; not which stream or session they belong to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

KEPT_SECONDS: Final = 60.0
"""How long a client may take to come back for what it missed."""

KEPT_BYTES: Final = 32 * 2**20
"""Bytes kept for all sessions together; the oldest events go first."""

KEPT_EVENTS: Final = 50_000


@dataclass(slots=True, eq=False)
class Kept:
    """One event as it was written; ``data`` is empty once it is forgotten. ``at`` is in monotonic seconds."""

    number: int
    data: bytes
    at: float


class Shelf:
    """Kept events in the order in which they came. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = KEPT_BYTES) -> None:
        self._clock = clock
        self._most = most
        self._bytes = 0
        self._events: deque[Kept] = deque()

    def __len__(self) -> int:
        return len(self._events)

    @property
    def size(self) -> int:
        """Bytes that are kept now."""
        return self._bytes

    def put(self, number: int, data: bytes) -> Kept:
        """Keep an event; older ones make room for it, and one that never fits is forgotten at once."""
        kept = Kept(number, data, self._clock())
        self._events.append(kept)
        self._bytes += len(data)
        self.sweep()
        return kept

    def forget(self, kept: Kept) -> None:
        """Let go of an event before its time."""
        self._bytes -= len(kept.data)
        kept.data = b""

    def sweep(self) -> None:
        """Forget what is too old or too much."""
        oldest = self._clock() - KEPT_SECONDS
        while self._events:
            first = self._events[0]
            fits = self._bytes <= self._most and len(self._events) <= KEPT_EVENTS
            if first.data and first.at > oldest and fits:
                return
            self.forget(self._events.popleft())
