"""The legacy dialect: a handshake first, sessions over HTTP, notifications by themselves (2025-11-25 basic/lifecycle).

Knows MCP and one transport. Towards the gateway it is modern: results are complete, sessions are renewed in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gateway.downstream import backoff, requests
from gateway.downstream.dialect import (
    ALL_KINDS,
    CHANGES,
    REFUSED,
    Hello,
    Page,
    Peer,
    read_string,
    unanswered,
)
from gateway.downstream.flights import Flight, Flights
from gateway.downstream.handshake import Session, handshake, session_headers
from gateway.downstream.modern import cancellation, page_of
from gateway.downstream.parking import Asking, ParkedCall, declined, unknown
from gateway.downstream.sessions import SessionTransport
from gateway.downstream.transport import Answer, Later, Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import CAPABILITY_OF, LIST_METHOD, Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import capabilities, codes, meta, methods, results
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

SETTLED: Final = 30.0
_GOODBYE: Final = 5.0
_SETTLE: Final = 5.0
"""Seconds for a ping behind a call that was cancelled."""
_NO_STREAM: Final = frozenset({400, 404, 405, 406, 501})
"""Answers to GET that mean that there is no stream here: it is not asked for again (G024)."""
_OF_QUESTIONS: Final = frozenset({methods.CANCELLED, methods.ELICITED})
"""What a server says of its own questions: no longer wanted, or seen to elsewhere. Its call tells what came of it."""
_MODERN_MEMBERS: Final = ("inputResponses", "requestState")
_log = get_logger("downstream")


class Legacy:
    """One legacy server over one transport, initialized."""

    def __init__(self, peer: Peer, session: Session, asking: Asking | None = None) -> None:
        self._peer = peer
        self._session = session
        self._asking = asking or Asking()
        self._parked: dict[Flight, ParkedCall] = {}
        self._turns = asyncio.Lock()
        self._doubt = False
        self._closed = False
        self._flights = Flights(
            peer.name, peer.timeouts.call, peer.timeouts.max, logs_by_request=False, violation=peer.events.violation
        )
        self._tasks = TaskSet(on_crash(_log))
        self._renewal: asyncio.Task[None] | None = None
        self._failure: DownstreamError | None = None
        self._level: str | None = None
        self._levels = asyncio.Lock()
        self._uris: frozenset[str] = frozenset()

    @property
    def hello(self) -> Hello:
        """The server's own words about itself, from the latest handshake."""
        return self._session.hello

    def notification(self, method: str, params: Members) -> None:
        """Take what the transport could not attribute: on stdio everything, over HTTP what a GET stream carries."""
        if self._flights.notification(method, params):
            return
        if method in CHANGES:
            self._peer.events.changed(CHANGES[method])
        elif method == methods.RESOURCE_UPDATED and (uri := read_string(params, "uri")) is not None:
            self._peer.events.updated(uri)
        elif method not in _OF_QUESTIONS or not self._asking.declares:
            self._peer.events.violation("unexpected_notification")

    def ask(self, method: str, params: Members) -> Answer | Later:
        """Answer a ping; take a question if it is certain which call it belongs to (S96).

        On a pipe that is the only call in flight; over HTTP the transport would have told.
        """
        return self._question(method, params, None if self._peer.is_http else self._flights.asker())

    def _question(self, method: str, params: Members, flight: Flight | None) -> Answer | Later:
        if method == methods.PING:
            return {}
        wanted = capabilities.capability_of(method)
        if wanted is None or wanted not in self._asking.declares:
            # A server must not ask for what it was not told of (S97).
            if flight is not None and wanted in flight.call.caller.capabilities and wanted not in self._peer.asks:
                flight.exchange.notes["asks"] = f"{method} declined: asks does not permit it"
            self._peer.events.violation("unexpected_request")
            return ErrorObject(codes.METHOD_NOT_FOUND, "Method not found")
        call = self._parked.get(flight) if flight is not None and not self._doubt else None
        later = call.ask(method, params) if call is not None else None
        if later is None and method != methods.ROOTS:
            _log.info("question_declined", server=self._peer.name, method=method, of_a_call=call is not None)
        return later if later is not None else declined(method, self._asking.roots)

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on; one that its server may interrupt runs in a task, so that it can be parked.

        Raises:
            DownstreamError: there is no answer.
        """
        row = methods.METHODS.get(call.method)
        if call.request_state is not None:
            return unknown(call)
        if not self._asking.declares or row is None or not row.may_ask:
            async with self._flights.fly(call, exchange) as flight:
                return await self._carry(call, flight)
        if self._closed:
            raise self._peer.error(Reason.UNAVAILABLE, "has just been closed; try again")
        parked = ParkedCall(call, exchange, self._asking, self._peer.timeouts.asks)
        return await parked.run(self._tasks, lambda: self._carry_asking(parked))

    async def _carry(self, call: Call, flight: Flight) -> Outcome:
        if call.log_level is not None:
            await self._raise_level(call.log_level)
        return self._outcome(call, await self._send(lambda session: self._request(call, flight, session)))

    async def _carry_asking(self, parked: ParkedCall) -> Outcome:
        with self._asking.use():
            async with self._turn(), self._flights.fly(parked.call, parked.exchange) as flight:
                parked.flight = flight
                self._parked[flight] = parked
                try:
                    outcome = await self._carry(parked.call, flight)
                except BaseException:
                    # Cancelled or timed out: its server may be about to ask for it still.
                    self._doubt |= not self._peer.is_http and flight.sent
                    raise
                finally:
                    del self._parked[flight]
        return outcome

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until no other call on this pipe can be asked for: only then is it certain whose a question is.

        Raises:
            DownstreamError: ``overloaded``: the other one takes too long.
        """
        if self._peer.is_http:
            yield
            return
        try:
            async with asyncio.timeout(self._peer.timeouts.call):
                await self._turns.acquire()
        except TimeoutError:
            text = f'server "{self._peer.name}" waits for another call of yours to be answered; nothing was sent'
            raise DownstreamError(Reason.OVERLOADED, text) from None
        try:
            await self._settle()
            yield
        finally:
            self._turns.release()

    async def _settle(self) -> None:
        """See a server past the cancellation of a call before the next: what it asks after the ping is the next's."""
        if not self._doubt:
            return
        try:
            await self._peer.transport.request(Request(methods.PING, None, timeout=_SETTLE))
        except DownstreamError as error:
            _log.info("questions_in_doubt", server=self._peer.name, reason=error.message)
        else:
            self._doubt = False

    async def _send(self, build: Callable[[Session], Request]) -> Reply:
        """Send; where the session has ended, start a new one and send once more: nothing ran (G031)."""
        session = self._session
        reply = await self._peer.transport.request(build(session))
        if not _expired(reply, session):
            return reply
        return await self._peer.transport.request(build(await self._renew(session)))

    def _request(self, call: Call, flight: Flight, session: Session) -> Request:
        own = requests.call_meta(call, flight.token)
        params: Object = {key: item for key, item in call.params.items() if key not in _MODERN_MEMBERS}
        return Request(
            call.method,
            params | {"_meta": own} if own else params,
            session_headers(self._peer, session),
            on_sent=flight.mark_sent,
            on_answer=flight.mark_answered,
            on_notification=lambda method, said: self._attributed(method, said, flight),
            on_ask=lambda method, said: self._question(method, said, flight),
            cancel=cancellation,
        )

    def _attributed(self, method: str, params: Members, flight: Flight) -> None:
        """Take what came on a call's own stream; changes may come on any stream of this era."""
        if not self._flights.notification(method, params, flight):
            self.notification(method, params)

    def _outcome(self, call: Call, reply: Reply) -> Outcome:
        if reply.status in REFUSED:
            raise unanswered(self._peer, reply)
        if reply.error is not None:
            text = f'server "{self._peer.name}" answered with an error'
            return Failure(Reason.PROTOCOL_ERROR, text, error=reply.error)
        if reply.result is None:
            raise unanswered(self._peer, reply)
        if "task" in call.params and "task" in reply.result:
            return Started(reply.result)
        return Complete(results.with_type(reply.result))

    async def _renew(self, stale: Session) -> Session:
        """Replace an ended session, once for everybody who waits.

        Raises:
            DownstreamError: the server gives no new one.
        """
        if self._session is stale:
            if self._renewal is None:
                self._renewal = self._tasks.start(self._renewed(), f"session {self._peer.name}")
            # ``wait`` leaves the renewal alone when one of the waiting calls is cancelled.
            await asyncio.wait([self._renewal])
        if self._session is stale:
            raise self._failure or self._peer.error(Reason.UNAVAILABLE, "gives no new session")
        return self._session

    async def _renewed(self) -> None:
        try:
            self._session = await handshake(self._peer, self._peer.timeouts.start, self._asking.declares)
            self._failure, self._level = None, None
            _log.info("session_renewed", server=self._peer.name)
        except DownstreamError as error:
            self._failure = error
            return
        finally:
            self._renewal = None
        # The server may have been replaced; what it offers must be read again, and our wishes told again.
        self._peer.events.changed(ALL_KINDS)
        if self._uris:
            self._tasks.start(self._wish_again(), f"subscriptions {self._peer.name}")

    async def _wish_again(self) -> None:
        for uri in sorted(self._uris):
            await self._wish(methods.RESOURCES_SUBSCRIBE, uri)

    async def _raise_level(self, level: str) -> None:
        """Make the server log at least this much; it is one level for the whole connection, so it only grows."""
        if not self.hello.has("logging") or level not in meta.LOG_LEVELS:
            return
        async with self._levels:
            if self._level is not None and meta.LOG_LEVELS.index(self._level) <= meta.LOG_LEVELS.index(level):
                return
            try:
                reply = await self._send(lambda session: self._plain(methods.SET_LEVEL, {"level": level}, session))
            except DownstreamError as error:
                # The call itself is worth more than its log messages.
                _log.info("log_level_failed", server=self._peer.name, reason=error.message)
                return
            if reply.result is not None:
                self._level = level

    def _plain(self, method: str, params: Object | None, session: Session) -> Request:
        """Build a request of our own, with no client behind it."""
        return Request(
            method, params, session_headers(self._peer, session), self._peer.timeouts.call, cancel=cancellation
        )

    async def page(self, kind: Kind, cursor: str | None) -> Page:
        """Fetch one page of a list; empty where the server does not offer the kind.

        Raises:
            DownstreamError: there is no usable answer.
        """
        if not self.hello.has(CAPABILITY_OF[kind]):
            return Page([])
        params: Object | None = None if cursor is None else {"cursor": cursor}
        reply = await self._send(lambda session: self._plain(LIST_METHOD[kind], params, session))
        return page_of(self._peer, kind, reply)

    async def listen(self) -> None:
        """Hear of changes: over HTTP on a GET stream, where the server offers one; elsewhere by themselves."""
        transport = self._peer.transport
        if not isinstance(transport, SessionTransport):
            return
        loop = asyncio.get_running_loop()
        failures, gap = 0, False

        def opened() -> None:
            # What was said while there was no stream is lost, unless the server itself closed the last one.
            if gap:
                self._peer.events.changed(ALL_KINDS)

        while True:
            session, began = self._session, loop.time()
            try:
                status = await transport.stream(session.headers(), opened)
                if status == 404 and session.id:
                    await self._renew(session)
                elif status in _NO_STREAM:
                    return
                gap = status >= 400
            except DownstreamError as error:
                _log.info("stream_lost", server=self._peer.name, reason=error.message)
                gap = True
            failures = 1 if loop.time() - began >= SETTLED else failures + 1
            await asyncio.sleep(backoff.delay(failures, 1.0))

    async def subscribe(self, uris: frozenset[str]) -> None:
        """Make these the resources whose updates are heard of; nothing where the server has no such feature."""
        old, self._uris = self._uris, uris
        if not self.hello.flag("resources", "subscribe"):
            return
        for uri in sorted(uris - old):
            await self._wish(methods.RESOURCES_SUBSCRIBE, uri)
        for uri in sorted(old - uris):
            await self._wish(methods.RESOURCES_UNSUBSCRIBE, uri)

    async def _wish(self, method: str, uri: str) -> None:
        """Ask for updates of one resource, or no more of them; a server that refuses is left alone."""
        try:
            reply = await self._send(lambda session: self._plain(method, {"uri": uri}, session))
        except DownstreamError as error:
            _log.info("subscription_failed", server=self._peer.name, reason=error.message)
            return
        if reply.error is not None:
            _log.info("subscription_refused", server=self._peer.name, code=reply.error.code)

    async def abandon(self) -> None:
        """Drop what still runs."""
        self._closed = True
        await self._tasks.aclose()

    async def aclose(self) -> None:
        """End the session over HTTP (basic/transports §Session Management, rule 5)."""
        self._closed = True
        await self._tasks.aclose()
        transport = self._peer.transport
        if self._session.id and isinstance(transport, SessionTransport):
            try:
                async with asyncio.timeout(_GOODBYE):
                    await transport.end_session(self._session.headers())
            except (DownstreamError, TimeoutError) as error:
                _log.info("session_left", server=self._peer.name, error=type(error).__name__)


def _expired(reply: Reply, session: Session) -> bool:
    """Tell whether the server no longer knows our session (§Session Management, rules 3 and 4; G033 for the 400)."""
    if not session.id:
        return False
    about_session = reply.error is not None and "session" in reply.error.message.lower()
    return reply.status == 404 or (reply.status == 400 and about_session)
