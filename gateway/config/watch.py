"""Notices that what a config was loaded from has changed, and stands still again. Knows no config, nor who loads it.

It looks at the files themselves instead of having the kernel tell: that is right for every way to write one (rename,
truncate, a swapped symlink, a folder made anew) and on every file system (docs/decisions/0012-looking-at-files.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.config.reading import MAX_REFERRED, FileProblem, Reading
from gateway.config.sources import Look, Seen, Sources, look, remembered

_SHARE: Final = 50
"""Looking may take one part in this many of the time: a slow file system is looked at less often."""
LONGEST: Final = 5.0
"""Seconds between two looks at most, however long they take: on a busy machine that says little of the files."""


@dataclass(frozen=True, slots=True)
class Pace:
    """In seconds: between looks, for how long nothing may move before it is read, and before a fault is believed.

    ``patience`` is how long files may move until that is told.
    """

    interval: float = 0.5
    settle: float = 0.5
    doubt: float = 1.0
    patience: float = 10.0

    def after(self, seconds: float) -> float:
        """Return how long to leave the file system alone after a look that took so long."""
        return min(max(self.interval, _SHARE * seconds), max(self.interval, LONGEST))


class Watch:
    """Looks at what the last load drew on, which ``sources`` returns; it may be another load each time."""

    def __init__(self, sources: Callable[[], Sources], restless: Callable[[], None], pace: Pace | None = None) -> None:
        """Look at nothing yet; ``restless`` is told once when files have been changing for a long time."""
        self._sources = sources
        self._restless = restless
        self._pace = pace or Pace()
        self._judged: tuple[Sources, Look] | None = None
        """Files that are the same under other stamps: written again, or touched."""

    async def changed(self) -> None:
        """Return once something is other than it was at the last load, and nothing moves."""
        pause = self._pace.interval
        while True:
            await asyncio.sleep(pause)
            sources = self._sources()
            seen, took = await asyncio.to_thread(_timed_look, sources)
            pause = self._pace.after(took)
            if not seen.agrees(self._known(sources)):
                seen = await self._still(sources, seen)
                if await asyncio.to_thread(_differ, sources, seen):
                    return
                self._judged = sources, seen

    async def moved(self) -> bool:
        """Wait a moment; where something has changed since the last load, return True as soon as nothing moves."""
        await asyncio.sleep(self._pace.doubt)
        sources = self._sources()
        seen = await asyncio.to_thread(look, sources)
        if seen.agrees(remembered(sources)):
            return False
        await self._still(sources, seen)
        return True

    def _known(self, sources: Sources) -> Look:
        judged = self._judged
        return judged[1] if judged is not None and judged[0] is sources else remembered(sources)

    async def _still(self, sources: Sources, seen: Look) -> Look:
        """Wait until two looks are the same: a file is written in pieces, and many files one after the other."""
        loop = asyncio.get_running_loop()
        patience: float | None = loop.time() + self._pace.patience
        while True:
            await asyncio.sleep(self._pace.settle)
            now = await asyncio.to_thread(look, sources)
            if now == seen:
                return now
            seen = now
            if patience is not None and loop.time() > patience:
                patience = None
                self._restless()


def _timed_look(sources: Sources) -> tuple[Look, float]:
    """Look, and return the seconds that it took; not those that a thread was waited for."""
    began = time.monotonic()
    return look(sources), time.monotonic() - began


def _differ(sources: Sources, now: Look) -> bool:
    """Tell whether a load would find something else: names are compared, and contents where a stamp is another."""
    if now.patterns != sources.patterns:
        return True
    reading = Reading()
    for path, seen in sources.files.items():
        if now.stamps[path] == seen.stamp:
            continue
        try:
            reading.read(path, MAX_REFERRED)
        except FileProblem as problem:
            fresh = Seen(None, "", str(problem))
        else:
            fresh = reading.sources().files[path]
        if (fresh.digest, fresh.problem) != (seen.digest, seen.problem):
            return True
    return False
