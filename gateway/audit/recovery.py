"""What the last run of the gateway left on disk: where the chain stands, which calls are open, what was torn off.

Reads the last segment, and those before it back to a checkpoint: nearly always none. A crash can leave the beginning
of a line, or a hole of zeros after a power cut: that is moved aside. Anything else that does not fit is damage, and
nobody's to repair silently.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.audit import chain
from gateway.audit.chain import MAX_RECORD, ChainError, Head
from gateway.audit.checkpoint import EVENT, Anchor
from gateway.audit.orphans import OpenCalls, gather
from gateway.audit.segment import TORN_SUFFIX, Segment, list_segments, read_lines, whole_length
from gateway.errors import ConfigError, Problem
from gateway.protocol.rawjson import Object
from gateway.state.files import sync_directory, write_atomic

_MAX_TORN: Final = 100
_EVENT: Final = f'"event":"{EVENT}"'.encode()


@dataclass(frozen=True, slots=True)
class Found:
    """Where the log stands; ``head`` is None for a log that never began.

    ``aside`` names the files that torn bytes were moved to, ``torn`` how many bytes; ``completed`` says that the last
    record was whole and lacked only its line end.
    """

    head: Head | None
    number: int = 0
    open: OpenCalls = field(default_factory=OpenCalls)
    torn: int = 0
    aside: tuple[str, ...] = ()
    completed: bool = False
    anchor: Anchor = field(default_factory=Anchor)

    @property
    def is_recovered(self) -> bool:
        return bool(self.aside) or self.completed


def recover(directory: Path) -> Found:
    """Put a log in order and say where it stands.

    Raises:
        ConfigError: a segment is damaged.
        OSError: it cannot be read or put in order.
    """
    aside: list[str] = []
    torn = 0
    segments = list_segments(directory)
    for index, segment in reversed([*enumerate(segments)]):
        reading = _Reading(segment)
        reading.run()
        if reading.is_begun:
            name = reading.mend()
            return Found(
                reading.head,
                segment.number,
                reading.calls,
                torn + (reading.torn if name else 0),
                (*aside, name) if name else tuple(aside),
                reading.completed,
                _anchor(segments[: index + 1]),
            )
        # Its head never became whole, so no record of a call can be in it.
        size = segment.path.stat().st_size
        if size:
            target = _free_name(segment.path)
            segment.path.replace(target)
            aside.append(target.name)
        else:
            segment.path.unlink()
        torn += size
        sync_directory(directory)
    return Found(None, torn=torn, aside=tuple(aside))


def _anchor(segments: list[Segment]) -> Anchor:
    """Say where the signatures of a log stand whose segments are whole."""
    lines: list[bytes] = []
    for segment in reversed(segments):
        own, is_signed = _since_checkpoint(segment.path)
        lines = own + lines
        if is_signed:
            break
    anchor, signed = Anchor(), False
    for line in lines:
        record = chain.read(line, 0)
        signed = signed or record.get("event") == EVENT or record.get("seq") == 1
        if signed:
            anchor.passed(record, str(record["hash"]))
    return anchor


def _since_checkpoint(path: Path) -> tuple[list[bytes], bool]:
    """Return a segment's lines from its last checkpoint on, and whether there is one; all of them without."""
    kept: list[bytes] = []
    is_signed = False
    for line, ended in read_lines(path):
        if not ended:
            break
        if _EVENT in line and chain.read(line, 0).get("event") == EVENT:
            kept, is_signed = [], True
        kept.append(line)
    return kept, is_signed


class _Reading:
    """One pass over one segment."""

    def __init__(self, segment: Segment) -> None:
        self._path = segment.path
        self._parts: list[Object] = []
        self._due_parts = 1
        self._good = 0
        self.head: Head | None = None
        self.calls = OpenCalls()
        self.completed = False
        self.torn = 0

    @property
    def is_begun(self) -> bool:
        """Whether the segment's head is whole."""
        return len(self._parts) >= self._due_parts

    def run(self) -> None:
        for number, (line, ended) in enumerate(read_lines(self._path), 1):
            try:
                record, self.head = chain.check(line, self.head)
            except ChainError as error:
                overlong = len(line) >= MAX_RECORD
                if b"\0" not in line and (ended or overlong or whole_length(line)):
                    raise self._damage(number, error.reason) from None
                break
            self._take(record, self.head.seq)
            self._good += len(line) + (1 if ended else 0)
            self.completed = not ended
        self.torn = self._path.stat().st_size - self._good
        self.calls.keep()

    def _take(self, record: Object, seq: int) -> None:
        if not self.is_begun:
            part = record.get("segment")
            if record.get("event") != "audit.segment" or not isinstance(part, dict):
                raise self._damage(len(self._parts) + 1, "no segment head")
            self._note_part(part)
        else:
            self.calls.apply(record, seq)

    def _note_part(self, part: Object) -> None:
        calls, parts = part.get("open"), part.get("parts")
        self._parts.append(calls if isinstance(calls, dict) else {})
        self._due_parts = parts if isinstance(parts, int) else 1
        if self.is_begun:
            self.calls = OpenCalls(gather(self._parts))

    def mend(self) -> str:
        """Move what was torn off aside and return the name of the file that holds it now."""
        if self.completed:
            with self._path.open("ab") as file:
                file.write(b"\n")
                file.flush()
                os.fsync(file.fileno())
            return ""
        if not self.torn:
            return ""
        target = _free_name(self._path)
        with self._path.open("r+b") as file:
            file.seek(self._good)
            write_atomic(target, file.read())
            file.truncate(self._good)
            os.fsync(file.fileno())
        return target.name

    def _damage(self, line: int, reason: str) -> ConfigError:
        return ConfigError(
            [
                Problem(
                    f"audit segment is damaged: {reason}",
                    file=str(self._path),
                    line=line,
                    hint="see `mcp-gateway audit verify`; to begin a new log, move the whole directory away",
                )
            ]
        )


def _free_name(segment: Path) -> Path:
    """Return a name for what is torn off a segment; what an earlier run moved aside is not overwritten."""
    names = [segment.with_suffix(TORN_SUFFIX)]
    names += [segment.with_name(f"{segment.stem}-{number}{TORN_SUFFIX}") for number in range(1, _MAX_TORN)]
    return next((name for name in names if not name.exists()), names[-1])
