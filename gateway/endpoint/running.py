"""Calls while they run: how one is stopped for a reason, and how the last ones are ended when the gateway drains.

Turns whatever a chain raises into an outcome, so that no call ends without an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gateway.endpoint.expiry import CALL_GRACE, ended_with
from gateway.endpoint.services import Moment
from gateway.errors import AuditUnavailable, DownstreamError, Reason, RequestError
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome
from gateway.model.principal import Principal
from gateway.protocol import codes, rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import frames_of, get_logger

_log = get_logger("endpoint")

_STOPPED: Final = {
    Reason.CANCELLED: "The client cancelled this call.",
    Reason.DENIED: "This client was removed from the gateway's config, which ended this call.",
    Reason.OVERLOADED: "The gateway is shutting down and ended this call. Try again in a few seconds.",
}
_EXPIRED: Final = "The token this call came with has expired, which ended the call. Sign in again, then try again."
_NO_RECORD = "The gateway's audit log cannot be written, and without a record no call is made. Tell its operators."


@dataclass(slots=True, eq=False)
class Ticket:
    """One running call. ``reason`` is set by whoever stops it; without one a cancellation is the client's leaving."""

    task: asyncio.Task[object] | None = None
    reason: Reason | None = None
    expired: bool = False

    def stop(self, reason: Reason) -> None:
        """End the call: it is answered with ``reason``."""
        if self.reason is None and self.task is not None:
            self.reason = reason
            self.task.cancel()

    def expire(self) -> None:
        """End the call because the credential it came with is over."""
        if self.reason is None:
            self.expired = True
            self.stop(Reason.DENIED)


class Running:
    """Every call in flight at this endpoint, and the requests that may become one or wait for their answer's end."""

    def __init__(self) -> None:
        self._tickets: dict[Ticket, Principal] = {}
        self._requests = 0
        self._over = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._tickets)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Have a drain wait for a request while the body serves it: what was let in is answered."""
        self._requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._requests -= 1
            self._settle()

    def _settle(self) -> None:
        if not self._tickets and not self._requests:
            self._idle.set()

    async def run(self, moment: Moment, call: Call, exchange: Exchange, ticket: Ticket) -> Outcome:
        """Run a call to its outcome in the current task.

        Raises:
            CancelledError: nobody stopped the call, so the client has gone.
        """
        if self._over:
            ticket.reason = Reason.OVERLOADED
            return _stopped(ticket, exchange, call)
        ticket.task = asyncio.current_task()
        self._tickets[ticket] = call.principal
        self._idle.clear()
        try:
            with ended_with(call.principal, ticket.expire, CALL_GRACE):
                return await _outcome(moment, call, exchange)
        except asyncio.CancelledError:
            if ticket.reason is None or ticket.task is None:
                raise
            ticket.task.uncancel()
            return _stopped(ticket, exchange, call)
        finally:
            self._tickets.pop(ticket, None)
            self._settle()

    def stop(self, reason: Reason, whose: Callable[[Principal], bool]) -> None:
        """End the calls of some principals."""
        for ticket, principal in tuple(self._tickets.items()):
            if whose(principal):
                ticket.stop(reason)

    async def drain(self, timeout: float) -> None:
        """Wait until no call runs, at most ``timeout`` seconds, then stop those that still do and those that come late.

        A drain that is cancelled stops them at once: they are answered all the same.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            pass
        finally:
            self._over = True
            for ticket in tuple(self._tickets):
                ticket.stop(Reason.OVERLOADED)


def _stopped(ticket: Ticket, exchange: Exchange, call: Call) -> Failure:
    reason = ticket.reason or Reason.CANCELLED
    text = _EXPIRED if ticket.expired else _STOPPED.get(reason, "This call was stopped.")
    return Failure(reason, f"{text} {_ran(exchange, call)}", _may_have_run(exchange, call))


def _may_have_run(exchange: Exchange, call: Call) -> bool:
    """Whether any round of a call can have reached its server."""
    return exchange.dispatched or call.round > 1


def _ran(exchange: Exchange, call: Call) -> str:
    return "It may have run in part." if _may_have_run(exchange, call) else "It did not run."


async def _outcome(moment: Moment, call: Call, exchange: Exchange) -> Outcome:
    try:
        return await moment.run(call, exchange)
    except DownstreamError as error:
        return Failure.of(error)
    except AuditUnavailable:
        return Failure(Reason.AUDIT_UNAVAILABLE, f"{_NO_RECORD} {_ran(exchange, call)}", _may_have_run(exchange, call))
    except RequestError as error:
        data = None if error.data is None else rawjson.raw(error.data)
        return _error(error.code, error.message, data)
    except Exception as error:  # noqa: BLE001 - the root of a call: whatever broke, the client gets an answer.
        _log.error(
            "call_crashed",
            call=call.id,
            trace=call.trace_id,
            method=call.method,
            error=type(error).__name__,
            frames=frames_of(error),
        )
        told: Object = {"source": "gateway", "mayHaveRun": _may_have_run(exchange, call)}
        text = f"Internal error of the gateway; its log has the details. {_ran(exchange, call)}"
        return _error(codes.INTERNAL_ERROR, text, rawjson.raw(told))


def _error(code: int, message: str, data: rawjson.Raw | None) -> Failure:
    return Failure(Reason.PROTOCOL_ERROR, message, error=ErrorObject(code, message, data))
