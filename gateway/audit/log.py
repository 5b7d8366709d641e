"""The audit log as calls see it: hand a record over, wait until it counts.

All blocking work is done by one thread of its own (``committer``), so that a slow or dead disk never stops the event
loop. Knows no policy and no transport.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal

from gateway.audit import events, record
from gateway.audit.committer import Answers, CommitPolicy, Committer, Durability, Meters, NoMeters
from gateway.audit.handover import Entry, Handover
from gateway.audit.journal import DEFAULT_AGE, DEFAULT_SEGMENT, Journal, JournalOptions
from gateway.audit.segment import Disk
from gateway.audit.sidecars import Sidecar, Sidecars
from gateway.audit.signing import SigningKeys
from gateway.config.root import Audit
from gateway.errors import AuditUnavailable, ConfigError
from gateway.protocol.rawjson import Object

DEFAULT_QUEUE: Final = 4096
CLOSE_TIMEOUT: Final = 10.0


def stamp() -> Object:
    """Return the time members of a record: wall clock, and a clock that never steps, in microseconds."""
    now = datetime.now(UTC)
    return {"ts": f"{now.isoformat(timespec='microseconds')[:-6]}Z", "mono_us": time.monotonic_ns() // 1000}


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How a log behaves; times are seconds, ``max_segment`` bytes, ``queue`` records.

    ``facts`` stand in the head of every segment, such as the digest of the config.
    """

    directory: Path
    durability: Durability = "group"
    on_failure: Literal["closed", "open"] = "closed"
    max_segment: int = DEFAULT_SEGMENT
    queue: int = DEFAULT_QUEUE
    chain_name: str = "gw"
    facts: Object = field(default_factory=dict)
    probe_interval: float = 1.0
    sync_interval: float = 1.0
    meters: Meters = field(default_factory=NoMeters)
    disk: Disk = field(default_factory=Disk)
    stamp: Callable[[], Object] = stamp
    keys: SigningKeys | None = None
    sidecars: Sidecars | None = None
    max_age: float = DEFAULT_AGE
    retention: float | None = None

    @classmethod
    def from_config(cls, section: Audit, state_dir: Path, facts: Object, meters: Meters) -> AuditOptions:
        """Read the config's ``audit`` section.

        Raises:
            ConfigError: the keys in ``state_dir`` cannot be used.
        """
        durability: Durability = "each" if section.durability == "each" else "group"
        if section.durability.startswith("interval"):
            durability = "interval"
        directory = Path(section.dir)
        return cls(
            directory,
            durability,
            section.on_failure,
            facts=facts,
            meters=meters,
            keys=SigningKeys.load(state_dir),
            sidecars=Sidecars(directory, state_dir),
            max_age=min(DEFAULT_AGE, max(section.retention / 10, 1.0)),
            retention=section.retention,
        )


class AuditLog:
    """The one writer of one directory. Open it before use, close it at the end; both from the same event loop."""

    def __init__(self, options: AuditOptions) -> None:
        self._options = options
        self._handover = Handover(options.queue)
        self._journal = Journal(
            JournalOptions(
                options.directory,
                options.stamp,
                options.max_segment,
                options.chain_name,
                options.facts,
                options.disk,
                options.keys,
                options.sidecars,
                options.max_age,
                options.retention,
            )
        )
        policy = CommitPolicy(
            options.durability, options.on_failure == "closed", options.sync_interval, options.probe_interval
        )
        self._committer = Committer(self._journal, self._handover, policy, options.meters, self._answer)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    @property
    def healthy(self) -> bool:
        """Whether records can be written, as far as the last attempt told."""
        return self._committer.healthy and self._thread is not None

    @property
    def durable_seq(self) -> int:
        """The number of the last record that the disk has confirmed."""
        return self._journal.durable_seq

    def keep(self, sidecar: Sidecar) -> bool:
        """Keep a payload beside the chain, for a record that is written after this; False where there is no room."""
        return self._handover.keep(sidecar)

    async def open(self) -> None:
        """Take the directory, close what a crash left open, and begin a segment.

        Raises:
            ConfigError: another process writes there, a segment is damaged, or the directory cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[ConfigError | None] = self._loop.create_future()
        # A daemon, so that a disk that never answers cannot keep the process from ending.
        self._thread = threading.Thread(target=self._run, args=(self._loop, opened), name="audit", daemon=True)
        self._thread.start()
        problem = await opened
        if problem is not None:
            self._thread.join()
            self._thread = None
            raise problem

    async def append(self, entry: Object, *, durable: bool) -> int:
        """Write a record and return its number; 0 for one that is lost with ``on_failure: open``.

        ``durable`` waits for the disk to confirm it, else for it to be written. ``durability: each`` always waits for
        the disk, ``interval`` never. A caller that is cancelled stops waiting; its record is written all the same.

        Raises:
            AuditUnavailable: it cannot be written, or not be made durable, and ``on_failure`` is ``closed``.
            ValueError: an event that is not in the catalogue.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if not self._put(entry, durable=durable, future=future):
            return self._refuse()
        return await future

    def note(self, entry: Object) -> None:
        """Write a record nobody waits for, such as a server's exit; a loss is counted like any other.

        Raises:
            ValueError: an event that is not in the catalogue.
        """
        self._put(entry, durable=False, future=None)

    async def aclose(self) -> None:
        """Write what is queued, make it durable and let go of the directory; gives a dead disk 10 seconds."""
        thread, self._thread = self._thread, None
        self._handover.close()
        if thread is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._ended.wait()
                thread.join(1.0)

    def _put(self, entry: Object, *, durable: bool, future: asyncio.Future[int] | None) -> bool:
        if not events.is_known(str(entry.get("event"))):
            raise ValueError(f"unknown audit event {entry.get('event')!r}")
        match self._options.durability:
            case "each":
                durable = True
            case "interval":
                durable = False
            case "group":
                pass
        kept = record.bounded({**self._options.stamp(), **entry})
        if self._thread is not None and self._handover.put(Entry(kept, durable, future)):
            return True
        self._options.meters.failed("queue_full")
        self._options.meters.dropped(1)
        return False

    def _refuse(self) -> int:
        refusal = self._committer.refusal()
        if isinstance(refusal, AuditUnavailable):
            raise refusal
        return refusal

    def _run(self, loop: asyncio.AbstractEventLoop, opened: asyncio.Future[ConfigError | None]) -> None:
        """Open, report, commit until closed: everything that blocks."""
        try:
            self._journal.open()
        except ConfigError as problem:
            _tell(loop, partial(_set_opened, opened, problem))
            return
        _tell(loop, partial(_set_opened, opened, None))
        self._committer.run()
        _tell(loop, self._ended.set)

    def _answer(self, answers: Answers) -> None:
        if answers and self._loop is not None:
            _tell(self._loop, partial(_settle, answers))


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    # Nobody waits any more when the loop is closed.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


def _settle(answers: Answers) -> None:
    for entry, answer in answers:
        if entry.future is None or entry.future.done():
            continue
        if isinstance(answer, AuditUnavailable):
            entry.future.set_exception(answer)
        else:
            entry.future.set_result(answer)


def _set_opened(opened: asyncio.Future[ConfigError | None], problem: ConfigError | None) -> None:
    if not opened.done():
        opened.set_result(problem)
