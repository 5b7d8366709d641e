"""Standard input and output as lines: how a client that starts a program speaks to it. Knows no JSON.

Nothing else may be written to standard output while these are in use (basic/transports §stdio).
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from typing import Final, TextIO

MAX_LINE: Final = 64 * 2**20
"""Bytes of one message, in either direction."""


class LineTooLong(Exception):
    """A line over the bound: where it ends is not known, so nothing after it can be read."""


class Lines:
    """Lines of standard input. A pipe, a socket or a terminal is read as it comes, anything else as a whole."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader(limit=MAX_LINE)
        self._transport: asyncio.ReadTransport | None = None

    async def open(self) -> None:
        """Begin to read."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        if _comes_bit_by_bit(sys.stdin):
            self._transport, _ = await loop.connect_read_pipe(lambda: protocol, sys.stdin)
        else:
            data = await asyncio.to_thread(sys.stdin.buffer.read, MAX_LINE)
            self._reader.feed_data(data)
            self._reader.feed_eof()

    async def read(self) -> bytes | None:
        """Return the next line that is not blank, without its end; None at the end of the input.

        Raises:
            LineTooLong: it has no end within the bound.
        """
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                raise LineTooLong from None
            if not line:
                return None
            if stripped := line.strip():
                return stripped

    def close(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()


class Printer:
    """Writes one message a line, whole and one after the other. A reader that is slow slows its writers down."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def write(self, message: bytes) -> None:
        """Write a message. Line breaks in JSON are white space, so they become blanks."""
        line = message.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
        async with self._lock:
            await asyncio.to_thread(_write_all, line)


def _comes_bit_by_bit(file: TextIO) -> bool:
    """Tell whether there is something to wait for: a regular file and ``/dev/null`` are always readable.

    No event loop can wait for those, and asyncio says so of the latter only where nobody hears it.
    """
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


def _write_all(line: bytes) -> None:
    """Write to the descriptor itself: a buffer would hold back what the client waits for."""
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
        except BlockingIOError:
            # Standard input and output may be one socket, which reading made non-blocking.
            os.set_blocking(sys.stdout.fileno(), True)
