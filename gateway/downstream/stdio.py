"""The stdio transport: JSON-RPC lines to and from one process (2026-07-28 transports/stdio; same framing before).

Ids on the wire are ours, from a counter. An answer belongs to the call whose id it repeats, in value and type;
anything else is counted and dropped. Knows no MCP method: who asks brings the words for cancelling.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.config.servers import Server
from gateway.downstream import process as processes
from gateway.downstream.command import plan
from gateway.downstream.framing import Line, Splitter, TooLong
from gateway.downstream.guardian import Guardian
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.process import Process
from gateway.downstream.stderr import Stderr
from gateway.downstream.transport import Inbox, Reply, Request, deliver, encode_answer
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc
from gateway.protocol.jsonrpc import Id, Invalid, ServerFailure, ServerMessage, ServerRequest, ServerResult
from gateway.protocol.rawjson import JsonError
from gateway.telemetry.text import printable

WRITE_TIMEOUT = 10.0
"""Seconds a process may leave a message unread in the pipe."""
MAX_UNSENT_ASIDE: Final = 1024 * 1024
"""Bytes queued to the process over which answers to its own requests and cancellations are dropped."""
GARBAGE_LINES: Final = 100
GARBAGE_SECONDS: Final = 10.0
"""More than so many lines in so many seconds that are no MCP end the connection (S109)."""
_DETAIL: Final = 80

_CONTENT_LENGTH = re.compile(rb"(?i)content-length[ \t]*:[ \t]*[0-9]+[ \t]*")


@dataclass(slots=True)
class _Waiting:
    """One request on its way; ``sent`` once a byte of it can have left."""

    answer: asyncio.Future[Reply]
    sent: bool = False
    on_answer: Callable[[], None] | None = None


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
        self._stderr = Stderr(name, given=(value.get_secret_value() for value in server.env.values()))
        self._ids = itertools.count(1)
        self._waiting: dict[Id, _Waiting] = {}
        self._garbage: deque[float] = deque(maxlen=GARBAGE_LINES + 1)
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._inbox: Inbox | None = None
        self._end: DownstreamError | None = None

    @property
    def instance(self) -> str:
        """``pid:4711#3``, or ``pid:0#3`` while there is no process."""
        return f"pid:{self._process.pid if self._process is not None else 0}#{self._generation}"

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
        self._inbox = inbox
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
        identifier = next(self._ids)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), on_answer=request.on_answer)
        self._waiting[identifier] = waiting
        try:
            async with asyncio.timeout(request.timeout):
                await self._send(
                    process, jsonrpc.encode_request(identifier, request.method, request.params), request, waiting
                )
                return await waiting.answer
        except TimeoutError:
            self._cancel(request, identifier, waiting)
            raise DownstreamError(
                Reason.TIMEOUT, f"no answer within {request.timeout:g} s", may_have_run=waiting.sent
            ) from None
        except asyncio.CancelledError:
            self._cancel(request, identifier, waiting)
            raise
        finally:
            del self._waiting[identifier]
            if waiting.answer.done() and not waiting.answer.cancelled():
                # Read here too, since an answer and a timeout may come in the same turn of the loop.
                waiting.answer.exception()

    async def notify(self, request: Request) -> None:
        """Send a notification.

        Raises:
            DownstreamError: the process is gone or does not read.
        """
        waiting = _Waiting(asyncio.get_running_loop().create_future())
        await self._send(self._live(), jsonrpc.encode_notification(request.method, request.params), request, waiting)

    async def aclose(self) -> None:
        """End the process and its whole group, in at most about five seconds; calls in flight fail at once."""
        self._inbox = None
        self._fail(DownstreamError(Reason.UNAVAILABLE, "the connection was closed"))
        if self._process is not None:
            await self._process.stop()

    @property
    def _over(self) -> bool:
        return self._end is not None

    def _live(self) -> Process:
        if self._end is not None:
            raise DownstreamError(self._end.reason, self._end.message)
        if self._process is None:
            raise DownstreamError(Reason.UNAVAILABLE, "the process was not started")
        return self._process

    async def _send(self, process: Process, data: bytes, request: Request, waiting: _Waiting) -> None:
        """Queue one line when it is its turn and see it taken; only one message is ever queued here."""
        try:
            async with asyncio.timeout(WRITE_TIMEOUT), self._turn:
                await process.room()
                # The process may have ended meanwhile; nothing was sent then.
                self._live()
                waiting.sent = True
                if request.on_sent is not None:
                    request.on_sent()
                process.write(data + b"\n")
                await process.room()
        except TimeoutError:
            raise DownstreamError(
                Reason.TIMEOUT, "the server does not read its input", may_have_run=waiting.sent
            ) from None

    def _cancel(self, request: Request, identifier: Id, waiting: _Waiting) -> None:
        # Cancelling the waiting coroutine has cancelled the future; done otherwise means answered.
        answered = waiting.answer.done() and not waiting.answer.cancelled()
        if waiting.sent and request.cancel is not None and not answered:
            method, params = request.cancel(identifier)
            self._write_aside(jsonrpc.encode_notification(method, params))

    def _write_aside(self, data: bytes) -> None:
        """Queue a line without waiting; dropped where the process has not read for long."""
        if self._process is None or self._over:
            return
        if self._process.unsent > MAX_UNSENT_ASIDE:
            self._violation("answer_dropped", "does not read its input")
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
                    self._violation("line_too_long", f"over {limit} bytes")
                    self._break(Reason.TOO_LARGE, f"the server wrote a line of over {limit} bytes")

    def complaint(self, data: bytes) -> None:
        """Bytes of standard error."""
        self._meters.stderr(self._name, len(data))
        self._stderr.feed(data)

    def ended(self, how: str) -> None:
        """The process ended, or closed a pipe."""
        self._finish(DownstreamError(Reason.UNAVAILABLE, f"the process of {self._name} {how}"))

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc.split(line)
        except Invalid as error:
            self._garbled("not_jsonrpc", line, error.id)
        except JsonError as error:
            if _CONTENT_LENGTH.fullmatch(line):
                self._violation("content_length", "Content-Length header")
                self._break(Reason.PROTOCOL_ERROR, "the server frames messages with Content-Length, not as MCP lines")
            else:
                readable = error.reason in ("not_utf8", "lone_surrogate")
                self._garbled("bad_json", line, jsonrpc.claimed_id(line) if readable else None)
        else:
            self._dispatch(message)

    def _dispatch(self, message: ServerMessage) -> None:
        inbox = self._inbox
        if inbox is None:
            return
        match message:
            case ServerResult(identifier, result):
                self._answer(identifier, Reply(result))
            case ServerFailure(identifier, error):
                self._answer(identifier, Reply(None, error))
            case ServerRequest(identifier, method, params):
                deliver(inbox.ask(method, params), lambda answer: self._write_aside(encode_answer(identifier, answer)))
            case _:
                inbox.notification(message.method, message.params)

    def _answer(self, identifier: Id | None, reply: Reply) -> None:
        waiting = self._waiting.get(identifier) if identifier is not None else None
        if waiting is None or waiting.answer.done() or not waiting.sent:
            self._violation("unknown_id", printable(str(identifier), _DETAIL))
        else:
            if waiting.on_answer is not None:
                waiting.on_answer()
            waiting.answer.set_result(reply)

    def _garbled(self, kind: str, line: bytes, identifier: Id | None) -> None:
        """Skip a line that is no message; a call that it names learns of it at once."""
        self._violation(kind, printable(line[: _DETAIL * 4].decode("utf-8", "replace"), _DETAIL))
        waiting = self._waiting.get(identifier) if identifier is not None else None
        if waiting is not None and waiting.sent and not waiting.answer.done():
            waiting.answer.set_exception(
                DownstreamError(Reason.PROTOCOL_ERROR, "the server's answer is no valid message", may_have_run=True)
            )
            return
        now = time.monotonic()
        self._garbage.append(now)
        if len(self._garbage) > GARBAGE_LINES and now - self._garbage[0] < GARBAGE_SECONDS:
            self._break(
                Reason.PROTOCOL_ERROR,
                f"the server wrote over {GARBAGE_LINES} lines that are no MCP in {GARBAGE_SECONDS:g} s",
            )

    def _violation(self, kind: str, detail: str) -> None:
        if self._inbox is not None:
            self._inbox.violation(kind, detail)

    def _break(self, reason: Reason, message: str) -> None:
        """End a process that cannot be talked to; it may be flooding, so it gets no grace."""
        if self._process is not None:
            self._process.kill()
        self._finish(DownstreamError(reason, message))

    def _finish(self, end: DownstreamError) -> None:
        self._fail(end)
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.closed(end.message)

    def _fail(self, end: DownstreamError) -> None:
        self._end = self._end or end
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(DownstreamError(end.reason, end.message, may_have_run=waiting.sent))
