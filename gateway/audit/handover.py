"""The bounded queue between the event loop and the thread that writes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from gateway.audit.sidecars import Sidecar
from gateway.protocol.rawjson import Object

MAX_BATCH: Final = 1024
MAX_LOST_ENDS: Final = 65_536
MAX_BESIDE: Final = 64 * 2**20
"""Bytes of payloads that may wait to be written beside the chain."""
_ACCOUNTS: Final = frozenset({"audit.gap", "call.orphaned"})
"""Records that account for losses are made anew, so losing them is no loss."""


@dataclass(slots=True)
class Entry:
    """A record on its way. ``future`` is answered with its number, at the latest when it is durable if it has to be."""

    record: Object
    durable: bool
    future: asyncio.Future[int] | None = None
    seq: int = 0

    @property
    def event(self) -> str:
        return str(self.record.get("event"))


@dataclass(slots=True)
class Losses:
    """What could not be written: how many of each event, and whose ends."""

    events: Counter[str] = field(default_factory=Counter)
    ends: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.events)

    def add(self, record: Object) -> None:
        event, call_id = str(record.get("event")), record.get("call_id")
        if event in _ACCOUNTS:
            return
        self.events[event] += 1
        if event == "call.end" and isinstance(call_id, str) and len(self.ends) < MAX_LOST_ENDS:
            self.ends.add(call_id)

    def merge(self, other: Losses) -> None:
        self.events.update(other.events)
        self.ends |= other.ends


class Handover:
    """Entries in, batches out. ``put`` never waits; what does not fit is refused and counted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: deque[Entry] = deque()
        self._beside: list[Sidecar] = []
        self._beside_bytes = 0
        self._lost = Losses()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry) -> bool:
        """Queue an entry; False where there is no room for it any more, or the log was closed."""
        with self._changed:
            if self._closed or len(self._entries) >= self._limit:
                self._lost.add(entry.record)
                return False
            self._entries.append(entry)
            self._changed.notify()
            return True

    def keep(self, sidecar: Sidecar) -> bool:
        """Queue what a record that follows will refer to; False where there is no room for it."""
        with self._changed:
            if self._closed or self._beside_bytes + len(sidecar.text) > MAX_BESIDE:
                return False
            self._beside.append(sidecar)
            self._beside_bytes += len(sidecar.text)
            return True

    def beside(self) -> list[Sidecar]:
        """Take what was queued to stand beside the chain: all that the records taken before refer to."""
        with self._changed:
            found, self._beside, self._beside_bytes = self._beside, [], 0
            return found

    def take(self, timeout: float | None) -> tuple[list[Entry], Losses]:
        """Wait for entries, for ``timeout`` seconds, or for the end; return a batch and what was refused meanwhile."""
        with self._changed:
            if not self._entries and not self._closed:
                self._changed.wait(timeout)
            batch = [self._entries.popleft() for _ in range(min(len(self._entries), MAX_BATCH))]
            lost, self._lost = self._lost, Losses()
            return batch, lost

    @property
    def is_done(self) -> bool:
        """Whether it was closed and everything was taken."""
        with self._changed:
            return self._closed and not self._entries

    def close(self) -> None:
        """Refuse further entries and wake the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
