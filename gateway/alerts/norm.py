"""What is usual for each client, learned as it calls: so many calls in a window, the recent ones counting more. Pure.

Only windows with calls teach anything, so that a quiet night does not make the morning unusual; and what is far above
the norm teaches only as much as would just have been told of, so that one flood does not excuse the next.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MAX_CLIENTS: Final = 10_000
WEIGHT: Final = 0.2
"""How much of the norm the newest window is."""


@dataclass(frozen=True, slots=True)
class Terms:
    """When a rate is unusual: over ``factor`` times the norm and ``least`` calls, in a window of that many seconds."""

    factor: float
    window: float
    least: int


@dataclass(frozen=True, slots=True)
class Excess:
    """An unusual rate: calls in the last window, and how many are usual; None where the client is new."""

    calls: int
    usual: float | None


@dataclass(slots=True)
class _Client:
    length: float
    index: int
    count: int = 0
    before: int = 0
    per_second: float | None = None
    told: float | None = None


class Norms:
    """The norms of all clients; one that has not called for longest gives way to a new one."""

    def __init__(self, most: int = MAX_CLIENTS) -> None:
        self._most = most
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, who: str, now: float, terms: Terms) -> Excess | None:
        """Count a call at ``now``, in seconds of a clock that never goes back; tell of an excess once in a window."""
        client = self._of(who, now, terms)
        client.count += 1
        # What is left of the window before counts in part, so that a flood across a border is not seen as two halves.
        passed = now % terms.window / terms.window
        recent = client.count + client.before * (1 - passed)
        usual = None if client.per_second is None else client.per_second * terms.window
        known = float(terms.least) if usual is None else usual
        if recent < terms.least or recent <= terms.factor * known:
            return None
        if client.told is not None and now - client.told < terms.window:
            return None
        client.told = now
        return Excess(int(recent), usual)

    def _of(self, who: str, now: float, terms: Terms) -> _Client:
        index = int(now // terms.window)
        client = self._clients.get(who)
        if client is None:
            client = self._clients[who] = _Client(terms.window, index)
            if len(self._clients) > self._most:
                self._clients.popitem(last=False)
        self._clients.move_to_end(who)
        if client.length != terms.window:
            # What was counted in windows of another length says nothing now; the norm is per second.
            client.length, client.index, client.count, client.before = terms.window, index, 0, 0
        elif client.index != index:
            _learn(client, terms)
            client.before = client.count if client.index == index - 1 else 0
            client.index, client.count = index, 0
        return client


def _learn(client: _Client, terms: Terms) -> None:
    if not client.count:
        return
    seen = client.count / terms.window
    if client.per_second is None:
        client.per_second = seen
        return
    most = max(client.per_second * terms.factor, terms.least / terms.window)
    client.per_second += WEIGHT * (min(seen, most) - client.per_second)
