"""Reads the end of a log while it may be written: the last lines, and those that follow. Changes nothing.

Lines come as they are in the file; whether they are true is for ``verify`` to say.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gateway.audit.segment import Segment, list_segments

_BLOCK: Final = 64 * 1024
MAX_READ: Final = 4 * 2**20
"""Bytes read at a time; the rest comes with the next read."""


class Tail:
    """A reader's place in a log. Every method raises OSError where the directory cannot be read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0
        self._offset = 0

    def last(self, count: int) -> list[bytes]:
        """Return the last ``count`` whole lines, and go on behind them."""
        lines: list[bytes] = []
        segments = list_segments(self._directory)
        for segment in reversed(segments):
            found, end = _last_of(segment.path, count - len(lines))
            if segment is segments[-1]:
                self._number, self._offset = segment.number, end
            lines = found + lines
            if len(lines) >= count:
                break
        return lines

    def more(self) -> list[bytes]:
        """Return the whole lines that were added since; a line that is still being written comes later."""
        lines: list[bytes] = []
        for segment in list_segments(self._directory):
            if segment.number < self._number:
                continue
            if segment.number > self._number:
                self._number, self._offset = segment.number, 0
            lines += self._read(segment)
        return lines

    def _read(self, segment: Segment) -> list[bytes]:
        with segment.path.open("rb") as file:
            # A failed group is cut off again; what takes its place is in the next segment.
            self._offset = min(self._offset, file.seek(0, os.SEEK_END))
            file.seek(self._offset)
            data = file.read(MAX_READ)
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        return data[:whole].splitlines()


def _last_of(path: Path, count: int) -> tuple[list[bytes], int]:
    """Return the last whole lines of a file, and where they end, reading backwards no further than needed."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        size, data = position, b""
        while position > 0 and data.count(b"\n") <= count + 1:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            data = file.read(step) + data
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].split(b"\n")[:-1]
    # Without the file's beginning the first piece may be the end of a line.
    usable = lines if position == 0 else lines[1:]
    return usable[-count:] if count else [], size - (len(data) - whole)
