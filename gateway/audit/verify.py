"""Checks a log from its files alone: every line, in order, exactly as it was written. Streams; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.audit import chain
from gateway.audit.chain import GENESIS, MAX_RECORD, ChainError, Head
from gateway.audit.segment import Segment, list_segments, read_lines, whole_length
from gateway.protocol.rawjson import Object


class CannotTell(Exception):
    """There is nothing to check, or it cannot be read."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing that is wrong: segment file, line, the sequence number due there, and why."""

    segment: str
    line: int
    seq: int
    reason: str

    def __str__(self) -> str:
        return f"{self.segment}:{self.line} seq {self.seq}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. ``records`` counts the good ones before the fault, ``head`` is the last of them.

    ``unfinished`` is the number of bytes of a last line without its end: what a crash, or a gateway that is writing
    right now, leaves behind. It is no fault.
    """

    records: int
    segments: int
    head: Head | None
    fault: Fault | None = None
    unfinished: int = 0

    @property
    def ok(self) -> bool:
        return self.fault is None


def verify(directory: Path) -> Verdict:
    """Check all segments of a directory.

    Raises:
        CannotTell: no such directory, no whole record in it, or a file that cannot be read.
    """
    check = _Check()
    try:
        segments = list_segments(directory)
        for segment in segments:
            check.segment(segment, is_last=segment is segments[-1])
            if check.fault is not None:
                break
    except OSError as error:
        raise CannotTell(f"{directory} cannot be read: {error.strerror}") from None
    if check.fault is None and not check.records:
        raise CannotTell(f"no audit records in {directory}")
    return Verdict(check.records, len(segments), check.head, check.fault, check.unfinished)


class _Check:
    """One pass over a log, up to the first fault."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.records = 0
        self.unfinished = 0
        self.fault: Fault | None = None

    def segment(self, segment: Segment, *, is_last: bool) -> None:
        line = 0
        try:
            for line, (data, ended) in enumerate(read_lines(segment.path), 1):
                if not ended and self._is_unfinished(data, is_last=is_last):
                    self.unfinished = len(data)
                    return
                record, head = chain.check(data, self.head)
                if line == 1:
                    self._check_head(record, segment.number)
                self.head = head
                self.records += 1
            if line == 0 and not is_last:
                line = 1
                raise ChainError("empty segment", self._due)
        except ChainError as error:
            self.fault = Fault(segment.path.name, line, self._due, error.reason)

    @property
    def _due(self) -> int:
        return 1 if self.head is None else self.head.seq + 1

    def _check_head(self, record: Object, number: int) -> None:
        """Check what a segment's first record says of the file, and the first one's of the whole log."""
        if self.head is None and (record["seq"] != 1 or record["prev"] != GENESIS):
            raise ChainError(f"the log begins with record {record['seq']}, what was before it is missing", 1)
        part = record.get("segment")
        if record.get("event") != "audit.segment" or not isinstance(part, dict):
            raise ChainError("no segment head", self._due)
        if part.get("number") != number or part.get("first_seq") != record["seq"]:
            raise ChainError(f"this file was segment {part.get('number')}", self._due)

    def _is_unfinished(self, data: bytes, *, is_last: bool) -> bool:
        """Tell whether a line without its end is just that, where one may be; any other one is a fault."""
        if len(data) >= MAX_RECORD:
            raise ChainError("longer than a record", self._due)
        if not is_last:
            raise ChainError("line without its end", self._due)
        whole = whole_length(data)
        if whole == len(data):
            chain.check(data, self.head)
        elif whole:
            raise ChainError("something behind the last record", self._due)
        return True
