"""The rate algorithm, as pure arithmetic: GCRA in exact integers, so that every store counts alike.

A bucket is one number, the theoretical arrival time of the next call if calls came evenly. At most
``burst + rate * t`` calls pass in any time t (S80); there is no window whose edge could be doubled (G102).
"""

from __future__ import annotations

from dataclasses import dataclass

_NANOSECONDS = 1_000_000_000
_NANOSECONDS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """``count`` calls per ``seconds``, of which ``burst`` may come at once."""

    count: int
    seconds: float
    burst: int

    def charge(self, arrival: int, now: float) -> tuple[int, int]:
        """Count one call at ``now`` (seconds of a clock that never goes back).

        ``arrival`` is what this bucket's last charge returned, 0 for a new bucket. Returns the new arrival and 0,
        or the old arrival and the milliseconds after which this call would pass; waiting exactly that long suffices.
        """
        # One unit is a count-th of a nanosecond, which makes the interval between calls a whole number for any rate.
        time = round(now * _NANOSECONDS) * self.count
        interval = round(self.seconds * _NANOSECONDS)
        early = arrival - (self.burst - 1) * interval - time
        if early > 0:
            return arrival, -(-early // (self.count * _NANOSECONDS_PER_MS))
        return max(arrival, time) + interval, 0

    def is_full(self, arrival: int, now: float) -> bool:
        """Whether the bucket is as good as new at ``now``, so that it need not be kept."""
        return arrival <= round(now * _NANOSECONDS) * self.count
