"""Checks a log from its files and the public key alone: every line, in order, exactly as it was written, and signed.

Streams; changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.audit import chain
from gateway.audit.chain import GENESIS, MAX_RECORD, ChainError, Head
from gateway.audit.checkpoint import (
    EVENT,
    MAX_UNSIGNED,
    TOMBSTONE,
    Anchor,
    PublicKeys,
    SignatureFault,
    check_checkpoint,
)
from gateway.audit.segment import Segment, list_segments, read_lines, segment_path, whole_length
from gateway.audit.signing import ANCHOR_FILE, PUBLIC_FILE
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object

_HEAD: Final = "audit.segment"
_REPORT_EVERY: Final = 20_000


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
    right now, leaves behind. It is no fault. ``unanchored`` records stand behind the last of the ``checkpoints``.
    ``keys`` are the ids of the keys that were trusted; none for a log that is not signed. ``first`` is the number of
    the first record that retention has left.
    """

    records: int
    segments: int
    head: Head | None
    fault: Fault | None = None
    unfinished: int = 0
    checkpoints: int = 0
    unanchored: int = 0
    keys: tuple[str, ...] = ()
    first: int = 1
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.fault is None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a log is checked against.

    ``keys`` is the PEM text of public keys from somewhere else, None for the one beside the log. ``anchors`` are
    records of it that somebody kept: number to hash.
    """

    keys: bytes | None = None
    anchors: Mapping[int, str] = field(default_factory=dict)


def read_anchors(path: Path) -> dict[int, str]:
    """Read records that were kept outside, one JSON object a line, such as the output of a sink.

    Raises:
        CannotTell: it cannot be read, or holds something else.
    """
    found: dict[int, str] = {}
    try:
        for data in path.read_bytes().splitlines():
            record = rawjson.decode_value(data)
            if not isinstance(record, dict) or not isinstance(seq := record.get("seq"), int):
                raise CannotTell(f"{path} holds something else than records")
            found[seq] = str(record.get("hash"))
    except OSError as error:
        raise CannotTell(f"{path} cannot be read: {error.strerror}") from None
    except JsonError:
        raise CannotTell(f"{path} holds something else than records") from None
    return found


def verify(directory: Path, evidence: Evidence | None = None, progress: Callable[[int], None] | None = None) -> Verdict:
    """Check all segments of a directory; ``progress`` hears now and then how many bytes are good.

    Raises:
        CannotTell: no such directory, no whole record in it, a file or a key that cannot be read.
    """
    evidence = evidence or Evidence()
    try:
        # The copy of the checkpoint first: a log that is being written is never behind it.
        anchors = _anchors(directory, evidence)
        segments = list_segments(directory)
        check = _Check(_keys(directory, evidence), anchors, progress)
        for segment in segments:
            check.segment(segment, is_last=segment is segments[-1])
            if check.fault is not None:
                break
        else:
            check.end(segments)
    except OSError as error:
        raise CannotTell(f"{directory} cannot be read: {error.strerror}") from None
    if check.fault is None and not check.records:
        raise CannotTell(f"no audit records in {directory}")
    if check.keys is None and check.checkpoints and check.fault is None:
        raise CannotTell(f"{directory} is signed, but there is no {PUBLIC_FILE} to check it with")
    return Verdict(
        check.records,
        len(segments),
        check.head,
        check.fault,
        check.unfinished,
        check.checkpoints,
        len(check.anchor.leaves),
        () if check.keys is None else check.keys.ids,
        check.first or 1,
        tuple(check.notes),
    )


def _keys(directory: Path, evidence: Evidence) -> PublicKeys | None:
    pem = evidence.keys
    if pem is None:
        path = directory / PUBLIC_FILE
        pem = path.read_bytes() if path.exists() else None
    try:
        return None if pem is None else PublicKeys(pem)
    except SignatureFault as fault:
        raise CannotTell(str(fault)) from None


def _anchors(directory: Path, evidence: Evidence) -> dict[int, str]:
    beside = directory / ANCHOR_FILE
    return {**(read_anchors(beside) if beside.exists() else {}), **evidence.anchors}


class _Check:
    """One pass over a log, up to the first fault."""

    def __init__(
        self, keys: PublicKeys | None, anchors: dict[int, str], progress: Callable[[int], None] | None
    ) -> None:
        self.keys = keys
        self.head: Head | None = None
        self.anchor = Anchor()
        self.first = 0
        self.records = 0
        self.checkpoints = 0
        self.unfinished = 0
        self.fault: Fault | None = None
        self.notes: list[str] = []
        self._anchors = anchors
        self._progress = progress
        self._missing_before: tuple[Fault, str] | None = None
        self._opening = True
        self._good = 0
        self._bytes = 0

    def segment(self, segment: Segment, *, is_last: bool) -> None:
        line = self._good = 0
        self._opening = True
        try:
            for line, (data, ended) in enumerate(read_lines(segment.path), 1):
                if not ended and self._is_unfinished(data, is_last=is_last):
                    self.unfinished = len(data)
                    return
                before = self.head
                record, head = chain.check(data, before)
                if line == 1:
                    self._check_head(record, segment)
                self._check_signatures(record, before or Head(head.chain, head.seq - 1, str(record["prev"])), head)
                self.head = head
                self.records += 1
                self._good = line
                self._bytes += len(data)
                if self._progress is not None and not self.records % _REPORT_EVERY:
                    self._progress(self._bytes)
            if line == 0 and not is_last:
                line = 1
                raise ChainError("empty segment", self._due)
        except ChainError as error:
            self.fault = Fault(segment.path.name, line, self._due, error.reason)
        except SignatureFault as error:
            self.fault = Fault(segment.path.name, line, self._due, str(error))

    def end(self, segments: list[Segment]) -> None:
        """Judge what only the whole log can tell: that nothing is missing before it, or behind it."""
        if self._missing_before is not None:
            self.fault = self._missing_before[0]
        elif self._anchors and (last := max(self._anchors)) >= self._due:
            name = segments[-1].path.name if segments else segment_path(Path(), 1).name
            reason = f"records up to {last} are missing at the end"
            self.fault = Fault(name, self._good + 1, self._due, reason)
        elif self.keys is not None and not self._anchors:
            self.notes.append(f"without {ANCHOR_FILE}, records missing at the end would not be seen")

    @property
    def _due(self) -> int:
        return 1 if self.head is None else self.head.seq + 1

    def _check_head(self, record: Object, segment: Segment) -> None:
        """Check what a segment's first record says of the file, and the first one's of the whole log."""
        part = record.get("segment")
        if record.get("event") != _HEAD or not isinstance(part, dict):
            raise ChainError("no segment head", self._due)
        if part.get("number") != segment.number or part.get("first_seq") != record["seq"]:
            raise ChainError(f"this file was segment {part.get('number')}", self._due)
        if self.head is not None:
            return
        seq = record["seq"]
        self.first = seq if isinstance(seq, int) else 0
        if self.first == 1 and record["prev"] == GENESIS:
            return
        reason = f"the log begins with record {seq}, what was before it is missing"
        if self.keys is None:
            raise ChainError(reason, 1)
        # A tombstone further on may explain it.
        self._missing_before = Fault(segment.path.name, 1, 1, reason), str(record["prev"])
        self.anchor = Anchor(last="")

    def _check_signatures(self, record: Object, before: Head, head: Head) -> None:
        event, expected = record.get("event"), self._anchors.get(head.seq)
        if expected is not None and expected != head.hash:
            raise SignatureFault("another record than the one that was kept elsewhere")
        if self.keys is not None:
            if event == EVENT:
                check_checkpoint(record, self.keys, before, self.anchor)
            elif event == TOMBSTONE:
                self._bury(self.keys.check(record, self.anchor.key))
            if event != EVENT and event != _HEAD and self._opening:
                raise SignatureFault("a segment without a checkpoint at its beginning")
            if len(self.anchor.leaves) > MAX_UNSIGNED:
                raise SignatureFault(f"more than {MAX_UNSIGNED} records without a checkpoint")
        self._opening = self._opening and event == _HEAD
        self.checkpoints += event == EVENT
        self.anchor.passed(record, head.hash)

    def _bury(self, facts: Object) -> None:
        """Accept what a tombstone explains: that everything up to some record was deleted on purpose."""
        last = facts.get("last_seq")
        if self._missing_before is None or not isinstance(last, int):
            return
        if last > self.first - 1 or (last == self.first - 1 and facts.get("last_hash") == self._missing_before[1]):
            self._missing_before = None

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
