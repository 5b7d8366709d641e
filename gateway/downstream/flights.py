"""The calls in flight on one connection: their deadlines, and which of them a notification belongs to.

Tokens towards a server are ours and unique on the connection; towards the client they are its own again (S94).
Knows both eras only by one flag; sends nothing itself.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.downstream.dialect import read_string
from gateway.downstream.progress import LOG_BURST, LOG_PER_SECOND, Bucket, Pacer
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.protocol import capabilities, meta, methods, rawjson
from gateway.protocol.rawjson import JsonError, Members, Object


@dataclass(eq=False, slots=True)
class Flight:
    """One call on its way. ``token`` is what the server was told, None where the client asked for no progress."""

    call: Call
    exchange: Exchange
    token: str | None
    timer: asyncio.Timeout
    latest: float
    pacer: Pacer
    logs: Bucket
    call_timeout: float
    sent: bool = False
    landed: bool = False
    held_at: float | None = None
    """Loop time since which the call waits for people, None while it does not."""
    task: str | None = None
    """The task whose result it waits for: questions that name it are its own."""

    def mark_sent(self) -> None:
        """Note that the first byte is about to leave."""
        self.sent = True
        self.landed = False
        self.exchange.mark_dispatched()

    def mark_answered(self) -> None:
        """Note that the answer is here: what the server still says of this call is too late (G054)."""
        self.landed = True

    def hold(self, seconds: float) -> None:
        """Stop the clock: the call now waits for people, and no longer than so many seconds."""
        self.held_at = asyncio.get_running_loop().time()
        if not self.landed and not self.timer.expired():
            self.timer.reschedule(self.held_at + seconds)

    def go_on(self) -> None:
        """Start the clock again: the wait for people counts against neither limit of the call."""
        now = asyncio.get_running_loop().time()
        if self.held_at is not None:
            self.latest += now - self.held_at
            self.held_at = None
        self.extend(now)

    def extend(self, now: float) -> None:
        """Give the call its time again, up to the longest that any may take."""
        if not self.landed and not self.timer.expired():
            self.timer.reschedule(min(now + self.call_timeout, self.latest))


@dataclass(slots=True)
class Flights:
    """The calls in flight on one connection.

    ``call_timeout`` and ``max_timeout`` are seconds. With ``logs_by_request`` a server logs only for requests that
    asked (modern), else for the connection (legacy).
    """

    server: str
    call_timeout: float
    max_timeout: float
    logs_by_request: bool
    violation: Callable[[str], None]
    _active: set[Flight] = field(default_factory=set)
    _by_token: dict[str, Flight] = field(default_factory=dict)
    _tokens: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def __len__(self) -> int:
        return len(self._active)

    @asynccontextmanager
    async def fly(self, call: Call, exchange: Exchange) -> AsyncIterator[Flight]:
        """Register a call while the body runs, under its deadline.

        Raises:
            DownstreamError: ``timeout``; the body was cancelled, which is the sign to cancel towards the server.
        """
        loop = asyncio.get_running_loop()
        # The result of a task comes when the task is over, which nothing announces.
        patience = self.max_timeout if call.method == methods.TASKS_RESULT else self.call_timeout
        timer = asyncio.timeout(min(patience, self.max_timeout))
        token = f"g{next(self._tokens)}" if call.progress_token is not None else None
        flight = Flight(
            call,
            exchange,
            token,
            timer,
            loop.time() + self.max_timeout,
            # The exchange may be another one after a wait for people.
            Pacer(lambda params: flight.exchange.notify(methods.PROGRESS, params), loop),
            Bucket(LOG_BURST, LOG_PER_SECOND, loop.time),
            self.call_timeout,
            task=call.task.id if call.task is not None and call.method == methods.TASKS_RESULT else None,
        )
        self._active.add(flight)
        if token is not None:
            self._by_token[token] = flight
        try:
            async with timer:
                yield flight
        except TimeoutError:
            if not timer.expired():
                raise
            raise self._timeout(flight) from None
        finally:
            flight.landed = True
            flight.pacer.close()
            self._active.discard(flight)
            if token is not None:
                self._by_token.pop(token, None)

    def _timeout(self, flight: Flight) -> DownstreamError:
        text = f'server "{self.server}" did not answer in time'
        if flight.held_at is not None:
            text = f'server "{self.server}" needed an answer of the client, which did not come in time'
        return DownstreamError(Reason.TIMEOUT, text, may_have_run=flight.sent)

    def notification(self, method: str, params: Members, flight: Flight | None = None) -> bool:
        """Deliver progress and log messages; False where the method is another one.

        ``flight`` is set where the transport knows which request it belongs to.
        """
        match method:
            case methods.PROGRESS:
                self._progress(params, flight)
            case methods.LOG_MESSAGE:
                self._log(params, flight)
            case _:
                return False
        return True

    def relay(self, method: str, params: Members, server: Object, flight: Flight | None = None) -> bool:
        """Deliver a notification of an extension that client and server both declare; False for any other one.

        On a shared channel it belongs to the only call there is, or to none.
        """
        owner = flight if flight is not None or len(self._active) != 1 else next(iter(self._active))
        if owner is None or methods.is_core(method):
            return False
        if not capabilities.agreed(owner.call.caller.capabilities, server):
            return False
        if not owner.landed and owner.logs.take() == 0:
            owner.exchange.notify(method, meta.without_reserved(params))
        return True

    def _progress(self, params: Members, flight: Flight | None) -> None:
        owner = self._by_token.get(read_string(params, meta.PROGRESS_TOKEN) or "")
        if owner is None or owner.landed or (flight is not None and owner is not flight):
            self.violation("bad_progress")
            return
        try:
            progress = rawjson.decode_value(params["progress"]) if "progress" in params else None
        except JsonError:
            progress = None
        if isinstance(progress, bool) or not isinstance(progress, (int, float)):
            self.violation("bad_progress")
            return
        if owner.call.progress_token is None:
            # The client asked for progress at first, and no more when it went on.
            return
        renamed = meta.without_reserved(params) | {meta.PROGRESS_TOKEN: rawjson.raw(owner.call.progress_token)}
        if not owner.pacer.offer(progress, renamed):
            self.violation("bad_progress")
        elif owner.held_at is None:
            owner.extend(asyncio.get_running_loop().time())

    def _log(self, params: Members, flight: Flight | None) -> None:
        owner = flight if flight is not None else self._sole()
        if owner is None:
            self.violation("unattributed_log")
            return
        asked, level = owner.call.log_level, read_string(params, "level")
        if not owner.landed and meta.is_logged(level, asked) and owner.logs.take() == 0:
            owner.exchange.notify(methods.LOG_MESSAGE, meta.without_reserved(params))

    def asker(self) -> Flight | None:
        """Return the only call that a server's request can belong to; guessing is not allowed (S96)."""
        rows = [(flight, methods.METHODS.get(flight.call.method)) for flight in self._active]
        asking = [f for f, row in rows if row is not None and row.may_ask and f.sent and not f.landed]
        return asking[0] if len(asking) == 1 else None

    def _sole(self) -> Flight | None:
        """Return the only call that a message without an address can be for; guessing is not allowed."""
        candidates = [f for f in self._active if f.call.log_level is not None or not self.logs_by_request]
        return candidates[0] if len(candidates) == 1 else None
