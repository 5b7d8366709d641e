"""The log on disk, as its one writer sees it: chain, open calls, signatures and segment move together or not at all.

Blocking and without threads; ``committer`` drives it. After any failure the segment is closed and never written again,
and the chain goes on in a new one from the last record that the disk has confirmed.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.audit import chain, events, record
from gateway.audit.chain import Head
from gateway.audit.lock import DirectoryLock
from gateway.audit.orphans import MAX_OPEN, OpenCalls
from gateway.audit.recovery import Found, recover
from gateway.audit.retention import Expiry, remove
from gateway.audit.segment import Disk, Identity, SegmentFile, cut, list_segments, segment_path
from gateway.audit.sidecars import Sidecar, Sidecars
from gateway.audit.signing import Signing, SigningKeys
from gateway.errors import ConfigError, Problem
from gateway.model.call import new_call_id
from gateway.protocol.rawjson import Object
from gateway.state.files import secure_directory
from gateway.telemetry.logs import get_logger

_log = get_logger("audit")
DEFAULT_SEGMENT: Final = 64 * 2**20
DEFAULT_AGE: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """``stamp`` returns the time members of a record; ``facts`` go into every segment's head.

    ``max_age`` is seconds until a new segment begins, ``retention`` seconds for which closed ones are kept (None: for
    ever). Without ``keys`` nothing is signed, and so nothing is deleted.
    """

    directory: Path
    stamp: Callable[[], Object]
    max_segment: int = DEFAULT_SEGMENT
    chain_name: str = "gw"
    facts: Object = field(default_factory=dict)
    disk: Disk = field(default_factory=Disk)
    keys: SigningKeys | None = None
    sidecars: Sidecars | None = None
    max_age: float = DEFAULT_AGE
    retention: float | None = None


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
        self._signing = Signing(options.keys)
        self._number = 0
        self._begun_at = 0.0
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
    def checkpoint_at(self) -> float:
        """Wall-clock seconds of the last checkpoint, 0 without one."""
        return self._signing.last_at

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
            self._signing.begin(found.anchor, directory)
            self._begin("start", _opening(found))
            self._signing.settle(directory)
        except (OSError, ConfigError) as error:
            self._lock.release()
            if isinstance(error, ConfigError):
                raise
            problem = Problem(f"audit log cannot be written: {error.strerror}", file=str(directory))
            raise ConfigError([problem]) from None

    def write(self, records: Sequence[Object], sidecars: Sequence[Sidecar] = ()) -> list[int]:
        """Append records and return their numbers; they are written, and durable after the next ``sync``.

        ``sidecars`` are what some of them refer to.

        Raises:
            OSError: none of them counts as written.
        """
        segment = self._current()
        try:
            segment.check()
            if sidecars and self._options.sidecars is not None:
                self._options.sidecars.write(sidecars)
            if segment.size >= self._options.max_segment:
                segment = self._rotate(segment, "size")
        except OSError:
            self._fail()
            raise
        head, mark, signed = self._head, self._calls.mark(), self._signing.anchor.mark()
        data, seqs = self._encode(records)
        try:
            segment.append(data)
        except OSError:
            self._head = head
            self._calls.revert(mark)
            self._signing.revert(signed)
            self._settle(segment)
            raise
        return seqs

    def tended_in(self, now: float) -> float | None:
        """Return seconds until ``tend`` has something to do, None where nothing waits for it; ``now`` is monotonic."""
        waits = [self._signing.wait(now)]
        if self._options.keys is not None and self._segment is not None:
            waits.append(max(self._begun_at + self._options.max_age - now, 0.0))
        return min((wait for wait in waits if wait is not None), default=None)

    def tend(self, now: float) -> None:
        """Sign what waits for it, begin a new segment where this one is old, delete what is older than the limit.

        Raises:
            OSError: as for ``write`` and ``sync``.
        """
        segment = self._current()
        if self._signing.wait(now) == 0:
            self.sign()
        if self._options.keys is not None and now - self._begun_at >= self._options.max_age:
            try:
                self._rotate(segment, "age")
            except OSError:
                self._fail()
                raise

    def sign(self) -> None:
        """Write a checkpoint, unless nothing was written since the last one.

        Raises:
            OSError: as for ``write``.
        """
        if self._signing.anchor.leaves:
            self.write(self._signing.checkpoint(self._head, self._options.stamp()))

    def sync(self) -> None:
        """Make everything written durable.

        Raises:
            OSError: nothing since the last successful ``sync`` counts.
        """
        segment = self._current()
        try:
            if self._options.sidecars is not None:
                self._options.sidecars.sync()
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

    def _rotate(self, full: SegmentFile, reason: str) -> SegmentFile:
        full.append(self._closing())
        full.sync()
        self._confirm()
        self._begin(reason, [])
        full.close()
        return self._current()

    def _closing(self) -> bytes:
        """Return the checkpoint that ends a segment, nothing where the last record is one."""
        if not self._signing.anchor.leaves:
            return b""
        return self._encode(self._signing.checkpoint(self._head, self._options.stamp()))[0]

    def _expiry(self) -> Expiry | None:
        """Find what is older than the limit."""
        retention = self._options.retention
        if retention is None or self._options.keys is None:
            return None
        return Expiry.find(self._options.directory, time.time() - retention)

    def _buried(self, expiry: Expiry | None, stamp: Object) -> list[Object]:
        """Return the signed tombstone of what is about to be deleted."""
        if expiry is None:
            return []
        tombstone = self._signing.sign("audit.tombstone", expiry.facts(), self._head.chain, stamp)
        return [] if tombstone is None else [tombstone]

    def _begin(self, reason: str, records: Sequence[Object], removed: int = 0) -> None:
        """Start the next segment; until it is durable, head and file with ``records`` are as if they never were."""
        number = self._number + 1
        segment = SegmentFile.create(segment_path(self._options.directory, number), self._options.disk)
        stamp = self._options.stamp()
        expiry = self._expiry()
        head = [{**stamp, **item} for item in self._segment_head(number, reason, removed)]
        data, _ = self._encode(head)
        data += self._encode(self._signing.checkpoint(self._head, stamp))[0]
        data += self._encode([*self._buried(expiry, stamp), *({**stamp, **item} for item in records)])[0]
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
        self._begun_at = time.monotonic()
        self._confirm()
        if expiry is not None:
            remove(expiry, self._options.sidecars)

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
            lines.append(self._seal(item if start is None else {**item, "parent_seq": start}))
            self._calls.apply(item, self._head.seq)
            seqs.append(self._head.seq)
            if self._signing.is_full and item.get("event") != "audit.segment":
                lines += map(self._seal, self._signing.checkpoint(self._head, self._options.stamp()))
        return b"".join(lines), seqs

    def _seal(self, item: Object) -> bytes:
        line, self._head = chain.seal(item, self._head)
        self._signing.passed(item, line, self._head)
        return line

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
        self._signing.keep(self._options.directory)

    def _revert(self) -> None:
        self._head = self._durable
        self._calls.revert()
        self._signing.revert()

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
