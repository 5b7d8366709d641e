"""Calls, records and failing disks for tests of the audit log."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gateway.audit.chain import Head, check
from gateway.audit.journal import Journal, JournalOptions
from gateway.audit.keys import AuditKey
from gateway.audit.log import stamp
from gateway.audit.segment import Disk, list_segments
from gateway.audit.sidecars import Sidecars
from gateway.audit.signing import SigningKeys
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Definition, Kind
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era
from gateway.state.files import secure_directory

KEY = AuditKey.of(b"k" * 32)
STAMP: Object = {"ts": "2026-08-23T10:00:00.123456Z", "mono_us": 8123456789}

PRINCIPAL = Principal(
    "sub:https://as.example/alice@example.org",
    "jwt",
    "example-idp",
    frozenset({"analysts", "admins"}),
    frozenset({"crm.write"}),
    {"iss": "https://as.example", "sub": "alice@example.org"},
    "kid:ab12",
)


def caller(source: str = "203.0.113.77", session: str = "") -> Caller:
    """A client's side of a call."""
    return Caller(Era.MODERN, "2026-07-28", source, session, info={"name": "Example", "version": "1.0"})


def a_call(
    arguments: Object | None = None,
    *,
    method: str = "tools/call",
    principal: Principal = PRINCIPAL,
    name: str = "query",
) -> Call:
    """A call of one tool, as the endpoint builds it."""
    definition = Definition(Kind.TOOL, name, {}, "c0ffee" + "0" * 58)
    return Call(
        "01J5ZKAAAAAAAAAAAAAAAAAAAA",
        7,
        method,
        {"arguments": arguments or {}},
        Target(Kind.TOOL, "warehouse", name, {"readOnlyHint": True, "title": "Query"}),
        principal,
        caller(),
        f"warehouse__{name}",
        definition,
        trace={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    )


def start(call_id: str) -> Object:
    """The smallest start of a call."""
    return {"event": "call.start", "call_id": call_id}


def end(call_id: str) -> Object:
    """The smallest end of a call."""
    return {"event": "call.end", "call_id": call_id, "outcome": {"status": "ok"}}


def notice(number: int) -> Object:
    """A record that belongs to no call."""
    return {"event": "gateway.started", "gateway": {"number": number}}


def journal(directory: Path, *, max_segment: int = 2**26, disk: Disk | None = None) -> Journal:
    """A journal with a clock that stands still."""
    return Journal(JournalOptions(directory, lambda: STAMP, max_segment, "gw1", {}, disk or Disk()))


def write_log(directory: Path, records: int, *, max_segment: int = 2**26) -> None:
    """Write a log of its own with so many records after its first segment head, a few at a time."""
    log = journal(directory, max_segment=max_segment)
    log.open()
    for number in range(records):
        log.write([{**STAMP, **notice(number)}])
    log.sync()
    log.close()


def signed_journal(
    directory: Path, state: Path, *, max_segment: int = 2**26, retention: float | None = None
) -> Journal:
    """A journal that signs with the keys of a state directory, and whose clock is the real one."""
    keys = SigningKeys.load(secure_directory(state))
    sidecars = Sidecars(directory, state)
    options = JournalOptions(
        directory, stamp, max_segment, "gw1", {}, Disk(), keys=keys, sidecars=sidecars, retention=retention
    )
    return Journal(options)


def write_signed_log(directory: Path, state: Path, records: int, *, max_segment: int = 2**26) -> None:
    """Write a signed log, or go on with one, a record at a time."""
    log = signed_journal(directory, state, max_segment=max_segment)
    log.open()
    for number in range(records):
        log.write([{**stamp(), **notice(number)}])
    log.sign()
    log.sync()
    log.close()


def read_log(directory: Path) -> list[Object]:
    """Return every record of a log, each checked to continue the one before."""
    found: list[Object] = []
    head: Head | None = None
    for segment in list_segments(directory):
        for line in segment.path.read_bytes().splitlines():
            record, head = check(line, head)
            found.append(record)
    return found


def events(directory: Path) -> list[Value]:
    """Return the events of a log, in order, without segment heads."""
    return [record["event"] for record in read_log(directory) if record["event"] != "audit.segment"]


class FlakyDisk:
    """A disk that refuses when told to: ``room`` bytes are left, the errors are what it answers."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.sync_error: int | None = None
        self.open_error: int | None = None
        self.syncs = 0

    def disk(self) -> Disk:
        return Disk(self._open, self._write, self._sync)

    def _open(self, path: Path, flags: int, mode: int) -> int:
        if self.open_error is not None:
            raise OSError(self.open_error, os.strerror(self.open_error))
        return os.open(path, flags, mode)

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self.room is None:
            return os.write(descriptor, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(descriptor, memoryview(data)[: self.room])
        self.room -= written
        return written

    def _sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        os.fsync(descriptor)
