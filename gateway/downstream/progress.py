"""The pace of notifications towards a client: progress that only grows, the newest winning, and nothing after the end.

Knows loop time and nothing of servers (2026-07-28 basic/patterns/progress; S94).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.protocol.rawjson import Members

BURST: Final = 9
PER_SECOND: Final = 10.0
"""With the last one at the end, no second sees more than 20 of one call."""

LOG_BURST: Final = 50
LOG_PER_SECOND: Final = 50.0


class Bucket:
    """A token bucket; ``clock`` gives monotonic seconds."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = burst
        self._rate = per_second
        self._clock = clock
        self._tokens = burst
        self._at = clock()

    def take(self) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class Pacer:
    """Lets one call's progress through: strictly increasing, paced, the newest value winning."""

    def __init__(self, send: Callable[[Members], None], loop: asyncio.AbstractEventLoop) -> None:
        self._send = send
        self._loop = loop
        self._bucket = Bucket(BURST, PER_SECOND, loop.time)
        self._highest: float | None = None
        self._held: Members | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def offer(self, progress: float, params: Members) -> bool:
        """Take one notification; False where it does not increase or comes too late."""
        if self._closed or (self._highest is not None and progress <= self._highest):
            return False
        self._highest = progress
        self._held = params
        if self._timer is None:
            self._release()
        return True

    def _release(self) -> None:
        self._timer = None
        if self._held is None:
            return
        wait = self._bucket.take()
        if wait > 0:
            self._timer = self._loop.call_later(wait, self._release)
            return
        params, self._held = self._held, None
        self._send(params)

    def close(self) -> None:
        """End it: what is still held goes out now, before the answer does; everything later is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None and not self._closed:
            self._send(self._held)
        self._held = None
        self._closed = True
