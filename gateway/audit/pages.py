"""Searches the log from its end backwards, a page of records at a time, with bounded work: for people who look now.

What one search does not reach, the next one goes on with. Changes nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.audit.chain import MAX_RECORD
from gateway.audit.query import Wanted, as_record
from gateway.audit.segment import Segment, list_segments
from gateway.protocol.rawjson import Object

_PLACE: Final = re.compile(r"([0-9]{1,8})-([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search goes on: before this byte of this segment."""

    segment: int
    offset: int

    def __str__(self) -> str:
        return f"{self.segment}-{self.offset}"

    @classmethod
    def read(cls, text: str) -> Place | None:
        """Read what ``str`` wrote; None for anything else."""
        match = _PLACE.fullmatch(text)
        return cls(int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one search goes: records found, bytes read, seconds, and bytes read at a time."""

    records: int = 50
    size: int = 128 * 2**20
    seconds: float = 2.0
    block: int = 2**20


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, newest first. ``next`` is where to go on, None where all of the log was looked at.

    ``back_to`` is the time of the oldest record that was reached, ``looked`` how many bytes were read.
    """

    records: tuple[Object, ...]
    next: Place | None
    looked: int = 0
    back_to: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a segment, and where they begin in it."""

    segment: int
    start: int
    data: bytes

    @property
    def place(self) -> Place:
        return Place(self.segment, self.start)

    @property
    def since(self) -> str:
        """The time of the first record, "" where the first line is none."""
        record = as_record(self.data[: self.data.find(b"\n")])
        return str(record.get("ts", "")) if record is not None else ""

    def lines(self) -> Iterator[tuple[bytes, int]]:
        """Yield lines and where they begin, the last first."""
        end = self.start + len(self.data)
        for line in reversed(self.data.split(b"\n")[:-1]):
            end -= len(line) + 1
            yield line, end


def search(
    directory: Path,
    wanted: Wanted,
    before: Place | None = None,
    reach: Reach | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """Find the last records that match, before a place where one is given.

    Raises:
        OSError: the directory cannot be read.
    """
    reach = reach or Reach()
    needles, found = wanted.needles(), list[Object]()
    deadline, looked, back_to = clock() + reach.seconds, 0, ""
    for chunk in chunks(list_segments(directory), before, reach.block):
        looked += len(chunk.data)
        since = chunk.since
        back_to = since or back_to
        if not (wanted.until and since >= wanted.until) and all(needle in chunk.data for needle in needles):
            for line, start in chunk.lines():
                record = as_record(line) if all(needle in line for needle in needles) else None
                if record is None or not wanted.matches(record):
                    continue
                found.append(record)
                if len(found) >= reach.records:
                    return Found(tuple(found), Place(chunk.segment, start), looked, str(record.get("ts", "")))
        if wanted.since and since and since < wanted.since:
            return Found(tuple(found), None, looked, back_to)
        if looked >= reach.size or clock() >= deadline:
            return Found(tuple(found), chunk.place, looked, back_to)
    return Found(tuple(found), None, looked, back_to)


def chunks(segments: list[Segment], before: Place | None, block: int) -> Iterator[Chunk]:
    """Yield whole lines, the last first, and never more than a block and one record of them."""
    for segment in reversed(segments):
        if before is not None and segment.number > before.segment:
            continue
        end = before.offset if before is not None and segment.number == before.segment else None
        try:
            yield from _of_segment(segment, end, block)
        except FileNotFoundError:
            # Retention has taken it since the directory was read.
            continue


def _of_segment(segment: Segment, end: int | None, block: int) -> Iterator[Chunk]:
    with segment.path.open("rb") as file:
        size = file.seek(0, 2)
        position = size if end is None else min(end, size)
        rest = b""
        while position > 0:
            step = min(block, position)
            position -= step
            file.seek(position)
            data = file.read(step) + rest
            # Up to the first line end it may be the rest of a line; what follows the last one is still being written.
            first = 0 if position == 0 else data.find(b"\n") + 1
            last = data.rfind(b"\n") + 1
            if last > first:
                yield Chunk(segment.number, position + first, data[first:last])
            # A line that is longer than a record is none, and is not gathered.
            rest = data[:first] if 0 < first <= MAX_RECORD else b"" if first else data[:MAX_RECORD]
