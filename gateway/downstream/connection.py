"""One live transport and the dialect spoken over it, from the first byte to the last.

Finds the era, keeps the state and the count of calls in flight; knows no other connection and no principal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.config.servers import Server
from gateway.downstream.dialect import Dialect, Events, Hello, Page, Peer, VersionRefused
from gateway.downstream.fingerprint import SHORT
from gateway.downstream.handshake import HandshakeRefused, NoEndpoint, handshake
from gateway.downstream.legacy import Legacy
from gateway.downstream.modern import Modern
from gateway.downstream.parking import Asking
from gateway.downstream.probe import Finding, probe
from gateway.downstream.transport import Answer, Later, Transport
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import codes, methods, rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

MakeTransport = Callable[[str, Server], Transport]
"""Makes a transport that is not open yet, from a server's name and config."""

OLDER_TIMEOUT: Final = 10.0
"""Seconds for a server that takes no POST to show the transport of 2024-11-05; it does so at once, or it has none."""

_log = get_logger("downstream")
_NO_VALUES: Final = rawjson.raw({"values": []})


class State(StrEnum):
    """``failed``: the transport ended by itself. ``closed`` is the end of every path."""

    STARTING = "starting"
    UP = "up"
    FAILED = "failed"
    CLOSING = "closing"
    CLOSED = "closed"


_NEXT: Final = {
    State.STARTING: frozenset({State.UP, State.FAILED, State.CLOSING}),
    State.UP: frozenset({State.FAILED, State.CLOSING}),
    State.FAILED: frozenset({State.CLOSING}),
    State.CLOSING: frozenset({State.CLOSING, State.CLOSED}),
    State.CLOSED: frozenset[State](),
}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a connection is made from. ``era`` is what the server spoke last time; ``fingerprint`` the config's."""

    name: str
    server: Server
    make: MakeTransport
    fingerprint: str = ""
    era: Era | None = None
    events: Events = field(default_factory=Events)
    listens: bool = False
    """Whether this connection hears of changes: the catalog's does, others have no use for them."""
    asking: Asking = field(default_factory=Asking)


class Wire:
    """One open transport, and who hears what it says; a probe may use up one before the connection has its own."""

    def __init__(self, transport: Transport, events: Events, on_closed: Callable[[Wire, str], None]) -> None:
        self.transport = transport
        self.dialect: Dialect | None = None
        self.over = False
        self._events = events
        self._on_closed = on_closed

    def notification(self, method: str, params: Members) -> None:
        """Hand a notification to the dialect; before there is one nothing can be meant for us."""
        if self.dialect is not None:
            self.dialect.notification(method, params)

    def ask(self, method: str, params: Members) -> Answer | Later:
        """Let the dialect answer; before the handshake a ping is all that a server may send."""
        if self.dialect is not None:
            return self.dialect.ask(method, params)
        return {} if method == methods.PING else ErrorObject(codes.METHOD_NOT_FOUND, "Method not found")

    def violation(self, kind: str, detail: str) -> None:
        """Count it."""
        self._events.violation(kind)

    def closed(self, reason: str) -> None:
        """Note the end."""
        self.over = True
        self._on_closed(self, reason)


class Connection:
    """One conversation with a server; used up when it is over."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._wire: Wire | None = None
        self._dialect: Dialect | None = None
        self._tasks = TaskSet(on_crash(_log))
        self._closing: asyncio.Lock = asyncio.Lock()
        self._listening = setup.listens
        self.state = State.STARTING
        self.reason = ""
        self.opened_at = 0.0
        self.in_flight = 0
        self.over = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Tell whether calls can be sent."""
        return self.state is State.UP

    @property
    def hello(self) -> Hello:
        """The server's own words about itself.

        Raises:
            DownstreamError: it has not said any yet.
        """
        return self._speaking().hello

    @property
    def instance(self) -> str:
        """A short name of what is reached, "" before it is."""
        return self._wire.transport.instance if self._wire is not None else ""

    def _move(self, state: State) -> None:
        if state not in _NEXT[self.state]:
            raise RuntimeError(f"connection moved from {self.state} to {state}")
        self.state = state

    async def open(self) -> Hello:
        """Reach the server and find a common language, within ``timeouts.start``.

        Raises:
            DownstreamError: it did not work; nothing is left behind.
        """
        if self.state is not State.STARTING:
            raise RuntimeError("a connection is opened once")
        seconds = self._setup.server.timeouts.start
        try:
            async with asyncio.timeout(seconds) as timer:
                dialect = await self._meet()
        except TimeoutError:
            await self.aclose()
            if not timer.expired():
                raise
            text = f'server "{self._setup.name}" did not get ready within {seconds:g} s'
            raise DownstreamError(Reason.UNAVAILABLE, text) from None
        except DownstreamError as error:
            await self.aclose()
            raise named(self._setup.name, error) from None
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if self._wire is None or self._wire.over:
            await self.aclose()
            raise DownstreamError(Reason.UNAVAILABLE, f'server "{self._setup.name}" ended right after its start')
        self._dialect = dialect
        self.opened_at = time.monotonic()
        self._move(State.UP)
        # A server of the legacy era may ask on the stream that belongs to no call.
        if self._setup.listens or (self._setup.asking.declares and dialect.hello.era is Era.LEGACY):
            self._tasks.start(self._listen(dialect), f"listen {self._setup.name}")
        return dialect.hello

    async def _listen(self, dialect: Dialect) -> None:
        try:
            await dialect.listen()
        except DownstreamError as error:
            _log.info("listen_ended", server=self._setup.name, reason=error.message)

    async def _meet(self) -> Dialect:
        """Find the era as configured, remembered or probed, in this order."""
        configured = self._setup.server.protocol if self._setup.server.transport != "sse" else "legacy"
        if configured == "legacy" or (configured == "auto" and self._setup.era is Era.LEGACY):
            wire = await self._open_wire()
            try:
                return await self._greet(wire)
            except HandshakeRefused:
                if configured == "legacy":
                    raise
                _log.info("era_doubted", server=self._setup.name)
        return await self._probe(must_be_modern=configured == "modern")

    async def _probe(self, *, must_be_modern: bool) -> Dialect:
        timeouts = self._setup.server.timeouts
        wire = await self._live_wire()
        known = must_be_modern or self._setup.era is not None or wire.transport.kind == "http"
        finding = await probe(self._peer(wire), timeouts.start if known else timeouts.probe)
        if finding.era is Era.MODERN:
            return self._modern(wire, finding)
        if must_be_modern:
            raise DownstreamError(Reason.PROTOCOL_ERROR, f'server "{self._setup.name}" does not speak the modern era')
        # A server that gave up over the probe is started once more, and not probed again.
        wire = await self._live_wire()
        try:
            return await self._greet(wire)
        except HandshakeRefused:
            if finding.certain:
                raise
        # It was silent but not legacy: a modern server that is slow to start is asked again, without haste.
        wire = await self._live_wire()
        finding = await probe(self._peer(wire), timeouts.start)
        if finding.era is Era.MODERN:
            return self._modern(wire, finding)
        raise DownstreamError(Reason.PROTOCOL_ERROR, f'server "{self._setup.name}" speaks neither era of MCP')

    def _peer(self, wire: Wire) -> Peer:
        server = self._setup.server
        return Peer(self._setup.name, wire.transport, server.timeouts, tuple(server.asks), self._setup.events)

    def _modern(self, wire: Wire, finding: Finding) -> Dialect:
        assert finding.hello is not None
        wire.dialect = Modern(self._peer(wire), finding.hello)
        return wire.dialect

    async def _greet(self, wire: Wire) -> Dialect:
        asking, seconds = self._setup.asking, self._setup.server.timeouts.start
        try:
            session = await handshake(self._peer(wire), seconds, asking.capabilities)
        except NoEndpoint as refused:
            wire = await self._older(wire, refused)
            session = await handshake(self._peer(wire), seconds, asking.capabilities)
        wire.dialect = Legacy(self._peer(wire), session, asking)
        return wire.dialect

    async def _older(self, wire: Wire, refused: NoEndpoint) -> Wire:
        """Reach a server over the transport of 2024-11-05 (2025-11-25 basic/transports §Backwards Compatibility)."""
        server = self._setup.server
        if wire.transport.kind != "http" or server.transport != "auto":
            raise refused
        await wire.transport.aclose()
        wire.over = True
        try:
            async with asyncio.timeout(OLDER_TIMEOUT):
                return await self._open_wire(server.model_copy(update={"transport": "sse"}))
        except (DownstreamError, TimeoutError):
            if self._wire is not None:
                self._wire.over = True
            raise refused from None

    async def _live_wire(self) -> Wire:
        """Return the wire in hand, or a new one where it is over."""
        if self._wire is not None and not self._wire.over:
            return self._wire
        if self._wire is not None:
            await self._wire.transport.aclose()
        return await self._open_wire()

    async def _open_wire(self, server: Server | None = None) -> Wire:
        made = self._setup.make(self._setup.name, server or self._setup.server)
        wire = Wire(made, self._setup.events, self._ended)
        # Known before it is open, so that a cancelled start leaves nothing behind either.
        self._wire = wire
        await wire.transport.open(wire)
        return wire

    def _ended(self, wire: Wire, reason: str) -> None:
        """Take the end of a transport; while the era is being sought it is no more than an answer."""
        if wire is self._wire and self.state is State.UP:
            self.fail(reason)

    def told(self, reason: str) -> str:
        """Return a reason as operators are told it: with the server's last words."""
        words = self._wire.transport.last_words if self._wire is not None else ""
        return f"{reason}; {words}" if words else reason

    def fail(self, reason: str) -> None:
        """Give the connection up: no new call will use it."""
        if self.state is State.UP:
            self.reason = reason
            self._move(State.FAILED)
            self.over.set()

    def _speaking(self) -> Dialect:
        if self._dialect is None:
            raise DownstreamError(Reason.UNAVAILABLE, f'server "{self._setup.name}" is not connected')
        return self._dialect

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on.

        Raises:
            DownstreamError: there is no answer.
        """
        dialect = self._speaking()
        exchange.instance = self.facts()
        if call.method == methods.COMPLETE and not dialect.hello.completes:
            return Complete({"resultType": rawjson.raw("complete"), "completion": _NO_VALUES})
        self.in_flight += 1
        try:
            outcome = await dialect.call(call, exchange)
        except DownstreamError as error:
            raise self._judged(error) from None
        finally:
            self.in_flight -= 1
            exchange.answered_at = time.monotonic()
        if isinstance(outcome, Started):
            self._hear_tasks(dialect)
        if isinstance(outcome, Failure) and outcome.error is not None and _lacks_completion(call, outcome.error):
            return Complete({"resultType": rawjson.raw("complete"), "completion": _NO_VALUES})
        return outcome

    def _hear_tasks(self, dialect: Dialect) -> None:
        """Listen where nobody did: a legacy server may tell of a task on any stream, and has no other call to do so."""
        if dialect.hello.era is Era.LEGACY and not self._listening:
            self._listening = True
            self._tasks.start(self._listen(dialect), f"listen {self._setup.name}")

    def facts(self) -> InstanceFacts:
        """Return what audit records and results say of this connection."""
        kind = self._wire.transport.kind if self._wire is not None else ""
        short = self._setup.fingerprint[:SHORT]
        return InstanceFacts(self._setup.name, kind, self.instance, short, self._speaking().hello.product)

    async def page(self, kind: Kind, cursor: str | None) -> Page:
        """Fetch one page of a list.

        Raises:
            DownstreamError: there is no usable answer.
        """
        try:
            return await self._speaking().page(kind, cursor)
        except DownstreamError as error:
            raise self._judged(error) from None

    async def subscribe(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        """Make these the resources and tasks whose changes are heard of.

        Raises:
            DownstreamError: the server did not take it.
        """
        await self._speaking().subscribe(uris, tasks)

    def _judged(self, error: DownstreamError) -> DownstreamError:
        if isinstance(error, VersionRefused):
            self.fail(error.message)
        return named(self._setup.name, error)

    async def aclose(self) -> None:
        """End the conversation and the transport; safe to call twice, each caller returns when it is over."""
        async with self._closing:
            if self.state is State.CLOSED:
                return
            was_up = self.state is State.UP
            self._move(State.CLOSING)
            await self._tasks.aclose()
            if self._dialect is not None:
                if was_up:
                    await self._dialect.aclose()
                else:
                    await self._dialect.abandon()
            if self._wire is not None:
                await self._wire.transport.aclose()
            self._move(State.CLOSED)
            self.over.set()


def named(server: str, error: DownstreamError) -> DownstreamError:
    """Make an error of a transport say which server it is about."""
    if f'"{server}"' not in error.message and f" of {server} " not in error.message:
        error.message = f'server "{server}": {error.message}'
        error.args = (error.message,)
    return error


def _lacks_completion(call: Call, error: ErrorObject) -> bool:
    return call.method == methods.COMPLETE and error.code == codes.METHOD_NOT_FOUND
