"""Server-sent events, both ways (HTML standard §9.2 Server-sent events), for the subset MCP uses."""

from __future__ import annotations

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

    ``limit`` bounds the bytes of one event, finished or not.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._scanned = 0
        self._skip_newline = False
        self._first = True
        self._data: list[bytes] = []
        self._size = 0
        self._name = ""
        self._id: str | None = None
        self.last_event_id = ""
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes and return the events they complete.

        Raises:
            TooLarge: an event grew over the limit; the parser is of no further use.
        """
        events: list[Event] = []
        self._rest += chunk
        while (line := self._line()) is not None:
            event = self._take(line)
            if event is not None:
                events.append(event)
        if len(self._rest) + self._size > self._limit:
            raise TooLarge(f"event over {self._limit} bytes")
        return events

    def _line(self) -> bytes | None:
        """Cut the next line off; LF, CR and CRLF end one, whatever the chunking."""
        rest = self._rest
        if self._skip_newline and rest:
            if rest[0] == 0x0A:
                del rest[0]
            self._skip_newline = False
        ends = [at for at in (rest.find(b"\n", self._scanned), rest.find(b"\r", self._scanned)) if at >= 0]
        if not ends:
            self._scanned = len(rest)
            return None
        end = min(ends)
        line = bytes(rest[:end])
        self._skip_newline = rest[end] == 0x0D
        del rest[: end + 1]
        self._scanned = 0
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        return line

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._size += len(value) + 1
                if self._size > self._limit:
                    raise TooLarge(f"event over {self._limit} bytes")
                self._data.append(value)
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
        data, name, event_id = b"\n".join(self._data), self._name or "message", self._id
        had_data = bool(self._data)
        self._data, self._size, self._name, self._id = [], 0, "", None
        if event_id is not None:
            self.last_event_id = event_id
        return Event(data, name, event_id) if had_data else None
