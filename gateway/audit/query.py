"""Finds records: streams the files, and reads only those lines whole that can match. Changes nothing."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final

from gateway.audit.keys import AuditKey
from gateway.audit.segment import Segment, list_segments, read_lines
from gateway.config.types import parse_duration
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

_WILD: Final = re.compile(r"[*?\[]")
_TOLD: Final = 65_536
"""Bytes after which it is told again how many were read."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for; empty fields match everything.

    ``principal`` holds the spellings any of which may be the record's: id, client, or keyed digest of a subject.
    ``event`` is a glob. ``since`` and ``until`` are times as records write them, the first of them included.
    """

    principal: frozenset[str] = frozenset()
    server: str = ""
    tool: str = ""
    event: str = ""
    outcome: str = ""
    call: str = ""
    since: str = ""
    until: str = ""

    def matches(self, record: Object) -> bool:
        """Tell whether a record is one of those."""
        tool, outcome, principal = (_part(record, name) for name in ("tool", "outcome", "principal"))
        ts = str(record.get("ts", ""))
        return (
            (not self.event or fnmatchcase(str(record.get("event")), self.event))
            and (not self.server or record.get("server") == self.server)
            and (not self.tool or self.tool in (tool.get("name"), tool.get("exposed")))
            and (not self.outcome or self.outcome in (outcome.get("status"), outcome.get("error_type")))
            and (not self.call or record.get("call_id") == self.call)
            and (not self.principal or not self.principal.isdisjoint(_names(principal, record)))
            and (not self.since or ts >= self.since)
            and (not self.until or ts < self.until)
        )

    def needles(self) -> tuple[bytes, ...]:
        """Return what a line has in it if its record matches."""
        texts = [text for text in (self.server, self.tool, self.outcome, self.call) if text]
        texts += self.principal if len(self.principal) == 1 else ()
        if self.event and _WILD.search(self.event) is None:
            texts.append(self.event)
        # Of a glob at least the beginning is there, without the quote that would end it.
        begun = _WILD.split(self.event, 1)[0] if _WILD.search(self.event) else ""
        return (*map(rawjson.encode, texts), *([rawjson.encode(begun)[:-1]] if begun else ()))


def moment(text: str, now: datetime) -> str:
    """Return a time that somebody wrote, or how long ago it is, as records write it: in UTC. "" stays "".

    Raises:
        ValueError: it is none, or none that a calendar has.
    """
    if not text:
        return ""
    try:
        at = now - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        try:
            at = datetime.fromisoformat(text)
            at = at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError(f"{text[:40]!r} is no time such as 2026-08-23T10:00Z, 2026-08-23 or 2h") from None
    return f"{at.isoformat(timespec='microseconds')[:-6]}Z"


def spellings(who: str, key: AuditKey | None) -> frozenset[str]:
    """Return how a principal may stand in records; with the log's key a subject is found by its name."""
    names = frozenset({who} if who else ())
    if key is None or not who.startswith("sub:"):
        return names
    # Where the issuer ends and the subject begins only the record's own issuer could tell.
    parts = who[4:].split("/")
    tails = ["/".join(parts[index:]) for index in range(len(parts))]
    return names | {key.digest("subject", tail.encode(), 32) for tail in tails}


def matching(directory: Path, wanted: Wanted, progress: Callable[[int], None] | None = None) -> Iterator[Object]:
    """Yield the records that match, oldest first; ``progress`` hears now and then how many bytes were read.

    Lines that are no records are passed over: they are for ``verify`` to name.

    Raises:
        OSError: the directory cannot be read.
    """
    needles = wanted.needles()
    done = told = 0
    for segment in _since(list_segments(directory), wanted.since):
        for line, ended in read_lines(segment.path):
            done += len(line) + 1
            if progress is not None and done - told >= _TOLD:
                told = done
                progress(done)
            if not ended or not all(needle in line for needle in needles):
                continue
            record = as_record(line)
            if record is not None and wanted.matches(record):
                yield record


def joined(
    directories: Sequence[Path], wanted: Wanted, progress: Callable[[int], None] | None = None
) -> Iterator[Object]:
    """Yield the records of several logs that match, in the order of their times: replicas have a log each.

    Raises:
        OSError: a directory cannot be read.
    """
    if len(directories) == 1:
        return matching(directories[0], wanted, progress)
    read = [0] * len(directories)

    def heard(index: int, done: int) -> None:
        read[index] = done
        if progress is not None:
            progress(sum(read))

    logs = (matching(each, wanted, partial(heard, index)) for index, each in enumerate(directories))
    return heapq.merge(*logs, key=lambda record: str(record.get("ts", "")))


def as_record(line: bytes) -> Object | None:
    """Read a line; None for one that is no record."""
    try:
        record = rawjson.decode_value(line)
    except JsonError:
        return None
    return record if isinstance(record, dict) else None


def _since(segments: list[Segment], since: str) -> list[Segment]:
    """Leave out segments that ended before a time: each begins where the one before ends."""
    if not since:
        return segments
    start = 0
    for index, segment in enumerate(segments[1:], 1):
        first = next((as_record(line) for line, _ in read_lines(segment.path)), None)
        if first is not None and str(first.get("ts", "")) < since:
            start = index
    return segments[start:]


def _names(principal: Object, record: Object) -> set[Value]:
    names = {principal.get(name) for name in ("id", "client", "sub_h") if isinstance(principal.get(name), str)}
    user = _part(record, "admin").get("user")
    return names | {user} if isinstance(user, str) else names


def _part(record: Object, name: str) -> Object:
    value = record.get(name)
    return value if isinstance(value, dict) else {}
