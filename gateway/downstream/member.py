"""One configured server in the pool: its catalog connection, the connections of its principals, and its health.

Knows one server and no other; which calls may be made at all was decided before.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial

from gateway.config.servers import Server
from gateway.downstream import isolation
from gateway.downstream.connection import Connection, named
from gateway.downstream.dialect import ALL_KINDS, Events, Hello, Page
from gateway.downstream.gate import Gate
from gateway.downstream.health import Facts, Restarts, ServerStatus, State, shown, state_after
from gateway.downstream.hooks import Environment
from gateway.downstream.inspection import Quarantined
from gateway.downstream.keeping import Keeping
from gateway.downstream.modern import HEADERS_REFUSED
from gateway.downstream.oauth.credentials import Credentials
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.own import Own
from gateway.downstream.parking import Asking, End
from gateway.downstream.placement import Placement
from gateway.downstream.questions import Roots
from gateway.downstream.resending import may_resend
from gateway.downstream.setup import Setup
from gateway.downstream.slot import Slot
from gateway.downstream.slots import Slots
from gateway.downstream.telling import Telling
from gateway.downstream.turns import Held
from gateway.downstream.wishes import Wanted
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Failure, Outcome
from gateway.model.principal import Principal
from gateway.protocol import capabilities
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

_log = get_logger("downstream")


class Member:
    """One server. ``wanted`` counts who wants to hear of what; it outlives the member over a reload."""

    def __init__(
        self,
        name: str,
        server: Server,
        fingerprint: str,
        environment: Environment,
        wanted: Wanted | None = None,
    ) -> None:
        self.name = name
        self.server = server
        self.fingerprint = fingerprint
        self._environment = environment
        self._tasks = TaskSet(on_crash(_log))
        self._gate = Gate(name, server.concurrency, server.queue)
        self._starts = Restarts(name)
        self._facts = Facts()
        self.credentials = Credentials(name, server, environment.desk, self._tasks, environment.meters)
        self._catalog = self._slot(None, isolation.listed_with(server), capabilities.GATEWAY_UI)
        self.keeping = Keeping(self._catalog)
        self.credentials.on_granted = self.keeping.retry
        self.credentials.on_signed_in = lambda owner: self.own.changed(owner, ALL_KINDS)
        self._slots = Slots(name, server, self._tasks)
        self._placement = Placement(
            server, self._catalog, self._slots, lambda: environment.eras.get(fingerprint), self._slot
        )
        self.own = Own(name, environment.hooks, self.credentials, self._placement)
        self.telling = Telling(
            name,
            Wanted() if wanted is None else wanted,
            lambda: self._catalog.connection,
            self._updated,
            self._tasks,
        )
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def _slot(self, key: str | None, declares: Object, extensions: Object, owner: Principal | None = None) -> Slot:
        roots = Roots()

        def make() -> Connection:
            parking, digest = self._environment.parking, self.fingerprint
            asking = Asking(declares, parking, roots, digest, slot.use, slot.turns, self._ended, extensions)
            return self._connection(key, asking, owner)

        apart = owner is not None and isolation.fails_apart(self.server)
        slot = Slot(key, make, Restarts(self.name) if apart else self._starts, self._tasks, self)
        return slot

    def _ended(self, call: Call, exchange: Exchange, end: End) -> None:
        """Tell of a parked call that ended while its client was away: nobody waits for it any more."""
        outcome = Failure.of(named(self.name, end)) if isinstance(end, DownstreamError) else end
        if isinstance(outcome, Failure) and outcome.reason is Reason.TIMEOUT:
            outcome = replace(outcome, detail="the client never answered")
            _log.warning("question_not_answered", server=self.name, call=call.id, trace=call.trace_id)
        self._environment.hooks.on_ended(call, exchange, outcome)

    def _connection(self, key: str | None, asking: Asking, owner: Principal | None) -> Connection:
        hooks, meters = self._environment.hooks, self._environment.meters

        def tasked(task: str, state: Members) -> None:
            hooks.on_task(TaskNews(self.name, connection.instance, task, state))

        def elicited(identifier: str) -> None:
            hooks.on_elicited(self.name, identifier)

        events = Events(tasked=tasked, elicited=elicited, violation=lambda kind: meters.protocol_error(self.name, kind))
        if key is None:
            events = replace(events, changed=self.own.outdated, updated=self._updated)
        elif owner is not None:
            events = replace(events, changed=partial(self.own.changed, owner.id))
        era = self._environment.eras.get(self.fingerprint)
        connection = Connection(
            Setup(
                self.name,
                self.server,
                self._environment.make,
                self.fingerprint,
                era,
                events,
                key is None,
                asking,
                self._environment.inspector,
                key or "",
                self.credentials.of(owner),
                self._environment.tracer,
            )
        )
        return connection

    def start(self) -> None:
        """Bring the catalog connection up in the background, and keep it up."""
        self._environment.meters.state(self.name, self._facts.state)
        self._tasks.start(self.keeping.run(), f"keep {self.name}")

    def sever(self, reason: str) -> None:
        """Leave the server: no call uses a connection of it any more, and calls in flight fail."""
        for slot in (self._catalog, *self._slots):
            if slot.connection is not None:
                slot.connection.fail(reason)

    # What the slots report.

    def opened(self, slot: Slot, connection: Connection) -> None:
        """Take the good news: remember the era, and have the lists read where it is the catalog's connection."""
        hello = connection.hello
        self._environment.eras.remember(self.fingerprint, hello.era)
        self._facts.round_trip()
        if slot is self._catalog:
            self._show(State.UP)
            self.own.outdated(ALL_KINDS)
            self.telling.again()
        _log.info(
            "server_connected",
            server=self.name,
            era=hello.era.value,
            version=hello.version,
            instance=connection.instance,
            shared=slot is self._catalog,
        )

    def refused(self, slot: Slot, error: DownstreamError) -> None:
        """Take the bad news of a start."""
        self._facts.last_error = error.message
        says_nothing = isinstance(error, (Quarantined, NoToken))
        if self._environment.eras.get(self.fingerprint) is Era.MODERN and not says_nothing:
            # Perhaps it is not that any more: the next start probes as if nothing were known.
            self._environment.eras.forget(self.fingerprint)
        self._count_restart("start_failed")
        if slot is self._catalog:
            self._down(error.message, state_after(error))
        _log.warning("server_not_reached", server=self.name, reason=error.message, retry=round(slot.wait(), 1))

    def ended(self, slot: Slot, reason: str) -> None:
        """Take the bad news of an end."""
        self._facts.last_error = reason
        self._count_restart("exit")
        if slot is self._catalog:
            self._down(reason)
        _log.warning("server_ended", server=self.name, reason=reason, shared=slot is self._catalog)

    def _down(self, reason: str, state: State = State.FAILED) -> None:
        self._show(state)
        self._environment.hooks.on_down(self.name, reason)

    def _count_restart(self, reason: str) -> None:
        self._facts.restarts += 1
        self._environment.meters.restarted(self.name, reason)

    def _show(self, state: State) -> None:
        before = self._facts.state
        if self._facts.move(state):
            self._environment.meters.state(self.name, state)
            if State.OPEN in (before, state):
                self._environment.hooks.on_circuit(self.name, "open" if state is State.OPEN else "closed")

    def _updated(self, uri: str) -> None:
        if self.telling.wants(uri):
            self._environment.hooks.on_resource_updated(self.name, uri)

    # What the pool asks for.

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on: at most twice where it is certain, or configured, that this does no harm (S127).

        Raises:
            DownstreamError: there is no answer.
        """
        self._count(+1)
        try:
            if self._environment.parking.knows(call):
                outcome = await self._resumed(call, exchange)
            else:
                # Nothing waits for it here: what looks like one of our tickets may be a server's own state.
                exchange.repeated = False
                async with self._gate.place(self.server.timeouts.call):
                    outcome = await self._attempts(call, exchange)
        finally:
            self._count(-1)
        if isinstance(outcome, Failure) and outcome.detail == HEADERS_REFUSED:
            self._environment.hooks.on_change(self.name, frozenset({Kind.TOOL}))
        return outcome

    async def _resumed(self, call: Call, exchange: Exchange) -> Outcome:
        """Go on with a parked call; others may wait for it, so it never waits for a place itself.

        Answers are no less than a call: they too go only to what is, at this moment, what was approved.
        """
        try:
            refusal = await self._environment.inspector.cleared(call)
            if refusal is not None and self._environment.parking.abandon(call.request_state or "") is not None:
                # It waits for nothing else, and this request tells of its end.
                exchange.repeated = False
            return refusal or await self._environment.parking.resume(call, exchange)
        except DownstreamError as error:
            raise named(self.name, error) from None
        finally:
            exchange.answered_at = time.monotonic()

    async def _attempts(self, call: Call, exchange: Exchange) -> Outcome:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.server.timeouts.call
        while True:
            slot = await self._placement.slot_for(call, until)
            try:
                return await self._tries(slot, call, exchange)
            except Held:
                # Its place was lost to a person meanwhile; nothing was sent.
                if loop.time() >= until:
                    raise

    async def _tries(self, slot: Slot, call: Call, exchange: Exchange) -> Outcome:
        with slot.use():
            try:
                return await self._cleared_attempt(slot, call, exchange)
            except DownstreamError as error:
                if not may_resend(self.server, call, error):
                    raise
                _log.info("call_resent", server=self.name, method=call.method, call=call.id, trace=call.trace_id)
                first = error
            try:
                outcome = await self._cleared_attempt(slot, call, exchange)
            except Held:
                raise first from None
            except DownstreamError as error:
                # What the first one may have done stays done, whatever becomes of the second.
                error.may_have_run |= first.may_have_run
                raise
            if isinstance(outcome, Failure) and first.may_have_run:
                return replace(outcome, may_have_run=True)
            return outcome

    async def _cleared_attempt(self, slot: Slot, call: Call, exchange: Exchange) -> Outcome:
        """Send a call only where what it calls is, at this moment, what was approved."""
        connection = await slot.get()
        refusal = await self._environment.inspector.cleared(call, connection.offer)
        return refusal or await self._attempt(slot, connection, call, exchange)

    async def _attempt(self, slot: Slot, connection: Connection, call: Call, exchange: Exchange) -> Outcome:
        try:
            # The end of a connection fails many calls at once; it is counted once, as an end.
            with slot.circuit.call(lambda: connection.is_up):
                outcome = await connection.call(call, exchange)
        except Held:
            raise
        except DownstreamError as error:
            self._facts.last_error = error.message
            self._show_calls(slot)
            raise
        self._facts.round_trip()
        self._show_calls(slot)
        slot.mind_task(call, outcome)
        return outcome

    def _show_calls(self, slot: Slot) -> None:
        """Let calls on the shared connection colour the state; a failed one is told by its own end."""
        if slot is not self._catalog or slot.connection is None:
            return
        circuit = slot.circuit
        self._show(State.OPEN if circuit.is_open else State.DEGRADED if circuit.failures else State.UP)

    def _count(self, change: int) -> None:
        self._in_flight += change
        if self._in_flight:
            self._idle.clear()
        else:
            self._idle.set()
        self._environment.meters.in_flight(self.name, self._in_flight)

    async def page(self, kind: Kind, cursor: str | None) -> Page:
        """Fetch one page of a list over the catalog connection.

        Raises:
            DownstreamError: there is no usable answer.
        """
        try:
            page = await (await self._catalog.get()).page(kind, cursor)
        except DownstreamError as error:
            self._facts.last_error = error.message
            if error.reason in (Reason.UNAVAILABLE, Reason.TIMEOUT) and self._catalog.connection is not None:
                self._show(State.DEGRADED)
            raise
        self._facts.round_trip()
        self._show_calls(self._catalog)
        return page

    def hello(self) -> Hello | None:
        """Return what the server said of itself, None while it is not connected."""
        connection = self._catalog.connection
        return connection.hello if connection is not None else None

    def key_digest(self) -> str:
        """Return the digest of the server's TLS key as last seen on the catalog connection."""
        connection = self._catalog.connection
        return connection.key_digest if connection is not None else ""

    def end_session(self, session: str) -> None:
        """End the connections of a legacy client session; its calls end with them."""
        self._slots.end_session(session)

    def status(self) -> ServerStatus:
        """Return what is shown of the server."""
        hello, facts = self.hello(), self._facts
        slots = [self._catalog, *self._slots]
        waiting = (
            self._catalog.circuit.wait()
            if hello is not None
            else max(self._starts.wait(), self._catalog.crashes.wait())
        )
        return ServerStatus(
            server=self.name,
            kind=self.server.kind,
            state=facts.state,
            since=shown(facts.since),
            era=hello.era.value if hello is not None and self.server.kind != "openapi" else "",
            version=hello.version if hello is not None else "",
            product=hello.product if hello is not None else "",
            connections=sum(1 for slot in slots if slot.connection is not None),
            in_flight=self._in_flight,
            last_round_trip=None if facts.last_round_trip is None else shown(facts.last_round_trip),
            last_error=facts.last_error,
            next_retry=round(waiting, 1) if waiting else None,
            restarts=facts.restarts,
            consent_url=self.credentials.consent_url,
        )

    async def retire(self) -> None:
        """Let the calls in flight and the parked ones finish, as long as the longest may take, then close."""
        try:
            async with asyncio.timeout(self.server.timeouts.max):
                await self._idle.wait()
            async with asyncio.timeout(self.server.timeouts.asks):
                await self._environment.parking.vacated(self.fingerprint)
        except TimeoutError:
            _log.warning("server_not_drained", server=self.name, calls=self._in_flight)
        await self.aclose()

    async def aclose(self) -> None:
        """End everything of this server, all at once."""
        slots = [self._catalog, *self._slots.clear()]
        await asyncio.gather(*(slot.aclose() for slot in slots))
        self.credentials.close()
        await self._tasks.aclose()
