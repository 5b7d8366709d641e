"""The legacy dialect: a handshake first, sessions over HTTP, notifications by themselves (2025-11-25 basic/lifecycle).

Knows MCP and one transport. Towards the gateway it is modern: results are complete, sessions are renewed in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gateway.downstream import backoff, requests, tasks
from gateway.downstream.dialect import (
    ALL_KINDS,
    CHANGES,
    Hello,
    Page,
    Peer,
    read_string,
)
from gateway.downstream.flights import Flight, Flights
from gateway.downstream.handshake import Session, handshake, session_headers
from gateway.downstream.level import Level
from gateway.downstream.modern import cancellation, page_of
from gateway.downstream.parking import Asking, ParkedCall, unknown
from gateway.downstream.questions import declined, told
from gateway.downstream.sessions import SessionTransport
from gateway.downstream.transport import Answer, Later, Reply, Request
from gateway.downstream.turns import Turns
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Beyond, Call
from gateway.model.catalog import CAPABILITY_OF, LIST_METHOD, Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.protocol import capabilities, codes, meta, methods
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.tasks import read, related
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

SETTLED: Final = 30.0
_GOODBYE: Final = 5.0
_SETTLE: Final = 5.0
"""Seconds for a ping behind a call that was cancelled."""
STREAM_WAIT: Final = 2.0
"""Seconds that the first calls wait for a server to agree to the stream on which it may ask."""
_NO_STREAM: Final = frozenset({400, 404, 405, 406, 501})
"""Answers to GET that mean that there is no stream here: it is not asked for again (G024)."""
_MODERN_MEMBERS: Final = ("inputResponses", "requestState")
_log = get_logger("downstream")


class Legacy:
    """One legacy server over one transport, initialized."""

    def __init__(self, peer: Peer, session: Session, asking: Asking | None = None) -> None:
        self._peer = peer
        self._session = session
        self._asking = asking or Asking()
        self._parked: dict[Flight, ParkedCall] = {}
        self._doubt = False
        self._asks_aside = False
        self._hears = asyncio.Event()
        self._hears.set()
        self._closed = False
        self._flights = Flights(
            peer.name, peer.timeouts.call, peer.timeouts.max, logs_by_request=False, violation=peer.events.violation
        )
        self._tasks = TaskSet(on_crash(_log))
        self._renewal: asyncio.Task[None] | None = None
        self._failure: DownstreamError | None = None
        self._level = Level(peer.name, self._log_at)
        self._uris: frozenset[str] = frozenset()

    @property
    def hello(self) -> Hello:
        """The server's own words about itself, from the latest handshake."""
        return self._session.hello

    def notification(self, method: str, params: Members) -> None:
        """Take what the transport could not attribute: on stdio everything, over HTTP what a GET stream carries."""
        if self._flights.notification(method, params):
            return
        if not self._peer.is_http and self._flights.relay(method, params, self.hello.capabilities):
            return
        if method in CHANGES:
            self._peer.events.changed(CHANGES[method])
        elif method == methods.RESOURCE_UPDATED and (uri := read_string(params, "uri")) is not None:
            self._peer.events.updated(uri)
        elif method == methods.TASK_STATUS and (task := read(params, Era.LEGACY)) is not None:
            self._peer.events.tasked(task.id, params)
        elif not (self._asking.declares and told(self._peer, method, params)):
            self._peer.events.violation("unexpected_notification")

    def ask(self, method: str, params: Members) -> Answer | Later:
        """Answer a ping; take a question if it is certain which call it belongs to (S96): the only one in flight.

        On a pipe all questions come like this. Over HTTP most servers ask on the stream of the call itself, but some on
        the one that belongs to no call: from the first such question on, their calls take turns too.
        """
        if method in (methods.ELICIT, methods.SAMPLE) and self._peer.is_http:
            self._asks_aside = True
        return self._question(method, params, self._asker(params))

    def _asker(self, params: Members) -> Flight | None:
        """Return whose question this is: that of the task it names, else that of the only call that may be asked."""
        if (task := related(params)) is not None:
            return next((flight for flight in self._parked if flight.task == task), None)
        return None if self._doubt else self._flights.asker()

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
        call = self._parked.get(flight) if flight is not None else None
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
            return unknown(call, exchange)
        may_ask = row is not None and (row.may_ask or row.name == methods.TASKS_RESULT)
        if not self._asking.declares or not may_ask:
            async with self._flights.fly(call, exchange) as flight:
                return await self._carry(call, flight)
        if self._closed:
            raise self._peer.error(Reason.UNAVAILABLE, "has just been closed; try again")
        parked = ParkedCall(call, exchange, self._asking, self._peer.timeouts.asks)
        return await parked.run(self._tasks, lambda: self._carry_asking(parked))

    async def _carry(self, call: Call, flight: Flight) -> Outcome:
        if call.log_level in meta.LOG_LEVELS and self.hello.has("logging"):
            await self._level.reach(call.log_level)
        if not tasks.must_be_task(call, self.hello):
            return await self._one(call, flight)
        running = tasks.Running(call, flight, lambda about: self._one(about, flight), self._give_up)
        return await running.run(self._peer.timeouts.max)

    async def _one(self, call: Call, flight: Flight) -> Outcome:
        """Send one request of a call."""
        reply = await self._send(lambda session: self._request(call, flight, session))
        return tasks.outcome(self._peer, call, reply)

    def _give_up(self, cancel: Call) -> None:
        """Cancel a task that nobody waits for; its call has ended, so this has a life of its own."""
        if not self._closed:
            self._tasks.start(self._let_go(cancel), f"cancel {self._peer.name}")

    async def _let_go(self, cancel: Call) -> None:
        try:
            await self._send(lambda session: self._plain(cancel.method, cancel.params, session))
        except DownstreamError as error:
            _log.info("task_left", server=self._peer.name, reason=error.message)

    async def _log_at(self, level: str) -> Reply:
        return await self._send(lambda session: self._plain(methods.SET_LEVEL, {"level": level}, session))

    async def _carry_asking(self, parked: ParkedCall) -> Outcome:
        with self._asking.use():
            await self._until_heard()
            async with self._turn(parked.call) as turns, self._flights.fly(parked.call, parked.exchange) as flight:
                parked.flight, parked.turns = flight, turns
                self._parked[flight] = parked
                try:
                    outcome = await self._carry(parked.call, flight)
                except BaseException:
                    # Cancelled or timed out: its server may be about to ask for it still.
                    self._doubt |= flight.sent and flight.task is None
                    raise
                finally:
                    del self._parked[flight]
                    parked.turns = None
        return outcome

    async def _until_heard(self) -> None:
        """Wait until what a server asks aside of its calls can be heard, or is known to be nothing."""
        try:
            async with asyncio.timeout(STREAM_WAIT):
                await self._hears.wait()
        except TimeoutError:
            self._hears.set()

    @asynccontextmanager
    async def _turn(self, call: Call) -> AsyncIterator[Turns | None]:
        """Wait until no other call here can be asked for, where only then it is certain whose a question is.

        Raises:
            DownstreamError: ``overloaded``: the other one takes too long, or waits for people.
        """
        if call.method == methods.TASKS_RESULT or (self._peer.is_http and not self._asks_aside):
            yield None
            return
        async with self._asking.turns.take(self._peer.timeouts.call):
            await self._settle()
            yield self._asking.turns

    async def _settle(self) -> None:
        """See a server past the cancellation of a call before the next: what it asks after the ping is the next's."""
        if not self._doubt:
            return
        try:
            headers = session_headers(self._peer, self._session)
            await self._peer.transport.request(Request(methods.PING, None, headers, _SETTLE))
        except DownstreamError as error:
            _log.info("questions_in_doubt", server=self._peer.name, reason=error.message)
        else:
            self._doubt = False

    async def _send(self, build: Callable[[Session], Request]) -> Reply:
        """Send; where the session has ended, start a new one and send once more: nothing ran (G031)."""
        session = self._session
        reply = await self._peer.request(build(session), session.hello.version)
        if not _expired(reply, session):
            return reply
        renewed = await self._renew(session)
        return await self._peer.request(build(renewed), renewed.hello.version)

    def _request(self, call: Call, flight: Flight, session: Session) -> Request:
        own = requests.call_meta(call, flight.token)
        params: Object = {key: item for key, item in call.params.items() if _travels(call, key)}
        return Request(
            call.method,
            params | {"_meta": own} if own else params,
            session_headers(self._peer, session),
            on_sent=flight.mark_sent,
            on_answer=None if tasks.must_be_task(flight.call, self.hello) else flight.mark_answered,
            on_notification=lambda method, said: self._attributed(method, said, flight),
            on_ask=lambda method, said: self._question(method, said, flight),
            cancel=cancellation,
        )

    def _attributed(self, method: str, params: Members, flight: Flight) -> None:
        """Take what came on a call's own stream; changes may come on any stream of this era."""
        relayed = self._flights.relay(method, params, self.hello.capabilities, flight)
        if not (relayed or self._flights.notification(method, params, flight)):
            self.notification(method, params)

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
            self._session = await handshake(self._peer, self._peer.timeouts.start, self._asking.capabilities)
            self._failure = None
            self._level.forget()
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
            self._peer.events.updated(uri)

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
        self._hears.clear()
        try:
            await self._streams(transport)
        finally:
            self._hears.set()

    async def _streams(self, transport: SessionTransport) -> None:
        """Have one stream after the other, until the server has none."""
        loop = asyncio.get_running_loop()
        failures, gap = 0, False

        def opened() -> None:
            self._hears.set()
            # What was said while there was no stream is lost, unless the server itself closed the last one.
            if gap:
                self._peer.events.missed(ALL_KINDS, self._uris)

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
            if self._asks_aside:
                # Nobody hears a question until there is a stream again.
                self._hears.clear()
            failures = 1 if loop.time() - began >= SETTLED else failures + 1
            await asyncio.sleep(backoff.delay(failures, 1.0))

    async def subscribe(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
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


def _travels(call: Call, key: str) -> bool:
    """Tell whether a member means anything here; of a method that is not known, every one may."""
    return call.target.kind is Beyond.METHOD or key not in _MODERN_MEMBERS


def _expired(reply: Reply, session: Session) -> bool:
    """Tell whether the server no longer knows our session (§Session Management, rules 3 and 4; G033 for the 400)."""
    if not session.id:
        return False
    about_session = reply.error is not None and "session" in reply.error.message.lower()
    return reply.status == 404 or (reply.status == 400 and about_session)
