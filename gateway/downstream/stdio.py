"""The stdio transport: JSON-RPC lines to and from one process (2026-07-28 transports/stdio; same framing before).

Knows lines and the process; which answer belongs to which call is the waitlist's. Knows no MCP method.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from typing import Final

from gateway.config.servers import Server
from gateway.downstream import process as processes
from gateway.downstream.command import plan
from gateway.downstream.framing import Line, Splitter, TooLong
from gateway.downstream.guardian import Guardian
from gateway.downstream.lent import Lent
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.process import Process
from gateway.downstream.stderr import Stderr
from gateway.downstream.transport import Departure, Inbox, Owed, Reply, Request
from gateway.downstream.waitlist import Waiting, Waitlist
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc
from gateway.protocol.jsonrpc import Id, Invalid
from gateway.protocol.rawjson import JsonError

WRITE_TIMEOUT = 10.0
"""Seconds a process may leave a message unread in the pipe."""
MAX_UNSENT_ASIDE: Final = 1024 * 1024
"""Bytes queued to the process over which answers to its own requests and cancellations are dropped."""
GARBAGE_LINES: Final = 100
GARBAGE_SECONDS: Final = 10.0
"""More than so many lines in so many seconds that are no MCP end the connection (S109)."""

_CONTENT_LENGTH = re.compile(rb"(?i)content-length[ \t]*:[ \t]*[0-9]+[ \t]*")


class StdioTransport:
    """One process and the lines to and from it. ``generation`` tells this process from its predecessors."""

    kind = "stdio"

    def __init__(
        self,
        name: str,
        server: Server,
        guardian: Guardian,
        meters: Meters | None = None,
        generation: int = 1,
    ) -> None:
        self._name = name
        self._server = server
        self._guardian = guardian
        self._meters = meters or NoMeters()
        self._generation = generation
        self._splitter = Splitter(server.max_result)
        self.lent = Lent.of(server)
        self._stderr = Stderr(name, lent=self.lent)
        self.owed = Owed()
        self._waitlist = Waitlist(self.owed, self._write_aside)
        self._garbage: deque[float] = deque(maxlen=GARBAGE_LINES + 1)
        self._turn = asyncio.Lock()
        self._process: Process | None = None

    @property
    def instance(self) -> str:
        """``pid:4711#3``, or ``pid:0#3`` while there is no process."""
        return f"pid:{self._process.pid if self._process is not None else 0}#{self._generation}"

    @property
    def key_digest(self) -> str:
        """Nothing: a pipe has no key."""
        return ""

    @property
    def last_words(self) -> str:
        """The last line on its standard error; it may hold anything, so no client ever sees it."""
        line = self._stderr.last_line()
        return f"its last line on stderr: {line}" if line else ""

    async def open(self, inbox: Inbox) -> None:
        """Start the process.

        Raises:
            DownstreamError: it cannot be started; nothing is left behind.
        """
        self._waitlist.begin(inbox)
        self._process = await processes.start(plan(self._server, os.environ), self._guardian, self)
        if self._over:
            # It misbehaved before we held it; the inbox has been told.
            self._process.kill()

    async def request(self, request: Request) -> Reply:
        """Send a request and wait for the answer with its id.

        Raises:
            DownstreamError: ``unavailable``, ``timeout``, ``too_large`` or ``protocol_error``.
        """
        process = self._live()

        async def send(data: bytes, waiting: Waiting) -> None:
            await self._send(process, data, waiting.departure)

        return await self._waitlist.request(request, send)

    async def notify(self, request: Request) -> None:
        """Send a notification.

        Raises:
            DownstreamError: the process is gone or does not read.
        """
        data = jsonrpc.encode_notification(request.method, request.params)
        await self._send(self._live(), data, Departure(request.on_sent))

    async def aclose(self) -> None:
        """End the process and its whole group, in at most about five seconds; calls in flight fail at once."""
        self._waitlist.fail(DownstreamError(Reason.UNAVAILABLE, "the connection was closed"))
        if self._process is not None:
            await self._process.stop()

    @property
    def _over(self) -> bool:
        return self._waitlist.end is not None

    def _live(self) -> Process:
        if (end := self._waitlist.end) is not None:
            raise DownstreamError(end.reason, end.message)
        if self._process is None:
            raise DownstreamError(Reason.UNAVAILABLE, "the process was not started")
        return self._process

    async def _send(self, process: Process, data: bytes, departure: Departure) -> None:
        """Queue one line when it is its turn and see it taken; only one message is ever queued here."""
        try:
            async with asyncio.timeout(WRITE_TIMEOUT), self._turn:
                await process.room()
                # The process may have ended meanwhile; nothing was sent then.
                self._live()
                departure.leave()
                process.write(data + b"\n")
                await process.room()
        except TimeoutError:
            text = "the server does not read its input"
            raise DownstreamError(Reason.TIMEOUT, text, may_have_run=departure.sent) from None

    def _write_aside(self, data: bytes) -> None:
        """Queue a line without waiting; dropped where the process has not read for long."""
        if self._process is None or self._over:
            return
        if self._process.unsent > MAX_UNSENT_ASIDE:
            self._waitlist.violation("answer_dropped", "does not read its input")
            return
        self._process.write(data + b"\n")

    # What the process hands up.

    def output(self, data: bytes) -> None:
        """Bytes of standard output."""
        for event in self._splitter.feed(data) if not self._over else ():
            match event:
                case _ if self._over:
                    return
                case Line(line):
                    for part in jsonrpc.parts(line):
                        self._take(part)
                case TooLong(limit):
                    self._waitlist.violation("line_too_long", f"over {limit} bytes")
                    self._break(Reason.TOO_LARGE, f"the server wrote a line of over {limit} bytes")

    def complaint(self, data: bytes) -> None:
        """Bytes of standard error."""
        self._meters.stderr(self._name, len(data))
        self._stderr.feed(data)

    def ended(self, how: str) -> None:
        """The process ended, or closed a pipe."""
        self._waitlist.finish(DownstreamError(Reason.UNAVAILABLE, f"the process of {self._name} {how}"))

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc.split(line)
        except Invalid as error:
            self._garbled("not_jsonrpc", line, error.id)
        except JsonError as error:
            if _CONTENT_LENGTH.fullmatch(line):
                self._waitlist.violation("content_length", "Content-Length header")
                self._break(Reason.PROTOCOL_ERROR, "the server frames messages with Content-Length, not as MCP lines")
            else:
                readable = error.reason in ("not_utf8", "lone_surrogate")
                self._garbled("bad_json", line, jsonrpc.claimed_id(line) if readable else None)
        else:
            self._waitlist.take(message)

    def _garbled(self, kind: str, line: bytes, identifier: Id | None) -> None:
        """Skip a line that is no message; a call that it names learns of it at once."""
        if self._waitlist.garbled(kind, line, identifier):
            return
        now = time.monotonic()
        self._garbage.append(now)
        if len(self._garbage) > GARBAGE_LINES and now - self._garbage[0] < GARBAGE_SECONDS:
            self._break(
                Reason.PROTOCOL_ERROR,
                f"the server wrote over {GARBAGE_LINES} lines that are no MCP in {GARBAGE_SECONDS:g} s",
            )

    def _break(self, reason: Reason, message: str) -> None:
        """End a process that cannot be talked to; it may be flooding, so it gets no grace."""
        if self._process is not None:
            self._process.kill()
        self._waitlist.finish(DownstreamError(reason, message))
