"""Lines out of a byte stream, as stdio MCP frames its messages. Pure; knows no JSON and no process.

2026-07-28 transports/stdio: messages are delimited by newlines and hold none. Only 0x0A ends one: other characters
that Unicode calls line ends occur inside JSON strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Line:
    """One message without its line end; never blank."""

    data: bytes


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line grew over the limit; the rest of it is dropped."""

    limit: int


Event: TypeAlias = Line | TooLong


class Splitter:
    """Incremental splitter: what comes out depends on the bytes only, never on how they were chunked.

    ``limit`` bounds the bytes of one message, finished or not. Each byte is looked at once and at most ``limit``
    bytes plus one chunk are held.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._dropping = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the messages they complete, in order."""
        events: list[Event] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            event = self._finish(chunk[start:end])
            if event is not None:
                events.append(event)
            start = end + 1
        if not self._dropping and start < len(chunk):
            self._rest += memoryview(chunk)[start:]
            # One more byte may be a carriage return that does not count.
            if len(self._rest) > self._limit + 1:
                self._rest = bytearray()
                self._dropping = True
                events.append(TooLong(self._limit))
        return events

    def _finish(self, tail: bytes) -> Event | None:
        if self._dropping:
            self._dropping = False
            return None
        data = tail
        if self._rest:
            self._rest += tail
            data = bytes(self._rest)
            self._rest = bytearray()
        data = data.removesuffix(b"\r")
        if len(data) > self._limit:
            return TooLong(self._limit)
        return Line(data) if data.strip(b" \t\r") else None
