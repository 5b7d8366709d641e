"""One configured server in the pool: its catalog connection, the connections of its principals, and its health.

Knows one server and no other; which calls may be made at all was decided before.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from gateway.config.servers import Server
from gateway.downstream import isolation
from gateway.downstream.connection import Connection, Setup, named
from gateway.downstream.dialect import ALL_KINDS, Events, Hello, Page, Unserved
from gateway.downstream.gate import Gate
from gateway.downstream.health import Facts, Restarts, ServerStatus, State, shown
from gateway.downstream.hooks import Environment
from gateway.downstream.modern import HEADERS_REFUSED
from gateway.downstream.parking import Asking, End
from gateway.downstream.questions import Roots
from gateway.downstream.slot import Slot
from gateway.downstream.slots import Slots
from gateway.downstream.tasks import AUGMENT
from gateway.downstream.telling import Telling
from gateway.downstream.turns import Held
from gateway.downstream.wishes import Wanted
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, TaskRef
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import capabilities, methods, tasks
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
        self._catalog = self._slot(None, isolation.listed_with(server), capabilities.GATEWAY_UI)
        self._slots = Slots(name, server, self._tasks)
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

    def _slot(self, key: str | None, declares: Object, extensions: Object) -> Slot:
        roots = Roots()

        def make() -> Connection:
            parking, digest = self._environment.parking, self.fingerprint
            asking = Asking(declares, parking, roots, digest, slot.use, slot.turns, self._ended, extensions)
            return self._connection(key is None, asking)

        slot = Slot(key, make, self._starts, self._tasks, self)
        return slot

    def _ended(self, call: Call, exchange: Exchange, end: End) -> None:
        """Tell of a parked call that ended while its client was away: nobody waits for it any more."""
        outcome = Failure.of(named(self.name, end)) if isinstance(end, DownstreamError) else end
        if isinstance(outcome, Failure) and outcome.reason is Reason.TIMEOUT:
            outcome = replace(outcome, detail="the client never answered")
            _log.warning("question_not_answered", server=self.name, call=call.id)
        self._environment.hooks.on_ended(call, exchange, outcome)

    def _connection(self, is_catalog: bool, asking: Asking) -> Connection:
        hooks, meters = self._environment.hooks, self._environment.meters

        def tasked(task: str, state: Members) -> None:
            hooks.on_task(TaskNews(self.name, connection.instance, task, state))

        def elicited(identifier: str) -> None:
            hooks.on_elicited(self.name, identifier)

        events = Events(tasked=tasked, elicited=elicited, violation=lambda kind: meters.protocol_error(self.name, kind))
        if is_catalog:
            events = replace(events, changed=lambda kinds: hooks.on_change(self.name, kinds), updated=self._updated)
        era = self._environment.eras.get(self.fingerprint)
        make = self._environment.make
        connection = Connection(Setup(self.name, self.server, make, self.fingerprint, era, events, is_catalog, asking))
        return connection

    def start(self) -> None:
        """Bring the catalog connection up in the background, and keep it up."""
        self._environment.meters.state(self.name, self._facts.state)
        self._tasks.start(self._keep(), f"keep {self.name}")

    async def _keep(self) -> None:
        while True:
            try:
                connection = await self._catalog.get()
            except DownstreamError:
                await asyncio.sleep(self._catalog.wait())
                continue
            await connection.over.wait()
            await asyncio.sleep(self._catalog.wait())

    # What the slots report.

    def opened(self, slot: Slot, connection: Connection) -> None:
        """Take the good news: remember the era, and have the lists read where it is the catalog's connection."""
        hello = connection.hello
        self._environment.eras.remember(self.fingerprint, hello.era)
        self._facts.round_trip()
        if slot is self._catalog:
            self._show(State.UP)
            self._environment.hooks.on_change(self.name, ALL_KINDS)
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
        if self._environment.eras.get(self.fingerprint) is Era.MODERN:
            # Perhaps it is not that any more: the next start probes as if nothing were known.
            self._environment.eras.forget(self.fingerprint)
        self._count_restart("start_failed")
        if slot is self._catalog:
            self._down(error.message)
        _log.warning("server_not_reached", server=self.name, reason=error.message, retry=round(slot.wait(), 1))

    def ended(self, slot: Slot, reason: str) -> None:
        """Take the bad news of an end."""
        self._facts.last_error = reason
        self._count_restart("exit")
        if slot is self._catalog:
            self._down(reason)
        _log.warning("server_ended", server=self.name, reason=reason, shared=slot is self._catalog)

    def _down(self, reason: str) -> None:
        self._show(State.FAILED)
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
                async with self._gate.place(self.server.timeouts.call):
                    outcome = await self._attempts(call, exchange)
        finally:
            self._count(-1)
        if isinstance(outcome, Failure) and outcome.detail == HEADERS_REFUSED:
            self._environment.hooks.on_change(self.name, frozenset({Kind.TOOL}))
        return outcome

    async def _resumed(self, call: Call, exchange: Exchange) -> Outcome:
        """Go on with a parked call; others may wait for it, so it never waits for a place itself."""
        try:
            return await self._environment.parking.resume(call, exchange)
        except DownstreamError as error:
            raise named(self.name, error) from None
        finally:
            exchange.answered_at = time.monotonic()

    async def _attempts(self, call: Call, exchange: Exchange) -> Outcome:
        loop = asyncio.get_running_loop()
        until = loop.time() + self.server.timeouts.call
        while True:
            slot = await self._slot_for(call, until)
            try:
                return await self._tries(slot, call, exchange)
            except Held:
                # Its place was lost to a person meanwhile; nothing was sent.
                if loop.time() >= until:
                    raise

    async def _tries(self, slot: Slot, call: Call, exchange: Exchange) -> Outcome:
        with slot.use():
            connection = await slot.get()
            try:
                return await self._attempt(slot, connection, call, exchange)
            except DownstreamError as error:
                if not self._may_resend(call, error):
                    raise
                _log.info("call_resent", server=self.name, method=call.method)
            return await self._attempt(slot, await slot.get(), call, exchange)

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
        _mind_task(slot, call, outcome)
        return outcome

    def _show_calls(self, slot: Slot) -> None:
        """Let calls on the shared connection colour the state; a failed one is told by its own end."""
        if slot is not self._catalog or slot.connection is None:
            return
        circuit = slot.circuit
        self._show(State.OPEN if circuit.is_open else State.DEGRADED if circuit.failures else State.UP)

    def _may_resend(self, call: Call, error: DownstreamError) -> bool:
        if error.reason is not Reason.UNAVAILABLE or isinstance(error, Unserved) or error.retry_after_ms is not None:
            return False
        if call.task is not None and call.task.instance:
            # It would reach another process, which knows nothing of the task.
            return False
        idempotent = call.method == methods.TOOLS_CALL and call.target.name in self.server.idempotent
        return idempotent or not error.may_have_run

    async def _slot_for(self, call: Call, until: float) -> Slot:
        if call.task is not None and (held := self._slot_of(call, call.task)) is not None:
            return held
        era = self._era()
        if era is None and isolation.needs_era(self.server, call):
            era = (await self._catalog.get()).hello.era
        key = isolation.key_of(self.server, era, call)
        if key is None:
            return self._catalog
        declared, extensions = isolation.declared(self.server, era, call), isolation.extensions(self.server, era, call)
        row = methods.METHODS.get(call.method)
        if not declared or row is None or not row.may_ask:
            return self._slots.get(key, lambda: self._slot(key, declared, extensions))
        # A task is asked about where it was begun, which must be found again: the first connection of its owner.
        most = 1 if AUGMENT in call.params else isolation.lanes(self.server)
        names = [isolation.lane(key, number) for number in range(1, most + 1)]
        return await self._slots.free(names, lambda name: self._slot(name, declared, extensions), until)

    def _slot_of(self, call: Call, task: TaskRef) -> Slot | None:
        """Return where a task runs; None where any connection of its owner will do.

        Raises:
            DownstreamError: ``unavailable``: the process that ran it has ended, or its owner's session has.
        """
        if not task.instance:
            return None
        slots: list[Slot] = [self._catalog, *self._slots]
        for slot in slots:
            connection = slot.connection
            if connection is not None and connection.instance == task.instance and isolation.may_use(slot.key, call):
                return slot
        if self.server.kind != "stdio":
            return None
        text = f'server "{self.name}" has ended since this task began, and the task is lost with it'
        raise DownstreamError(Reason.UNAVAILABLE, text, may_have_run=True)

    def _era(self) -> Era | None:
        """Return what the server speaks, as far as it is known without asking."""
        connection = self._catalog.connection
        if connection is not None:
            return connection.hello.era
        if self.server.protocol != "auto":
            return Era(self.server.protocol)
        return self._environment.eras.get(self.fingerprint)

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
            era=hello.era.value if hello is not None else "",
            version=hello.version if hello is not None else "",
            product=hello.product if hello is not None else "",
            connections=sum(1 for slot in slots if slot.connection is not None),
            in_flight=self._in_flight,
            last_round_trip=None if facts.last_round_trip is None else shown(facts.last_round_trip),
            last_error=facts.last_error,
            next_retry=round(waiting, 1) if waiting else None,
            restarts=facts.restarts,
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
        await self._tasks.aclose()


def _mind_task(slot: Slot, call: Call, outcome: Outcome) -> None:
    """Keep the connection of a legacy server for as long as a task of it may be asked about."""
    match outcome:
        case Started(result) if (task := tasks.started(result, Era.LEGACY)) is not None:
            slot.hold(task.id, task.ttl)
        case Complete() if call.method == methods.TASKS_RESULT and call.task is not None:
            slot.let_go(call.task.id)
        case _:
            return
