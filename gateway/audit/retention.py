"""Deletes what is older than the limit: whole closed segments, oldest first, after a signed tombstone of them (S167).

The tombstone says where the rest of the chain begins, so that the log can still be checked from there on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gateway.audit import chain
from gateway.audit.chain import ChainError
from gateway.audit.segment import Segment, list_segments, read_lines
from gateway.audit.sidecars import Sidecars
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import get_logger

_log = get_logger("audit")


@dataclass(frozen=True, slots=True)
class Expiry:
    """Segments whose records are all older than a time, and the number and hash of the last record in them."""

    segments: tuple[Segment, ...]
    last_seq: int
    last_hash: str
    before: float

    @classmethod
    def find(cls, directory: Path, before: float) -> Expiry | None:
        """Look for segments whose last record is older than ``before`` (wall-clock seconds), None without any.

        A segment ends when the next one begins, so the first record of that tells; the last segment is never among
        them. What cannot be read is kept, and everything behind it.

        Raises:
            OSError: the directory cannot be read.
        """
        segments = list_segments(directory)
        found: tuple[int, Object] | None = None
        for index, following in enumerate(segments[1:], 1):
            first = _first(following.path)
            if first is None or not _is_older(first, before):
                break
            found = index, first
        if found is None:
            return None
        seq = found[1]["seq"]
        return cls(tuple(segments[: found[0]]), seq - 1 if isinstance(seq, int) else 0, str(found[1]["prev"]), before)

    def facts(self) -> Object:
        """Return what a tombstone says."""
        return {
            "first_segment": self.segments[0].number,
            "last_segment": self.segments[-1].number,
            "last_seq": self.last_seq,
            "last_hash": self.last_hash,
        }


def remove(expiry: Expiry, sidecars: Sidecars | None) -> None:
    """Delete expired segments, oldest first, and what was kept beside them; never raises.

    What cannot be deleted now is found again with the next segment.
    """
    try:
        for segment in expiry.segments:
            segment.path.unlink(missing_ok=True)
        if sidecars is not None:
            sidecars.expire(expiry.before)
    except OSError as error:
        _log.warning("audit_retention_failed", reason=error.strerror)
        return
    _log.info("audit_segments_deleted", segments=len(expiry.segments), last_seq=expiry.last_seq)


def _first(path: Path) -> Object | None:
    try:
        for line, ended in read_lines(path):
            return chain.check(line, None)[0] if ended else None
    except ChainError:
        return None
    return None


def _is_older(record: Object, before: float) -> bool:
    try:
        return datetime.fromisoformat(str(record.get("ts"))).timestamp() < before
    except ValueError:
        return False
