"""Brings finished spans to a collector in batches, again after a failure, for as long as that makes sense.

A collector that is slow or gone delays nobody: what waits is bounded by whoever holds it, and what is given up is
counted. Knows neither spans nor the library that makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.tasks import outcome
from gateway.telemetry.collector import Unsent
from gateway.telemetry.logs import get_logger

BATCH: Final = 256
"""Spans of one request at most."""
_log = get_logger("tracing")


class Outbox(Protocol):
    """Holds what is to be sent."""

    def __len__(self) -> int:
        """How many wait."""

    def take(self, most: int) -> tuple[int, Callable[[], bytes]]:
        """Take the oldest away: how many, and what writes them; that takes long enough for a thread."""

    def refused(self, answer: bytes) -> int:
        """Return how many of a request the collector did not want, by its answer, which may say anything."""


class Way(Protocol):
    """Where it is sent."""

    async def send(self, body: bytes) -> bytes:
        """Send one request and return the answer.

        Raises:
            Unsent: it was not taken.
        """

    async def aclose(self) -> None:
        """Let go of connections."""


class Meter(Protocol):
    """Counts."""

    def spans(self, count: int, result: str) -> None:
        """Count spans: ``sent``, ``refused`` by the collector, or ``lost`` on the way."""

    def failed(self) -> None:
        """Count an attempt that failed."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: between two looks, before the second try, and at most before another; ``tries`` of one request.

    ``patience`` is how long is waited at most where a collector asks for it.
    """

    look: float = 0.5
    first: float = 0.5
    longest: float = 8.0
    tries: int = 4
    patience: float = 60.0

    def after(self, failures: int, asked: float) -> float:
        """Return how long to wait after so many failures, where the collector asks for this (OTLP §Throttling)."""
        own = min(self.longest, self.first * 2.0 ** (failures - 1))
        return max(own, min(self.patience, asked))


PACE: Final = Pace()


class Export:
    """One way out. ``way`` may be exchanged at any time; a request that is under way keeps its own."""

    def __init__(self, outbox: Outbox, way: Way, meter: Meter, pace: Pace = PACE) -> None:
        self._outbox = outbox
        self._way = way
        self._meter = meter
        self._pace = pace
        self._trouble = False
        self._retired: list[Way] = []
        self._busy = asyncio.Lock()
        self._ending = asyncio.Event()

    def change(self, way: Way) -> None:
        """Send over another way from now on."""
        self._retired.append(self._way)
        self._way = way

    async def run(self) -> None:
        """Send what comes, until cancelled or settled."""
        while not self._ending.is_set():
            await self._pause(self._pace.look)
            failed = await outcome(self._turn())
            if isinstance(failed, Exception):
                self._tell(type(failed).__name__)

    async def _turn(self) -> None:
        async with self._busy:
            await self._close_retired()
            while len(self._outbox) and not self._ending.is_set():
                await self._deliver(self._pace.tries)

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def settle(self, seconds: float) -> None:
        """Begin no other request and wait for no other try; let the one under way end within so many seconds."""
        self._ending.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._busy:
                pass

    async def aclose(self, seconds: float) -> None:
        """Send what waits within so many seconds, once ``run`` has ended, and let go of connections."""
        try:
            async with asyncio.timeout(seconds):
                while len(self._outbox):
                    await outcome(self._deliver(1))
        except TimeoutError:
            pass
        rest, _ = self._outbox.take(len(self._outbox))
        self._count(rest, "lost")
        self._retired.append(self._way)
        await self._close_retired()

    async def _close_retired(self) -> None:
        while self._retired:
            await self._retired.pop().aclose()

    async def _deliver(self, tries: int) -> None:
        """Send one batch; it is counted whatever happens, also where this is cancelled."""
        count, write = self._outbox.take(BATCH)
        result, refused = "lost", 0
        try:
            body = await asyncio.to_thread(write)
            result, refused = await self._tried(body, tries)
        finally:
            refused = max(0, min(refused, count))
            self._count(refused, "refused")
            self._count(count - refused, result)

    async def _tried(self, body: bytes, tries: int) -> tuple[str, int]:
        for failures in range(1, tries + 1):
            try:
                answer = await self._way.send(body)
            except Unsent as unsent:
                self._meter.failed()
                self._tell(str(unsent))
                if unsent.final:
                    return "refused", 0
                if failures == tries or self._ending.is_set():
                    break
                await self._pause(self._pace.after(failures, unsent.wait))
            else:
                self._tell("")
                return "sent", self._outbox.refused(answer)
        return "lost", 0

    def _count(self, spans: int, result: str) -> None:
        if spans:
            self._meter.spans(spans, result)

    def _tell(self, trouble: str) -> None:
        """Write one line when it begins to fail, and one when it works again."""
        if bool(trouble) == self._trouble:
            return
        self._trouble = bool(trouble)
        if trouble:
            _log.warning("spans_not_sent", reason=trouble)
        else:
            _log.info("spans_sent_again")
