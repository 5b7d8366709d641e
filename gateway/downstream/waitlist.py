"""Requests under way on a channel that brings everything the server says in one stream: a pipe, or an old event stream.

Ids on the wire are ours, from a counter. An answer belongs to the request whose id it repeats, in value and type;
anything else is counted and dropped. Knows no MCP method: who asks brings the words for cancelling.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.downstream.transport import Departure, Inbox, Owed, Reply, Request, encode_answer
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc
from gateway.protocol.jsonrpc import Id, ServerFailure, ServerMessage, ServerRequest, ServerResult
from gateway.telemetry.text import printable

DETAIL: Final = 80
"""Characters of foreign text in the detail of a violation."""


@dataclass(eq=False, slots=True)
class Waiting:
    """One request without its answer, and whether a byte of it can have left."""

    departure: Departure
    answer: asyncio.Future[Reply]

    def settle(self, outcome: Reply | DownstreamError) -> None:
        """Take what came of it; the first counts."""
        if self.answer.done():
            return
        if isinstance(outcome, Reply):
            self.answer.set_result(outcome)
        else:
            self.answer.set_exception(outcome)


Send: TypeAlias = Callable[[bytes, Waiting], Awaitable[None]]
"""Sends one message; returns when it has been taken, or is on its way."""


class Waitlist:
    """The requests of one channel, and who hears what else comes on it.

    ``owed`` are the answers that the server waits for; ``aside`` sends a message nobody waits for, and never blocks. As
    many requests wait as there are calls.
    """

    def __init__(self, owed: Owed, aside: Callable[[bytes], None]) -> None:
        self._owed = owed
        self._aside = aside
        self._ids = itertools.count(1)
        self._open: dict[Id, tuple[Request, Waiting]] = {}
        self._inbox: Inbox | None = None
        self.end: DownstreamError | None = None
        """Why nothing comes any more."""

    def begin(self, inbox: Inbox) -> None:
        """Hand what comes to an inbox from now on."""
        self._inbox = inbox

    async def request(self, request: Request, send: Send) -> Reply:
        """Send a request under a new id and wait for its answer.

        Raises:
            DownstreamError: what ``send`` raises; ``timeout``; or the end of the channel.
        """
        identifier = next(self._ids)
        if request.on_id is not None:
            request.on_id(identifier)
        waiting = Waiting(Departure(request.on_sent), asyncio.get_running_loop().create_future())
        self._open[identifier] = request, waiting
        try:
            async with asyncio.timeout(request.timeout):
                await send(jsonrpc.encode_request(identifier, request.method, request.params), waiting)
                return await waiting.answer
        except TimeoutError:
            self._cancel(request, identifier, waiting)
            text = f"no answer within {request.timeout or 0:g} s"
            raise DownstreamError(Reason.TIMEOUT, text, may_have_run=waiting.departure.sent) from None
        except asyncio.CancelledError:
            self._cancel(request, identifier, waiting)
            raise
        finally:
            del self._open[identifier]
            if waiting.answer.done() and not waiting.answer.cancelled():
                # Read here too, since an answer and a timeout may come in the same turn of the loop.
                waiting.answer.exception()

    def _cancel(self, request: Request, identifier: Id, waiting: Waiting) -> None:
        # Cancelling the waiting coroutine has cancelled the future; done otherwise means answered.
        answered = waiting.answer.done() and not waiting.answer.cancelled()
        if waiting.departure.sent and request.cancel is not None and not answered:
            method, params = request.cancel(identifier)
            self._aside(jsonrpc.encode_notification(method, params))

    def take(self, message: ServerMessage) -> None:
        """Hand one message to whom it is for; nothing after the end."""
        inbox = self._inbox
        if inbox is None:
            return
        match message:
            case ServerResult(identifier, result):
                self._answer(identifier, Reply(result))
            case ServerFailure(identifier, error):
                self._answer(identifier, Reply(None, error))
            case ServerRequest(identifier, method, params):
                answer = inbox.ask(method, params)
                self._owed.deliver(identifier, answer, lambda it: self._aside(encode_answer(identifier, it)))
            case _:
                inbox.notification(message.method, message.params)

    def _waiting(self, identifier: Id | None) -> tuple[Request, Waiting] | None:
        """Return who waits for an answer under this id: only what has left can have one."""
        found = self._open.get(identifier) if identifier is not None else None
        return found if found is not None and found[1].departure.sent and not found[1].answer.done() else None

    def _answer(self, identifier: Id | None, reply: Reply) -> None:
        found = self._waiting(identifier)
        if found is None:
            self.violation("unknown_id", printable(str(identifier), DETAIL))
            return
        request, waiting = found
        if request.on_answer is not None:
            request.on_answer()
        waiting.settle(reply)

    def garbled(self, kind: str, data: bytes, identifier: Id | None) -> bool:
        """Count what is no message; tell whether a request that it names has learned of it."""
        self.violation(kind, printable(data[: DETAIL * 4].decode("utf-8", "replace"), DETAIL))
        found = self._waiting(identifier)
        if found is None:
            return False
        text = "the server's answer is no valid message"
        found[1].settle(DownstreamError(Reason.PROTOCOL_ERROR, text, may_have_run=True))
        return True

    def violation(self, kind: str, detail: str) -> None:
        """Count something that is no MCP."""
        if self._inbox is not None:
            self._inbox.violation(kind, detail)

    def fail(self, end: DownstreamError) -> None:
        """Fail all that wait; nothing is handed on any more."""
        self._inbox = None
        self.end = self.end or end
        for _, waiting in self._open.values():
            waiting.settle(DownstreamError(end.reason, end.message, may_have_run=waiting.departure.sent))

    def finish(self, end: DownstreamError) -> None:
        """Do the same, and tell the inbox of an end that came by itself."""
        inbox = self._inbox
        self.fail(end)
        if inbox is not None:
            inbox.closed(end.message)
