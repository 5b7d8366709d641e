"""One record for many: keeps a flood of equal refusals from becoming a flood of records. Pure; times are passed in."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

DEFAULT_RATE: Final = 10
MAX_KEYS: Final = 4096


@dataclass(slots=True)
class _Window:
    start: float
    taken: int = 0
    suppressed: int = 0


class Aggregator:
    """Lets ``rate`` events a second and key through and counts the rest, so that the counts of all records add up.

    ``take`` is asked for each event; ``drain`` yields what is still counted for keys that fell silent. The map is
    bounded: with more than ``max_keys`` keys the longest silent one gives way, and its count goes to the next drain.
    """

    def __init__(self, rate: int = DEFAULT_RATE, window: float = 1.0, max_keys: int = MAX_KEYS) -> None:
        self._rate = rate
        self._length = window
        self._max_keys = max_keys
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._evicted = 0

    def __len__(self) -> int:
        return len(self._windows)

    def take(self, key: str, now: float) -> int:
        """Return how many events a record written now stands for: this one and those held back, or 0 for no record."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now)
            self._evict()
        self._windows.move_to_end(key)
        if now - window.start >= self._length:
            window.start, window.taken = now, 0
        if window.taken >= self._rate:
            window.suppressed += 1
            return 0
        window.taken += 1
        count, window.suppressed = 1 + window.suppressed, 0
        return count

    def drain(self, now: float) -> list[tuple[str, int]]:
        """Return key and count of what is held back in windows that have passed, and forget idle keys.

        The key ``""`` stands for keys that had to give way.
        """
        due: list[tuple[str, int]] = [("", self._evicted)] if self._evicted else []
        self._evicted = 0
        for key, window in list(self._windows.items()):
            if now - window.start < self._length:
                continue
            if window.suppressed:
                due.append((key, window.suppressed))
            del self._windows[key]
        return due

    def _evict(self) -> None:
        if len(self._windows) > self._max_keys:
            _, oldest = self._windows.popitem(last=False)
            self._evicted += oldest.suppressed
