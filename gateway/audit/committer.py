"""The thread that writes: takes what is queued, writes it, makes it durable, and wakes who waits. No timers.

While one group is on its way to the disk the next one gathers, so a slow disk makes groups larger, not calls slower
by more than two of its syncs. Decides nothing but what a failure means for the records under way.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from gateway.audit import events, record
from gateway.audit.handover import Entry, Handover, Losses
from gateway.audit.journal import Journal
from gateway.errors import AuditUnavailable, ConfigError
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import frames_of, get_logger

Durability: TypeAlias = Literal["each", "group", "interval"]
Answers: TypeAlias = "list[tuple[Entry, int | AuditUnavailable]]"
MAX_UNSYNCED: Final = 4096
_log = get_logger("audit")

_REASONS: Final = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
    errno.EIO: "io_error",
    errno.EROFS: "not_writable",
    errno.EACCES: "not_writable",
    errno.EPERM: "not_writable",
    errno.ENOENT: "moved",
    errno.ESTALE: "moved",
}


class Meters(Protocol):
    """Hears what happens to the log, from the writing thread and, for a full queue, from the loop. Must not block.

    ``failed`` has one of six reasons: no_space, io_error, not_writable, moved, queue_full, other.
    """

    def recorded(self, event: str) -> None:
        """A record was written."""

    def failed(self, reason: str) -> None:
        """A write, or an attempt to go on after one, failed."""

    def synced(self, seconds: float) -> None:
        """A group became durable within this time."""

    def lag(self, records: int) -> None:
        """So many records are queued or not yet durable."""

    def dropped(self, records: int) -> None:
        """So many records are lost."""

    def signed(self, at: float) -> None:
        """The last checkpoint was made at this time, in wall-clock seconds."""


class NoMeters:
    """Looks away."""

    def recorded(self, event: str) -> None:
        """Ignore it."""

    def failed(self, reason: str) -> None:
        """Ignore it."""

    def synced(self, seconds: float) -> None:
        """Ignore it."""

    def lag(self, records: int) -> None:
        """Ignore it."""

    def dropped(self, records: int) -> None:
        """Ignore it."""

    def signed(self, at: float) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """When records are durable, and what becomes of those that cannot be. Times are seconds."""

    durability: Durability = "group"
    closed: bool = True
    sync_interval: float = 1.0
    probe_interval: float = 1.0


class Committer:
    """Drives a journal from a handover until the handover is closed and empty.

    ``answer`` takes entries with their number or the error to raise; it is called from this thread.
    """

    def __init__(
        self,
        journal: Journal,
        handover: Handover,
        policy: CommitPolicy,
        meters: Meters,
        answer: Callable[[Answers], None],
    ) -> None:
        self._journal = journal
        self._handover = handover
        self._policy = policy
        self._meters = meters
        self._answer = answer
        self._unsynced: list[Entry] = []
        self._taken: list[Entry] = []
        self._unsynced_since = 0.0
        self._retained: list[Object] = []
        self._losses = Losses()
        self._next_probe = 0.0
        self._signed_at = 0.0
        self.healthy = True

    def run(self) -> None:
        """Commit until the end, then leave everything durable and the files closed."""
        try:
            while not self._handover.is_done:
                self.step()
            self._finish()
        except Exception as error:  # noqa: BLE001 - the thread's root: a fault here must refuse calls, not hang them.
            self.healthy = False
            _log.error("audit_thread_crashed", error=type(error).__name__, frames=frames_of(error))
            self._abandon()
        finally:
            self._journal.close()

    def step(self) -> None:
        """Wait for work and do it once."""
        entries, lost = self._handover.take(self._patience())
        self._taken = entries
        self._losses.merge(lost)
        if not self._journal.healthy:
            if not self._restore():
                self._lose(entries)
                return
        elif self._losses and not self._write_gap():
            self._lose(entries)
            return
        if entries:
            self._write(self._admit(entries))
        if self._journal.healthy:
            self._tend()
        if self._unsynced and self._is_due():
            self._sync()
        self._meters.lag(len(self._handover) + len(self._unsynced))

    def _patience(self) -> float | None:
        now = time.monotonic()
        if not self._journal.healthy:
            return max(self._next_probe - now, 0.0)
        tended = self._journal.tended_in(now)
        if self._unsynced:
            synced = max(self._unsynced_since + self._policy.sync_interval - now, 0.0)
            return synced if tended is None else min(synced, tended)
        return tended

    def _tend(self) -> None:
        """Let the journal do what is due by the clock; a checkpoint is durable at once."""
        now = time.monotonic()
        if self._journal.tended_in(now) == 0:
            try:
                self._journal.tend(now)
            except OSError as error:
                self._broke(error, [])
                return
            self._sync()
        if self._journal.checkpoint_at != self._signed_at:
            self._signed_at = self._journal.checkpoint_at
            self._meters.signed(self._signed_at)

    def _is_due(self) -> bool:
        if self._policy.durability != "interval" or len(self._unsynced) >= MAX_UNSYNCED:
            return True
        return time.monotonic() - self._unsynced_since >= self._policy.sync_interval

    def _admit(self, entries: list[Entry]) -> list[Entry]:
        """Keep the set of open calls bounded."""
        if self._journal.has_room:
            return entries
        self._lose([entry for entry in entries if entry.event == "call.start"])
        return [entry for entry in entries if entry.event != "call.start"]

    def _write(self, entries: list[Entry]) -> None:
        try:
            seqs = self._journal.write([entry.record for entry in entries], self._handover.beside())
        except OSError as error:
            self._broke(error, entries)
            return
        if not self._unsynced:
            self._unsynced_since = time.monotonic()
        for entry, seq in zip(entries, seqs, strict=True):
            entry.seq = seq
            self._meters.recorded(entry.event)
        self._unsynced += entries
        self._answer([(entry, entry.seq) for entry in entries if not entry.durable])

    def _sync(self) -> None:
        started = time.monotonic()
        try:
            self._journal.sync()
        except OSError as error:
            self._broke(error, [])
            return
        self._meters.synced(time.monotonic() - started)
        self._answer([(entry, entry.seq) for entry in self._unsynced if entry.durable])
        self._unsynced.clear()

    def _broke(self, error: OSError, failed: Sequence[Entry]) -> None:
        """Sort the records under way: durable after all, acknowledged and so to be written again, or lost."""
        self.healthy = False
        self._next_probe = 0.0
        reason = reason_of(error)
        self._meters.failed(reason)
        _log.error("audit_unavailable", reason=reason, errno=error.errno)
        saved = [entry for entry in self._unsynced if entry.seq <= self._journal.durable_seq]
        unsaved = [entry for entry in self._unsynced if entry.seq > self._journal.durable_seq]
        self._unsynced.clear()
        self._retained += [entry.record for entry in unsaved if not entry.durable]
        self._answer([(entry, entry.seq) for entry in saved if entry.durable])
        self._lose([*(entry for entry in unsaved if entry.durable), *failed])

    def _restore(self) -> bool:
        """Try to go on, at most once per probe interval: first what was lost, then what was acknowledged."""
        if time.monotonic() < self._next_probe:
            return False
        first = [*self._gap(), *self._retained, *self._lost_ends()]
        try:
            self._journal.restore(first)
        except (OSError, ConfigError) as error:
            self._next_probe = time.monotonic() + self._policy.probe_interval
            self._meters.failed(reason_of(error))
            return False
        for item in first:
            self._meters.recorded(str(item["event"]))
        _log.info("audit_restored", lost=sum(self._losses.events.values()), kept=len(self._retained))
        self._retained.clear()
        self._losses = Losses()
        self.healthy = True
        return True

    def _write_gap(self) -> bool:
        """Account for records that were refused while the disk was merely slow."""
        stated = [Entry(item, durable=False) for item in (*self._gap(), *self._lost_ends())]
        losses, self._losses = self._losses, Losses()
        self._write(stated)
        if self._journal.healthy:
            return True
        self._losses.merge(losses)
        return False

    def _gap(self) -> list[Object]:
        return [events.gap(self._losses.events)] if self._losses else []

    def _lost_ends(self) -> Iterable[Object]:
        """Close the calls whose end is among the losses; those without a start in the log are no calls of it."""
        started = {item.get("call_id") for item in self._retained if item.get("event") == "call.start"}
        for call_id in sorted(self._losses.ends):
            if call_id in started or self._journal.is_open(call_id):
                yield record.call_orphaned(call_id, "gap")

    def _lose(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        for entry in entries:
            self._losses.add(entry.record)
        self._meters.dropped(len(entries))
        self._answer([(entry, self.refusal()) for entry in entries])

    def refusal(self) -> int | AuditUnavailable:
        """Return what stands for a record that was not written: an error, or 0 where calls go on without."""
        return AuditUnavailable("the audit log cannot take records") if self._policy.closed else 0

    def _finish(self) -> None:
        if not self._journal.healthy and (self._losses or self._retained):
            self._next_probe = 0.0
            self._restore()
        elif self._losses:
            self._write_gap()
        if self._journal.healthy:
            try:
                self._journal.sign()
            except OSError as error:
                self._broke(error, [])
                return
            self._sync()

    def _abandon(self) -> None:
        """Answer everybody who waits, now and until the handover is closed."""
        written = {id(entry) for entry in self._unsynced}
        self._lose([*self._unsynced, *(entry for entry in self._taken if id(entry) not in written)])
        while not self._handover.is_done:
            self._lose(self._handover.take(self._policy.probe_interval)[0])


def reason_of(error: OSError | ConfigError) -> str:
    """Return the constant for a failure, for logs and metrics."""
    return _REASONS.get(error.errno or 0, "other") if isinstance(error, OSError) else "other"
