"""One live transport and the dialect spoken over it, from the first byte to the last.

Keeps the state and the count of calls in flight; knows no other connection and no principal.
"""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import Final

from gateway.downstream.approach import Approach
from gateway.downstream.dialect import Dialect, Hello, Page, VersionRefused
from gateway.downstream.fingerprint import SHORT
from gateway.downstream.inspection import Meeting, Offer, WrongKey
from gateway.downstream.setup import Setup
from gateway.downstream.wire import Wire
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import codes, methods, rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

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


class Connection:
    """One conversation with a server; used up when it is over."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._approach = Approach(setup, self._ended, self.changed)
        self._dialect: Dialect | None = None
        self._tasks = TaskSet(on_crash(_log))
        self._closing: asyncio.Lock = asyncio.Lock()
        self._listening = setup.listens
        self.state = State.STARTING
        self.reason = ""
        self.opened_at = 0.0
        self.in_flight = 0
        self.over = asyncio.Event()
        self.offer: Offer | None = None
        """What this connection offers, where that is looked at: not on the one that the catalog comes from."""

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

    @property
    def _wire(self) -> Wire | None:
        return self._approach.wire

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
                dialect = await self._approach.meet()
                await self._inspect(dialect)
        except TimeoutError:
            await self.aclose()
            if not timer.expired():
                raise
            text = f'server "{self._setup.name}" did not get ready within {seconds:g} s'
            raise DownstreamError(Reason.UNAVAILABLE, text) from None
        except DownstreamError as error:
            await self.aclose()
            self._report(error)
            raise named(self._setup.name, error) from None
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if self._wire is None or self._wire.over:
            await self.aclose()
            raise DownstreamError(Reason.UNAVAILABLE, f'server "{self._setup.name}" ended right after its start')
        self.opened_at = time.monotonic()
        self._move(State.UP)
        # A server of the legacy era may ask on the stream that belongs to no call.
        if self._setup.listens or (self._setup.asking.declares and dialect.hello.era is Era.LEGACY):
            self._tasks.start(self._listen(dialect), f"listen {self._setup.name}")
        return dialect.hello

    async def _inspect(self, dialect: Dialect) -> None:
        """Have it looked at who answers, before anybody may call it."""
        setup, wire = self._setup, self._wire
        self._dialect = dialect
        meeting = Meeting(
            setup.name, setup.server, setup.whose, dialect.hello, self.key_digest, dialect.page, dialect.call
        )
        self.offer = await setup.inspector.met(meeting)
        if wire is not None and wire.over:
            raise DownstreamError(Reason.UNAVAILABLE, "it ended while it was looked at")

    @property
    def key_digest(self) -> str:
        """Hex SHA-256 of the server's TLS key as last seen; "" without TLS."""
        return self._wire.transport.key_digest if self._wire is not None else ""

    def changed(self, kinds: frozenset[Kind]) -> None:
        """Take the server's word that its lists have changed."""
        if self.offer is not None:
            self.offer.changed()
        self._setup.events.changed(kinds)

    def _report(self, error: DownstreamError) -> None:
        """Tell of a key that is not the configured one; it may show up on any request."""
        if isinstance(error, WrongKey):
            self._setup.inspector.wrong_key(self._setup.name, self._setup.whose, error.found)

    async def _listen(self, dialect: Dialect) -> None:
        try:
            await dialect.listen()
        except DownstreamError as error:
            _log.info("listen_ended", server=self._setup.name, reason=error.message)

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
        return outcome if self._wire is None else self._wire.transport.lent.without(outcome)

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
        self._report(error)
        if isinstance(error, (VersionRefused, WrongKey)):
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
