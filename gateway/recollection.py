"""Reads from the audit log what the dashboard's charts would still show if the gateway had not been started anew.

Bounded in bytes and seconds, backwards from the end, in a thread: the last hours are there first, and nobody waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gateway.audit.pages import chunks
from gateway.audit.query import as_record
from gateway.audit.segment import list_segments
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.logs import get_logger
from gateway.traffic import NO_SUCH, Ended, Past, TrafficLog, tool_named

_ENDS: Final = (b'"call.end"', b'"call.denied"')
_EVENTS: Final = frozenset({"call.end", "call.denied"})
_LONGEST: Final = 128
_MOST: Final = 1_000_000
"""Calls that one record may stand for."""
_log = get_logger("traffic")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far it reads: bytes in all, seconds, and bytes at a time."""

    size: int = 128 * 2**20
    seconds: float = 5.0
    block: int = 2**18


async def recollect(traffic: TrafficLog, directory: Path, start: datetime) -> None:
    """Have the counts of the last hours before ``start`` remembered; those since are counted already."""
    past = Past(traffic.now())
    try:
        read = await asyncio.to_thread(gather, past, directory, start)
    except OSError as error:
        _log.warning("traffic_not_recollected", error=type(error).__name__)
        return
    traffic.remember(past)
    _log.info("traffic_recollected", calls=read)


def gather(
    past: Past,
    directory: Path,
    start: datetime,
    reach: Reach | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Count the calls that ended in the log before ``start``; returns how many. Lines that are none are passed over.

    Raises:
        OSError: the directory cannot be read.
    """
    reach = reach or Reach()
    deadline, looked, found = clock() + reach.seconds, 0, 0
    for chunk in chunks(list_segments(directory), None, reach.block):
        looked += len(chunk.data)
        for record in _ends(chunk.data):
            age = _age(record, start)
            ended = _ended(record)
            if ended is not None and 0 <= age <= past.longest:
                past.add(ended, age)
                found += ended.count
        if _age({"ts": chunk.since}, start) > past.longest or looked >= reach.size or clock() >= deadline:
            break
    return found


def _ends(data: bytes) -> Iterator[Object]:
    for line in data.split(b"\n"):
        if any(needle in line for needle in _ENDS) and (record := as_record(line)) is not None:
            yield record


def _age(record: Object, start: datetime) -> float:
    """Return how many seconds before the start it was written; less than nothing where that cannot be told."""
    try:
        return (start - datetime.fromisoformat(str(record.get("ts")))).total_seconds()
    except (ValueError, TypeError):
        return -1.0


def _ended(record: Object) -> Ended | None:
    """Read who called what and how it ended; None for a record that does not say so."""
    tool, outcome, principal, mcp = (_part(record, key) for key in ("tool", "outcome", "principal", "mcp"))
    client, server, label = _text(principal, "client"), _text(record, "server"), _text(outcome, "status")
    if record.get("event") not in _EVENTS or not client or not label:
        return None
    count, taken = record.get("count", 1), outcome.get("dur_us", 0)
    if not isinstance(count, int) or not isinstance(taken, int) or not 0 < count <= _MOST or taken < 0:
        return None
    if outcome.get("error_type") == "unknown_name":
        return Ended(client, server or NO_SUCH, NO_SUCH, label, count=count)
    listed = tool.get("def_sha256") is not None
    named = tool_named(server, _text(tool, "name") if listed else None, _text(mcp, "method"))
    return Ended(client, server, named, label, taken / 1_000_000, count)


def _part(record: Object, key: str) -> Object:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _text(record: Object, key: str) -> str:
    value: Value = record.get(key)
    return value[:_LONGEST] if isinstance(value, str) else ""
