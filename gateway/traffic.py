"""Remembers the calls of the last hours in numbers, and those that run now: for people who look, not for alerts.

In memory and bounded: steps of a minute for two hours, of a quarter of an hour for a day, and in each so many callers
and tools; whatever is beyond that is counted under one name. Holds no arguments and no results.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.admin.views import Chosen, LiveCall, Tally, Traffic
from gateway.model.call import Call
from gateway.model.exchange import Exchange

MAX_LIVE: Final = 10_000
MAX_KEYS: Final = 256
"""Callers and tools counted apart in one step."""
MAX_NAMES: Final = 20
"""Names that are shown."""
OTHER: Final = "(other)"
NO_SUCH: Final = "(no such name)"
NO_SERVER: Final = "(gateway)"
_FINE, _COARSE = 60.0, 900.0
_STEPS: Final = {_FINE: 120, _COARSE: 96}
_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)
_REFUSED: Final = frozenset({"denied", "limited"})
_OK: Final = "ok"
_Key: TypeAlias = tuple[str, str, str]
_PARTS: Final = {"client": 0, "server": 1, "tool": 2}


class _Cell:
    """Ends and durations of some calls."""

    __slots__ = ("ends", "taken")

    def __init__(self) -> None:
        self.ends = [0, 0, 0]
        self.taken = [0] * (len(_BOUNDS_MS) + 1)

    def add(self, end: int, seconds: float, count: int = 1) -> None:
        self.ends[end] += count
        if end != 1:
            self.taken[_place(seconds * 1000)] += count

    def merge(self, other: _Cell) -> None:
        self.ends = [mine + theirs for mine, theirs in zip(self.ends, other.ends, strict=True)]
        self.taken = [mine + theirs for mine, theirs in zip(self.taken, other.taken, strict=True)]

    def tally(self) -> Tally:
        ok, refused, failed = self.ends
        return Tally(ok, refused, failed, _quantile(self.taken, 0.5), _quantile(self.taken, 0.95))


@dataclass(slots=True)
class _Step:
    """What happened in one step of time; ``number`` is its place since the clock began."""

    number: int
    cells: dict[_Key, _Cell] = field(default_factory=dict)

    def cell(self, key: _Key) -> _Cell:
        found = self.cells.get(key)
        if found is None:
            if len(self.cells) >= MAX_KEYS:
                key = (OTHER, OTHER, OTHER)
            found = self.cells.setdefault(key, _Cell())
        return found

    def merge(self, other: _Step) -> None:
        for key, cell in other.cells.items():
            self.cell(key).merge(cell)


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that ended before there was a log to count it, or several that ended alike; see ``TrafficLog.ended``."""

    client: str
    server: str
    tool: str
    label: str
    seconds: float = 0.0
    count: int = 1


class Past:
    """Counts what ended before, in any order and in any thread; a log takes it as a whole."""

    def __init__(self, now: float) -> None:
        """``now`` is what the log's clock says."""
        self._now = now
        self._steps: dict[float, dict[int, _Step]] = {size: {} for size in _STEPS}

    @property
    def longest(self) -> float:
        """Seconds that a log looks back."""
        return max(size * most for size, most in _STEPS.items())

    def add(self, ended: Ended, age: float) -> None:
        """Count it; ``age`` is how many seconds ago it ended. What no log would remember is left out."""
        for size, steps in self._steps.items():
            number = int((self._now - age) // size)
            if age >= 0 and number > int(self._now // size) - _STEPS[size]:
                step = steps.setdefault(number, _Step(number))
                key = (ended.client, ended.server or NO_SERVER, ended.tool)
                step.cell(key).add(_end(ended.label), ended.seconds, ended.count)

    def with_since(self, size: float, since: Iterable[_Step]) -> deque[_Step]:
        """Return the steps of one size, with those that were counted meanwhile."""
        steps = self._steps[size]
        for step in since:
            if (before := steps.get(step.number)) is None:
                steps[step.number] = step
            else:
                before.merge(step)
        return deque((steps[number] for number in sorted(steps)), maxlen=_STEPS[size])


class TrafficLog:
    """Counts calls as they begin and end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: dict[str, tuple[Call, Exchange]] = {}
        self._steps: dict[float, deque[_Step]] = {size: deque(maxlen=most) for size, most in _STEPS.items()}

    def now(self) -> float:
        """Return what the clock says, in seconds."""
        return self._clock()

    def remember(self, past: Past) -> None:
        """Take in what ended before this log began to count."""
        self._steps = {size: past.with_since(size, steps) for size, steps in self._steps.items()}

    def began(self, call: Call, exchange: Exchange) -> None:
        """A call runs."""
        if len(self._live) < MAX_LIVE:
            self._live[call.id] = call, exchange

    def ended(self, call: Call, label: str, seconds: float) -> None:
        """A call ended; ``label`` is the outcome as metrics have it."""
        self._live.pop(call.id, None)
        tool = tool_named(
            call.target.server, call.definition.name if call.definition is not None else None, call.method
        )
        self._count((call.principal.label, call.target.server or NO_SERVER, tool), _end(label), seconds)

    def denied(self, call: Call, server: str) -> None:
        """A name was called that is hidden or does not exist; what was asked for is nobody's name and not kept."""
        self._count((call.principal.label, server or NO_SUCH, NO_SUCH), 1, 0.0)

    def _count(self, key: _Key, end: int, seconds: float) -> None:
        now = self._clock()
        for size, steps in self._steps.items():
            number = int(now // size)
            if not steps or steps[-1].number != number:
                steps.append(_Step(number))
            steps[-1].cell(key).add(end, seconds)

    def live(self) -> tuple[LiveCall, ...]:
        """Return the calls that run, the oldest first."""
        now = self._clock()
        return tuple(
            LiveCall(
                call.id,
                call.principal.label,
                call.target.server,
                call.target.name,
                call.method,
                _stage(exchange),
                now - exchange.started,
            )
            for call, exchange in self._live.values()
        )

    async def show(self, chosen: Chosen) -> Traffic:
        """Count what was chosen, up to now; between two steps the loop is free."""
        size = _FINE if chosen.seconds <= _FINE * _STEPS[_FINE] else _COARSE
        count = max(1, min(_STEPS[size], round(chosen.seconds / size)))
        last = int(self._clock() // size)
        over_time = [_Cell() for _ in range(count)]
        names: dict[str, _Cell] = {}
        part = _PARTS.get(chosen.by, 2)
        for step in tuple(self._steps[size]):
            index = step.number - last + count - 1
            if not 0 <= index < count:
                continue
            for key, cell in _matching(step, chosen):
                over_time[index].merge(cell)
                names.setdefault(key[part], _Cell()).merge(cell)
            await asyncio.sleep(0)
        whole = _Cell()
        for cell in over_time:
            whole.merge(cell)
        busiest = sorted(names.items(), key=lambda item: (-sum(item[1].ends), item[0]))[:MAX_NAMES]
        tallies = tuple((name, cell.tally()) for name, cell in busiest)
        return Traffic(size, tuple(cell.tally() for cell in over_time), tallies, whole.tally())


def tool_named(server: str, name: str | None, method: str) -> str:
    """Return what a tool is called in counts; ``name`` is None for what no list has.

    A resource that is no listed one is an address of the client's own making.
    """
    return f"{server or NO_SERVER} ({method})" if name is None else f"{server or NO_SERVER}/{name}"


def _end(label: str) -> int:
    return 0 if label == _OK else 1 if label in _REFUSED else 2


def _matching(step: _Step, chosen: Chosen) -> Iterator[tuple[_Key, _Cell]]:
    for key, cell in step.cells.items():
        if (
            (not chosen.client or chosen.client == key[0])
            and (not chosen.server or chosen.server == key[1])
            and (not chosen.tool or chosen.tool == key[2])
        ):
            yield key, cell


def _stage(exchange: Exchange) -> str:
    if exchange.answered_at:
        return "answered"
    return "at the server" if exchange.dispatched else "waiting"


def _place(taken_ms: float) -> int:
    return next((index for index, bound in enumerate(_BOUNDS_MS) if taken_ms <= bound), len(_BOUNDS_MS))


def _quantile(counts: Iterable[int], share: float) -> float | None:
    """Return the upper end of the range in which a share of all lies; None without any, twice the last for more."""
    counts = list(counts)
    wanted, seen = share * sum(counts), 0
    if not wanted:
        return None
    for bound, count in zip((*_BOUNDS_MS, 2 * _BOUNDS_MS[-1]), counts, strict=True):
        seen += count
        if seen >= wanted:
            return float(bound)
    return None
