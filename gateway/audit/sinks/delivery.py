"""Takes records from the log to one sink: in order, at least once, as fast as it takes them, and never waits for it.

A sink that does not answer is tried again with growing pauses; a record it refuses for good goes to a file.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gateway.audit.sinks.feed import Batch, Feed
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.state.files import PRIVATE_FILE
from gateway.telemetry.logs import get_logger

_log = get_logger("audit")
POLL: Final = 0.5
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
MAX_DEAD: Final = 64 * 2**20
"""Bytes of refused records that are kept; later ones are counted alone."""


class Unavailable(Exception):
    """The sink cannot take anything now; the text is safe to log. ``after`` is seconds that it asked for."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class Rejected(Exception):
    """The sink will never take these records."""


class Sink(Protocol):
    """Somewhere to send records."""

    async def send(self, records: list[Object]) -> None:
        """Deliver them, all or none.

        Raises:
            Unavailable: not now.
            Rejected: never.
        """

    async def aclose(self) -> None:
        """Let go of connections."""


class SinkMeters(Protocol):
    """Hears how one sink does."""

    def sent(self, records: int) -> None:
        """So many records arrived."""

    def failed(self) -> None:
        """An attempt failed and is made again."""

    def lost(self, records: int, result: str) -> None:
        """So many did not arrive: ``dead`` were refused, ``lost`` were deleted before they could be sent."""

    def lag(self, records: int) -> None:
        """So many durable records wait."""


@dataclass(frozen=True, slots=True)
class Route:
    """One sink with what belongs to it. ``durable`` returns the number of the last record the disk has confirmed."""

    name: str
    sink: Sink
    feed: Feed
    dead: Path
    meters: SinkMeters
    durable: Callable[[], int]


class Delivery:
    """Drives one route until it is cancelled."""

    def __init__(self, route: Route, poll: float = POLL, first_pause: float = FIRST_PAUSE) -> None:
        self._route = route
        self._poll = poll
        self._first_pause = first_pause

    async def run(self) -> None:
        """Deliver for ever."""
        await asyncio.to_thread(self._route.feed.resume)
        pause = self._first_pause
        while True:
            try:
                moved = await self.step()
            except Unavailable as error:
                self._route.meters.failed()
                _log.warning("audit_sink_unavailable", sink=self._route.name, reason=str(error), retry_in=pause)
                await asyncio.sleep(min(max(pause * random.uniform(0.5, 1.0), error.after), LONGEST_PAUSE))
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            except OSError as error:
                _log.warning("audit_sink_blocked", sink=self._route.name, reason=error.strerror)
                await asyncio.sleep(LONGEST_PAUSE)
                continue
            pause = self._first_pause
            if not moved:
                await asyncio.sleep(self._poll)

    async def step(self) -> bool:
        """Deliver one batch; False where there was none.

        Raises:
            Unavailable: nothing arrived; the same batch comes again.
            OSError: the log or the place cannot be read or written.
        """
        route = self._route
        durable = route.durable()
        batch = await asyncio.to_thread(route.feed.read, durable)
        if not batch.records:
            route.meters.lag(0)
            return False
        try:
            await self._send(batch.records)
        except (Unavailable, asyncio.CancelledError):
            route.feed.rewind()
            route.meters.lag(max(durable - route.feed.seq, 0))
            raise
        if batch.lost:
            route.meters.lost(batch.lost, "lost")
            _log.error("audit_sink_missed", sink=route.name, records=batch.lost)
        await asyncio.to_thread(route.feed.delivered, batch)
        route.meters.lag(max(durable - batch.last, 0))
        return True

    async def _send(self, records: list[Object]) -> None:
        """Send a batch, and if it is refused, its records one by one to find those that are."""
        route = self._route
        try:
            await route.sink.send(records)
        except Rejected as error:
            if len(records) > 1:
                for record in records:
                    await self._send([record])
                return
            route.meters.lost(1, "dead")
            _log.error("audit_sink_rejected", sink=route.name, seq=records[0].get("seq"), reason=str(error))
            await asyncio.to_thread(_bury, route.dead, records[0])
            return
        route.meters.sent(len(records))


def _bury(path: Path, record: Object) -> None:
    if path.exists() and path.stat().st_size > MAX_DEAD:
        return
    path.touch(PRIVATE_FILE)
    with path.open("ab") as file:
        file.write(rawjson.canonical_plain(record) + b"\n")


__all__ = ["Batch", "Delivery", "Rejected", "Route", "Sink", "SinkMeters", "Unavailable"]
