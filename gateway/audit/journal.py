"""The log on disk, as its one writer sees it: chain, open calls and current segment move together or not at all.

Blocking and without threads; ``committer`` drives it. After any failure the segment is closed and never written again,
and the chain goes on in a new one from the last record that the disk has confirmed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.audit import chain, events, record
from gateway.audit.chain import Head
from gateway.audit.lock import DirectoryLock
from gateway.audit.orphans import MAX_OPEN, OpenCalls
from gateway.audit.recovery import Found, recover
from gateway.audit.segment import Disk, Identity, SegmentFile, cut, list_segments, segment_path
from gateway.errors import ConfigError, Problem
from gateway.model.call import new_call_id
from gateway.protocol.rawjson import Object
from gateway.state.files import secure_directory
from gateway.telemetry.logs import get_logger

_log = get_logger("audit")
DEFAULT_SEGMENT: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """``stamp`` returns the time members of a record; ``facts`` go into every segment's head."""

    directory: Path
    stamp: Callable[[], Object]
    max_segment: int = DEFAULT_SEGMENT
    chain_name: str = "gw"
    facts: Object = field(default_factory=dict)
    disk: Disk = field(default_factory=Disk)


@dataclass(frozen=True, slots=True)
class _Leftover:
    """A segment that failed: what it may keep, should it still be there."""

    path: Path
    identity: Identity
    size: int


class Journal:
    """Appends records to the chain. ``healthy`` is False from a failure until ``restore`` has succeeded."""

    def __init__(self, options: JournalOptions) -> None:
        self._options = options
        self._lock = DirectoryLock(options.directory)
        self._head = Head("")
        self._durable = self._head
        self._calls = OpenCalls()
        self._number = 0
        self._segment: SegmentFile | None = None
        self._leftover: _Leftover | None = None
        self._stillborn: Path | None = None

    @property
    def healthy(self) -> bool:
        return self._segment is not None

    @property
    def durable_seq(self) -> int:
        """The number of the last record that the disk has confirmed."""
        return self._durable.seq

    @property
    def has_room(self) -> bool:
        """Whether one more call may begin."""
        return len(self._calls) < MAX_OPEN

    def is_open(self, call_id: str) -> bool:
        """Tell whether a call has a start and no end in the log."""
        return call_id in self._calls

    def open(self) -> None:
        """Take the directory, put it in order, begin a segment, and close what a crash left open.

        Raises:
            ConfigError: another writer has it, it is damaged, or it cannot be used.
        """
        directory = self._options.directory
        secure_directory(directory)
        try:
            self._lock.hold()
            found = recover(directory)
            self._head = found.head or Head(f"{self._options.chain_name}-{new_call_id()}")
            self._durable, self._number, self._calls = self._head, found.number, found.open
            self._begin("start", _opening(found))
        except (OSError, ConfigError) as error:
            self._lock.release()
            if isinstance(error, ConfigError):
                raise
            problem = Problem(f"audit log cannot be written: {error.strerror}", file=str(directory))
            raise ConfigError([problem]) from None

    def write(self, records: Sequence[Object]) -> list[int]:
        """Append records and return their numbers; they are written, and durable after the next ``sync``.

        Raises:
            OSError: none of them counts as written.
        """
        segment = self._current()
        try:
            segment.check()
            if segment.size >= self._options.max_segment:
                segment = self._rotate(segment)
        except OSError:
            self._fail()
            raise
        head, mark = self._head, self._calls.mark()
        data, seqs = self._encode(records)
        try:
            segment.append(data)
        except OSError:
            self._head = head
            self._calls.revert(mark)
            self._settle(segment)
            raise
        return seqs

    def sync(self) -> None:
        """Make everything written durable.

        Raises:
            OSError: nothing since the last successful ``sync`` counts.
        """
        segment = self._current()
        try:
            segment.sync()
        except OSError:
            self._fail()
            raise
        self._confirm()

    def restore(self, records: Sequence[Object]) -> None:
        """Go on in a new segment after a failure, with ``records`` first, all of it durable.

        Raises:
            OSError: the disk still refuses.
            ConfigError: another process took the directory meanwhile.
        """
        self._lock.hold()
        if self._stillborn is not None:
            self._stillborn.unlink(missing_ok=True)
        self._stillborn = None
        removed = 0
        if self._leftover is not None:
            removed = cut(self._leftover.path, self._leftover.identity, self._leftover.size)
        existing = list_segments(self._options.directory)
        self._number = max([self._number, *(segment.number for segment in existing)])
        self._begin("failure", records, removed)
        self._leftover = None

    def close(self) -> None:
        """Let go of files and lock; never raises. What was not synced may be lost."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        self._lock.release()

    def _current(self) -> SegmentFile:
        if self._segment is None:
            raise OSError(errno.ESTALE, "the log waits for its disk")
        return self._segment

    def _rotate(self, full: SegmentFile) -> SegmentFile:
        full.sync()
        self._confirm()
        self._begin("size", [])
        full.close()
        return self._current()

    def _begin(self, reason: str, records: Sequence[Object], removed: int = 0) -> None:
        """Start the next segment; until it is durable, head and file with ``records`` are as if they never were."""
        number = self._number + 1
        segment = SegmentFile.create(segment_path(self._options.directory, number), self._options.disk)
        stamp = self._options.stamp()
        head = [{**stamp, **item} for item in self._segment_head(number, reason, removed)]
        data, _ = self._encode([*head, *({**stamp, **item} for item in records)])
        try:
            segment.append(data)
            segment.sync()
            segment.publish()
        except OSError:
            segment.close()
            self._revert()
            self._discard(segment.path)
            raise
        self._segment, self._number = segment, number
        self._confirm()

    def _discard(self, path: Path) -> None:
        """Remove a file that never became a segment, now or before the next one is begun."""
        try:
            path.unlink(missing_ok=True)
        except OSError:
            self._stillborn = path

    def _segment_head(self, number: int, reason: str, removed: int) -> list[Object]:
        parts = self._calls.parts()
        facts: Object = {**self._options.facts, "number": number, "reason": reason, "first_seq": self._head.seq + 1}
        if removed:
            facts["removed_bytes"] = removed
        return [
            {"event": "audit.segment", "segment": {**facts, "part": index, "parts": len(parts), "open": part}}
            for index, part in enumerate(parts, 1)
        ]

    def _encode(self, records: Sequence[Object]) -> tuple[bytes, list[int]]:
        lines: list[bytes] = []
        seqs: list[int] = []
        for item in records:
            start = self._calls.start_of(item)
            placed = item if start is None else {**item, "parent_seq": start}
            line, self._head = chain.seal(placed, self._head)
            self._calls.apply(item, self._head.seq)
            lines.append(line)
            seqs.append(self._head.seq)
        return b"".join(lines), seqs

    def _settle(self, segment: SegmentFile) -> None:
        """After a failed write, try to save what earlier writes left in the file; then give the segment up."""
        try:
            segment.settle()
            self._confirm()
        except OSError as error:
            _log.warning("audit_segment_lost", reason=error.strerror)
        self._fail()

    def _confirm(self) -> None:
        self._durable = self._head
        self._calls.keep()

    def _revert(self) -> None:
        self._head = self._durable
        self._calls.revert()

    def _fail(self) -> None:
        segment = self._segment
        if segment is not None:
            self._leftover = _Leftover(segment.path, segment.identity, segment.durable)
            segment.close()
            self._segment = None
        self._revert()


def _opening(found: Found) -> list[Object]:
    """Write down what a new run found: what was torn off, and each call that the last run left open."""
    opening: list[Object] = []
    if found.is_recovered:
        facts: Object = {"torn_bytes": found.torn, "aside": ", ".join(found.aside), "completed": found.completed}
        opening.append(events.gateway_event("audit.recovered", facts))
    return opening + [record.call_orphaned(call_id, "crash") for call_id in found.open.ids]
