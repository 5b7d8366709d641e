"""Hours of a policy: ``Mon-Fri 08:00-18:00 Europe/Berlin``, several separated by commas. Pure; takes the time.

Times are local wall-clock times of the zone. A range that ends before it begins runs over midnight and belongs to
the day it begins on; the end is not part of it. Without a zone a range has that of the next one, the last one UTC.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = r"(?:mon|tue|wed|thu|fri|sat|sun)"
_TIME = r"([0-9]{1,2}):([0-9]{2})"
_PART: Final = re.compile(
    rf"\s*(?:({_DAY})(?:\s*-\s*({_DAY}))?)?\s*(?:{_TIME}\s*-\s*{_TIME})?\s*([A-Za-z][A-Za-z0-9_+/-]*)?\s*",
    re.IGNORECASE,
)
_MINUTES: Final = 24 * 60


class HoursError(ValueError):
    """A text that names no hours; the message says which part."""


@dataclass(frozen=True, slots=True)
class Range:
    """From ``start`` to ``end`` (minutes since midnight) on some days, 0 being Monday."""

    days: frozenset[int]
    start: int
    end: int
    zone: tzinfo

    def holds(self, now: datetime) -> bool:
        """Whether an aware time lies in the range."""
        local = now.astimezone(self.zone)
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        if minute >= self.start:
            return day in self.days
        return minute < self.end and (day - 1) % 7 in self.days


@dataclass(frozen=True, slots=True)
class Hours:
    """When something holds; without any range, always."""

    ranges: tuple[Range, ...] = ()

    def hold(self, now: datetime) -> bool:
        """Whether they hold at an aware time."""
        return not self.ranges or any(each.holds(now) for each in self.ranges)


def parse_hours(text: str) -> Hours:
    """Read hours; an empty text is always.

    Raises:
        HoursError: a part that cannot be read, a time that does not exist, an unknown zone.
    """
    if not text.strip():
        return Hours()
    found: list[tuple[frozenset[int], int, int, str]] = []
    days: set[int] = set()
    zone = ""
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or not part.strip():
            raise HoursError(f"cannot read {part.strip()!r}: write Mon-Fri 08:00-18:00 Europe/Berlin")
        first, last, from_hour, from_minute, to_hour, to_minute, zone_text = match.groups()
        days |= _days(first, last)
        zone = zone_text or ""
        if from_hour is None:
            # Days alone are those of the next range: Mon, Wed 08:00-12:00.
            if zone or not first:
                raise HoursError(f"{part.strip()!r} has no times: write 00:00-24:00 for whole days")
            continue
        start, end = _minutes(from_hour, from_minute), _minutes(to_hour, to_minute)
        if start in (end, _MINUTES):
            raise HoursError(f"{part.strip()!r} is no span of time: write 00:00-24:00 for whole days")
        found.append((frozenset(days or range(7)), start, end, zone))
        days.clear()
    if days:
        raise HoursError("the last days have no times")
    return Hours(tuple(_with_zones(found)))


def _with_zones(found: list[tuple[frozenset[int], int, int, str]]) -> list[Range]:
    ranges: list[Range] = []
    zone = "UTC"
    for days, start, end, name in reversed(found):
        zone = name or zone
        ranges.append(Range(days, start, end, _zone(zone)))
    return ranges[::-1]


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        # The one zone that needs no database.
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise HoursError(f"knows no time zone {name!r}: write one such as Europe/Berlin or UTC") from None


def _days(first: str | None, last: str | None) -> set[int]:
    if first is None:
        return set()
    start = _DAYS.index(first.lower())
    count = (_DAYS.index(last.lower()) - start) % 7 + 1 if last else 1
    return {(start + offset) % 7 for offset in range(count)}


def _minutes(hour: str, minute: str) -> int:
    total = int(hour) * 60 + int(minute)
    if int(minute) > 59 or total > _MINUTES:
        raise HoursError(f"{hour}:{minute} is no time of day")
    return total
