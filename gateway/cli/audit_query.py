"""``audit query`` and ``audit export``: records picked out of the log, for people, programs and other systems."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway.audit.export import WRITERS
from gateway.audit.keys import AuditKey
from gateway.audit.query import Wanted, as_record, joined, moment, spellings
from gateway.audit.segment import list_segments
from gateway.audit.tail import Tail
from gateway.cli.audit_lines import describe, wait
from gateway.cli.output import Exit, wants_json
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.state.files import PRIVATE_FILE

_POLL_SECONDS: Final = 0.5
_MEGABYTE: Final = 2**20


def wanted_by(args: argparse.Namespace, key: AuditKey | None) -> Wanted:
    """Read the filters of a command line. With the log's key a subject is found by its name.

    Raises:
        ValueError: a time that cannot be read.
    """
    return Wanted(
        spellings(args.principal or "", key),
        args.server,
        args.tool,
        args.event,
        args.outcome,
        args.call,
        moment(args.since or "", datetime.now(UTC)),
        moment(args.until or "", datetime.now(UTC)),
    )


def query(args: argparse.Namespace, directories: Sequence[Path], wanted: Wanted) -> int:
    """Run ``audit query``."""
    show = (lambda record: rawjson.encode(record).decode()) if wants_json(args) else describe
    tails = [Tail(directory) for directory in directories]
    if args.follow:
        for tail in tails:
            tail.last(0)
    progress, found = Progress.over(directories), 0
    for record in _last(joined(directories, wanted, progress.read), args.limit):
        progress.clear()
        print(show(record))
        found += 1
    progress.clear()
    if not args.follow:
        return Exit.FINE if found else Exit.FINDING
    return _follow(tails, wanted, show)


def _follow(tails: Sequence[Tail], wanted: Wanted, show: Callable[[Object], str]) -> int:
    try:
        while True:
            sys.stdout.flush()
            wait(_POLL_SECONDS)
            for line in (line for tail in tails for line in tail.more()):
                record = as_record(line)
                if record is not None and wanted.matches(record):
                    print(show(record))
    except KeyboardInterrupt:
        return Exit.FINE


def export(args: argparse.Namespace, directories: Sequence[Path], wanted: Wanted) -> int:
    """Run ``audit export``."""
    write = WRITERS[args.format]
    progress = Progress.over(directories)
    records = _last(joined(directories, wanted, progress.read), args.limit)
    lines = map(write, records)
    written = _print(lines) if args.output is None else _write(args.output, lines)
    progress.end(written)
    return Exit.FINE


def _write(path: Path, lines: Iterable[str]) -> int:
    """Write a new file; one that did not become whole, for whatever reason, does not stay to be taken for it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    whole = False
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            written = sum(1 for line in lines if file.write(line + "\n"))
        whole = True
    finally:
        if not whole:
            path.unlink(missing_ok=True)
    return written


def _print(lines: Iterable[str]) -> int:
    written = 0
    for line in lines:
        print(line)
        written += 1
    return written


@dataclass(slots=True)
class Progress:
    """Tells a person at a terminal how far it is; says nothing to a pipe."""

    total: int
    shown: bool
    last: int = 0

    @classmethod
    def of(cls, total: int) -> Progress:
        """Expect so many bytes."""
        return cls(total, sys.stderr.isatty() and total > _MEGABYTE)

    @classmethod
    def over(cls, directories: Sequence[Path]) -> Progress:
        """Expect to read these logs."""
        segments = [segment for directory in directories for segment in list_segments(directory)]
        return cls.of(sum(segment.path.stat().st_size for segment in segments))

    def read(self, done: int) -> None:
        """So many bytes were read."""
        if self.shown and done - self.last >= _MEGABYTE:
            self.last = done
            print(f"\r{min(done * 100 // self.total, 100):3d} %", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take back what was shown."""
        if self.last:
            print("\r     \r", end="", file=sys.stderr, flush=True)

    def end(self, written: int) -> None:
        """It is done: so many records were written."""
        if self.shown:
            print(f"\r{written} records", file=sys.stderr)


def _last(records: Iterator[Object], limit: int | None) -> Iterable[Object]:
    return records if limit is None else deque(records, maxlen=limit)
