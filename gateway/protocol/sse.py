"""Server-sent events, both ways (HTML standard §9.2 Server-sent events), for the subset MCP uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
"""Response headers of a stream; the last one stops reverse proxies from holding events back."""

HEARTBEAT = b": keep-alive\n\n"
"""A comment: it keeps middleboxes from cutting an idle stream and never reaches JSON."""


@dataclass(frozen=True, slots=True)
class Event:
    """One dispatched event; ``id`` is what this event set, None where it set none."""

    data: bytes
    name: str = "message"
    id: str | None = None


class TooLarge(ValueError):
    """An event, or a line of one, over the parser's limit."""


def encode(data: bytes, event_id: str | None = None, retry_ms: int | None = None) -> bytes:
    """Write one message event. Line breaks inside JSON are white space, so each line becomes a ``data`` field."""
    head = b"event: message\n"
    if event_id is not None:
        head += b"id: " + event_id.encode("ascii") + b"\n"
    if retry_ms is not None:
        head += b"retry: %d\n" % retry_ms
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"


class Parser:
    """Incremental parser: ``feed`` bytes in any chunking, get whole events out.

    ``limit`` bounds the data of one event in bytes, and any other line; at most twice as much is held. What comes
    out, ``TooLarge`` included, depends on the bytes alone and not on where the chunks end.

    Follows the standard with an event whose data is empty but present: it is dispatched with ``b""`` (a 2025-11-25
    server primes a stream so). ``last_event_id`` follows every finished block, with data or without.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line_limit = limit + len(b"data: ")
        self._rest = bytearray()
        self._skip_newline = False
        self._first = True
        self._data = bytearray()
        self._name = ""
        self._id: str | None = None
        self.last_event_id = ""
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises:
            TooLarge: an event or a line grew over the limit; the parser is of no further use.
        """
        events: list[Event] = []
        for line in self._lines(chunk):
            event = self._take(line)
            if event is not None:
                events.append(event)
        self._check(len(self._rest))
        return events

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk completes; LF, CR and CRLF end one, and nothing else does."""
        if not chunk:
            return
        if self._skip_newline:
            chunk = chunk.removeprefix(b"\n")
        self._skip_newline = chunk.endswith(b"\r")
        for piece in chunk.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            finished = len(line) < len(piece)
            if self._rest or not finished:
                self._rest += line
                if not finished:
                    return
                line, self._rest = bytes(self._rest), bytearray()
            self._check(len(line))
            if self._first:
                self._first = False
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield line

    def _check(self, line_size: int) -> None:
        if line_size > self._line_limit:
            raise TooLarge(f"line over {self._limit} bytes")

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                if len(self._data) + len(value) > self._limit:
                    raise TooLarge(f"event over {self._limit} bytes")
                self._data += value + b"\n"
            case b"event":
                self._name = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry_ms = int(value)
            case _:
                pass
        return None

    def _dispatch(self) -> Event | None:
        data, name, event_id = self._data, self._name or "message", self._id
        self._data, self._name, self._id = bytearray(), "", None
        if event_id is not None:
            self.last_event_id = event_id
        return Event(bytes(memoryview(data)[:-1]), name, event_id) if data else None
