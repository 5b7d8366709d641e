"""What a process writes to its standard error: always taken, little of it kept, some of it logged.

2026-07-28 transports/stdio: it is for logging and no sign of an error. An unread pipe would stop the process (S107).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from gateway.downstream.lent import Lent
from gateway.telemetry.logs import get_logger
from gateway.telemetry.text import printable

KEPT: Final = 64 * 1024
LINE_SHOWN: Final = 200
"""Characters of a line that a log line or an error may show."""
LINES_PER_SECOND: Final = 20
_log = get_logger("stderr")


class Stderr:
    """Ring of the last ``KEPT`` bytes of one process.

    ``lent`` is what it was given: a server that complains about its key says the key (S151).
    """

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic, lent: Lent | None = None) -> None:
        self._server = server
        self._masked = (lent or Lent()).masked
        self._clock = clock
        self._ring = bytearray()
        self._second = 0
        self._lines = 0

    def feed(self, data: bytes) -> None:
        """Take bytes; of each second's lines the first ``LINES_PER_SECOND`` are logged."""
        self._ring += data[-KEPT:]
        if len(self._ring) > KEPT:
            del self._ring[: len(self._ring) - KEPT]
        second = int(self._clock())
        if second != self._second:
            self._second, self._lines = second, 0
        room = LINES_PER_SECOND - self._lines
        if room > 0:
            lines = [line for line in self._masked(data)[: room * 4096].split(b"\n", room)[:room] if line.strip()]
            self._lines += len(lines)
            for line in lines:
                _log.debug("server_stderr", server=self._server, line=_shown(line))

    def text(self) -> str:
        """All that is kept, line ends as they are, everything else that cannot be seen escaped."""
        lines = self._masked(bytes(self._ring)).decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        return "\n".join(printable(line) for line in lines)

    def last_line(self) -> str:
        """The last line that is not blank, escaped and cut; empty where there was none."""
        for line in reversed(self._ring.replace(b"\r", b"\n").split(b"\n")):
            if line.strip():
                return _shown(self._masked(bytes(line)))
        return ""


def _shown(line: bytes) -> str:
    return printable(line[: LINE_SHOWN * 4].decode("utf-8", "replace").strip(), LINE_SHOWN)
