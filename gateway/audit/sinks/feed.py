"""A sink's place in the log, and the records behind it that are durable: the log itself is what they wait in.

The place survives restarts. What retention deleted before it was read is lost, and said so. Blocking.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.audit.query import as_record
from gateway.audit.segment import list_segments, read_lines
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.state.files import secure_directory, write_atomic

BATCH: Final = 200
"""Records that are sent together."""
MAX_BATCH_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in their order. ``lost`` is how many before them are gone."""

    records: list[Object] = field(default_factory=list)
    lost: int = 0

    @property
    def last(self) -> int:
        return _seq(self.records[-1]) if self.records else 0


class Feed:
    """Reads one log for one sink. Methods raise OSError where the disk refuses."""

    def __init__(self, log: Path, place: Path) -> None:
        self._log = log
        self._place = place
        self._chain = ""
        self.seq = 0
        """The number of the last record that was delivered."""
        self._segment = 0
        self._offset = 0

    def resume(self) -> None:
        """Go on where an earlier run was; a new log begins from its first record."""
        secure_directory(self._place.parent)
        try:
            kept = rawjson.decode_value(self._place.read_bytes()) if self._place.exists() else {}
        except JsonError:
            kept = {}
        if isinstance(kept, dict) and isinstance(seq := kept.get("seq"), int):
            self._chain, self.seq = str(kept.get("chain", "")), seq

    def read(self, durable: int) -> Batch:
        """Return what follows the delivered records, up to the record that the disk has confirmed."""
        records: list[Object] = []
        size = lost = 0
        for number, path in [(each.number, each.path) for each in list_segments(self._log)]:
            if number < self._segment:
                continue
            if number > self._segment:
                self._segment, self._offset = number, 0
            for line, ended in read_lines_from(path, self._offset):
                record = as_record(line) if ended else None
                if record is None or _seq(record) > durable:
                    return Batch(records, lost)
                if len(records) >= BATCH or size > MAX_BATCH_BYTES:
                    return Batch(records, lost)
                self._offset += len(line) + 1
                self._notice(record)
                if not self.seq and not records:
                    self.seq = _seq(record) - 1
                if _seq(record) <= self.seq + len(records) + lost:
                    continue
                lost += _seq(record) - (self.seq + len(records) + lost) - 1
                records.append(record)
                size += len(line)
        return Batch(records, lost)

    def _notice(self, record: Object) -> None:
        """Begin anew with another chain: its numbers say nothing about the one before."""
        chain = str(record.get("chain"))
        if self._chain and chain != self._chain:
            self.seq = 0
        self._chain = chain

    def rewind(self) -> None:
        """Read again what was not delivered."""
        self._segment = self._offset = 0

    def delivered(self, batch: Batch) -> None:
        """Remember that a batch has arrived."""
        self.seq = batch.last
        write_atomic(self._place, rawjson.encode({"chain": self._chain, "seq": self.seq}))


def read_lines_from(path: Path, offset: int) -> list[tuple[bytes, bool]]:
    """Return about a batch of lines of a file from a place on, each with whether it is whole."""
    if not offset:
        found: list[tuple[bytes, bool]] = []
        for line in read_lines(path):
            found.append(line)
            if len(found) > BATCH:
                break
        return found
    with path.open("rb") as file:
        file.seek(offset)
        lines = file.readlines(MAX_BATCH_BYTES)
    return [(line.removesuffix(b"\n"), line.endswith(b"\n")) for line in lines]


def _seq(record: Object) -> int:
    seq = record.get("seq")
    return seq if isinstance(seq, int) else 0
