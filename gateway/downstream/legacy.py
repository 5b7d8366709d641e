"""The legacy dialect: a handshake first, sessions over HTTP, notifications by themselves (2025-11-25 basic/lifecycle).

Knows MCP and one transport. Towards the gateway it is modern: results are complete, sessions are renewed in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.downstream import backoff, requests
from gateway.downstream.dialect import (
    ALL_KINDS,
    CHANGES,
    CLIENT_INFO,
    REFUSED,
    Hello,
    Page,
    Peer,
    read_hello,
    read_object,
    read_string,
    unanswered,
)
from gateway.downstream.flights import Flight, Flights
from gateway.downstream.modern import cancellation, page_of, supported_versions
from gateway.downstream.sessions import SessionTransport
from gateway.downstream.transport import Answer, Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import CAPABILITY_OF, LIST_METHOD, Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import codes, headers, meta, methods, results
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import LATEST_LEGACY, SERVER_LEGACY, Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

MAX_SESSION_ID: Final = 1024
SETTLED: Final = 30.0
_GOODBYE: Final = 5.0
_NO_STREAM: Final = frozenset({400, 404, 405, 406, 501})
"""Answers to GET that mean that there is no stream here: it is not asked for again (G024)."""
_MODERN_MEMBERS: Final = ("inputResponses", "requestState")
_log = get_logger("downstream")


class HandshakeRefused(DownstreamError):
    """The server answered the handshake, but not with a yes: it may be of the other era."""


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """What one handshake agreed on. ``id`` is "" where the server gave none (stdio, stateless HTTP)."""

    id: str
    hello: Hello

    def headers(self) -> dict[str, str]:
        """Return the headers of every later request (basic/transports §Session Management)."""
        named = {headers.VERSION: self.hello.version}
        return named | {headers.SESSION_ID: self.id} if self.id else named


async def handshake(peer: Peer, timeout: float) -> Session:
    """Initialize: ask for our newest legacy version and take any that we know.

    Raises:
        HandshakeRefused: the server answered with an error or with a version that we do not speak.
        DownstreamError: there was no answer.
    """
    reply = await _initialize(peer, LATEST_LEGACY, timeout)
    if reply.error is not None:
        known = sorted(SERVER_LEGACY.intersection(supported_versions(reply.error)))
        if known:
            reply = await _initialize(peer, known[-1], timeout)
    if reply.error is not None:
        text = f'server "{peer.name}" refused the handshake with error {reply.error.code}'
        raise HandshakeRefused(Reason.UNAVAILABLE, text)
    if reply.result is None:
        error = unanswered(peer, reply)
        if error.reason is Reason.UNAVAILABLE:
            raise error
        raise HandshakeRefused(Reason.UNAVAILABLE, error.message)
    version = read_string(reply.result, "protocolVersion")
    if version not in SERVER_LEGACY:
        text = f'server "{peer.name}" speaks no protocol version that the gateway knows'
        raise HandshakeRefused(Reason.PROTOCOL_ERROR, text)
    info = read_object(reply.result, "serverInfo")
    hello = read_hello(Era.LEGACY, version, info, reply.result)
    session = Session(_session_id(peer, reply.headers), hello)
    await peer.transport.notify(Request(methods.INITIALIZED, None, _headers(peer, session), timeout))
    return session


async def _initialize(peer: Peer, version: str, timeout: float) -> Reply:
    params: Object = {"protocolVersion": version, "capabilities": {}, "clientInfo": dict(CLIENT_INFO)}
    return await peer.transport.request(Request(methods.INITIALIZE, params, timeout=timeout))


def _session_id(peer: Peer, received: Mapping[str, str]) -> str:
    """Read the session id: visible ASCII only, since it travels back in a header."""
    value = received.get(headers.SESSION_ID.lower(), "")
    if len(value) > MAX_SESSION_ID or any(not 0x21 <= ord(char) <= 0x7E for char in value):
        raise peer.error(Reason.PROTOCOL_ERROR, "gave an unusable session id")
    return value


def _headers(peer: Peer, session: Session) -> dict[str, str]:
    return session.headers() if peer.is_http else {}


class Legacy:
    """One legacy server over one transport, initialized."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self._peer = peer
        self._session = session
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
        else:
            self._peer.events.violation("unexpected_notification")

    def ask(self, method: str, params: Members) -> Answer:
        """Answer a ping; refuse everything else, since no capability was declared (S96, S97)."""
        if method == methods.PING:
            return {}
        self._peer.events.violation("unexpected_request")
        return ErrorObject(codes.METHOD_NOT_FOUND, "Method not found")

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on.

        Raises:
            DownstreamError: there is no answer.
        """
        async with self._flights.fly(call, exchange) as flight:
            if call.log_level is not None:
                await self._raise_level(call.log_level)
            reply = await self._send(lambda session: self._request(call, flight, session))
        return self._outcome(call, reply)

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
            _headers(self._peer, session),
            on_sent=flight.mark_sent,
            on_answer=flight.mark_answered,
            on_notification=lambda method, said: self._attributed(method, said, flight),
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
            self._session = await handshake(self._peer, self._peer.timeouts.start)
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
        return Request(method, params, _headers(self._peer, session), self._peer.timeouts.call, cancel=cancellation)

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
        """Drop a renewal that still runs."""
        await self._tasks.aclose()

    async def aclose(self) -> None:
        """End the session over HTTP (basic/transports §Session Management, rule 5)."""
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
