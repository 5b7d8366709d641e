"""One record for many: keeps a flood of equal events from becoming one of records. No timers; times are passed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.protocol.rawjson import Object

DEFAULT_RATE: Final = 10
MAX_KEYS: Final = 4096

MakeRecord: TypeAlias = Callable[[int], Object]
"""Makes the record that stands for so many events."""


@dataclass(slots=True)
class _Window:
    start: float
    taken: int = 0
    held_back: int = 0
    last: MakeRecord | None = None


class Aggregator:
    """Writes ``rate`` records a window and key and counts the rest, so that the counts of all records add up.

    ``window`` is seconds. What is held back is told by the next record of its key, or by ``flush`` for a key that fell
    silent. The map is bounded: with more than ``max_keys`` keys the longest silent one gives way, and is told at once.
    """

    def __init__(
        self,
        write: Callable[[Object], None],
        rate: int = DEFAULT_RATE,
        window: float = 1.0,
        max_keys: int = MAX_KEYS,
    ) -> None:
        self._write = write
        self._rate = rate
        self._length = window
        self._max_keys = max_keys
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def add(self, key: str, now: float, record: MakeRecord) -> None:
        """Take one event: write it, with those held back before it, or hold it back."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now)
            self._evict()
        self._windows.move_to_end(key)
        if now - window.start >= self._length:
            window.start, window.taken = now, 0
        window.last = record
        window.held_back += 1
        if window.taken < self._rate:
            window.taken += 1
            self._tell(window)

    def flush(self, now: float) -> None:
        """Write what is held back in windows that have passed, which begins new ones, and forget idle keys."""
        for key, window in list(self._windows.items()):
            if now - window.start < self._length:
                continue
            if window.held_back:
                window.start, window.taken = now, 1
                self._tell(window)
            else:
                del self._windows[key]

    def close(self) -> None:
        """Write everything that is held back."""
        for window in self._windows.values():
            self._tell(window)
        self._windows.clear()

    def _tell(self, window: _Window) -> None:
        record, count = window.last, window.held_back
        window.last, window.held_back = None, 0
        if record is not None:
            self._write(record(count))

    def _evict(self) -> None:
        if len(self._windows) > self._max_keys:
            self._tell(self._windows.popitem(last=False)[1])
