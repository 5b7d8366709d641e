"""What a thread that watches documents leaves for the loop of another. Knows nothing of where the documents are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from gateway.state.documents import Change


class Mailbox:
    """What one thread leaves for the loop of another: the names since it was last emptied, and how things stand."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._told = self.reachable = True
        self._anew = False
        self.since = _now()
        self.reason = ""
        self._wake: Callable[[], None] = lambda: None

    def put(self, names: frozenset[str]) -> None:
        """Leave names, from any thread; they were heard of, so there is somebody to be reached."""
        with self._lock:
            self._names |= names
            self._stands("")

    def away(self, reason: str) -> None:
        """Say that nobody can be reached any more."""
        with self._lock:
            self._stands(reason)

    def _stands(self, reason: str) -> None:
        if self.reachable != (not reason):
            self.reachable, self.since, self.reason = not reason, _now(), reason
            self._anew = True
        if self._has_news:
            self._wake()

    @property
    def _has_news(self) -> bool:
        return bool(self._names) or self._told != self.reachable or (self._anew and self.reachable)

    def take(self) -> Change | None:
        """Return what was left, None for nothing."""
        with self._lock:
            if not self._has_news:
                return None
            change = Change(frozenset(self._names), self.reachable, anew=self._anew and self.reachable)
            self._names, self._told, self._anew = set(), self.reachable, self._anew and not self.reachable
            return change

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call this, in the thread that leaves something, whenever there is something to take."""
        with self._lock:
            self._wake = wake
            wake()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
