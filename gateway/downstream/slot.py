"""One place for a connection: opened when needed, by one for all who wait, and replaced when it has ended.

Knows when a connection may be opened again and when an idle one ends; knows no principals and no catalog.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from gateway.downstream.connection import Connection
from gateway.downstream.health import Circuit, Restarts
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.turns import Turns
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.outcome import Complete, Outcome, Started
from gateway.protocol import methods, tasks
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet

MAX_HELD: Final = 256
"""Tasks that keep a connection from being called idle; beyond, the oldest do so no longer."""
LONGEST_HOLD: Final = 3600.0
"""Seconds for which a task does that, whatever its server promises."""
SHORTEST_WAIT: Final = 0.05
LONGER_WAIT: Final = 0.5


class Watch(Protocol):
    """Who hears how a slot fares. Methods do not block."""

    def opened(self, slot: Slot, connection: Connection) -> None:
        """A connection is up."""

    def refused(self, slot: Slot, error: DownstreamError) -> None:
        """A connection could not be opened; the text is for operators."""

    def ended(self, slot: Slot, reason: str) -> None:
        """A connection ended by itself; the reason is for operators."""


def _nobody() -> None:
    """Tell nobody."""


class Slot:
    """One place for a connection of one server. ``key`` names who shares it, None everybody."""

    def __init__(
        self, key: str | None, make: Callable[[], Connection], starts: Restarts, tasks: TaskSet, watch: Watch
    ) -> None:
        self.key = key
        self.in_flight = 0
        self.last_used = time.monotonic()
        self.idle_timer: asyncio.TimerHandle | None = None
        """Set by who made the slot; ends with it."""
        self.on_free: Callable[[], None] = _nobody
        """Set likewise: called when a call may find a place here that had none before."""
        self.turns = Turns(starts.server, lambda: self.on_free())
        self.crashes = Restarts(starts.server, starts.clock)
        self.circuit = Circuit(starts.server, starts.clock)
        self._make = make
        self._starts = starts
        self._tasks = tasks
        self._watch = watch
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._error: DownstreamError | None = None
        self._closed = False
        self._held: dict[str, float] = {}

    @property
    def connection(self) -> Connection | None:
        """The connection, where it is up."""
        return self._connection if self._connection is not None and self._connection.is_up else None

    @property
    def busy(self) -> bool:
        """Tell whether a call runs on it, or a task that nobody may have looked at lately."""
        return bool(self.in_flight) or any(until > time.monotonic() for until in self._held.values())

    def hold(self, task: str, ttl: float | None) -> None:
        """Keep the slot for a task that began here, as long as its server keeps the task (None: for ever)."""
        while len(self._held) >= MAX_HELD:
            del self._held[next(iter(self._held))]
        self._held[task] = time.monotonic() + min(LONGEST_HOLD if ttl is None else ttl, LONGEST_HOLD)

    def let_go(self, task: str) -> None:
        """Keep it no longer for a task whose client has its result."""
        self._held.pop(task, None)

    def mind_task(self, call: Call, outcome: Outcome) -> None:
        """Keep the connection of a legacy server for as long as a task of it may be asked about."""
        match outcome:
            case Started(result) if (task := tasks.started(result, Era.LEGACY)) is not None:
                self.hold(task.id, task.ttl)
            case Complete() if call.method == methods.TASKS_RESULT and call.task is not None:
                self.let_go(call.task.id)
            case _:
                return

    @property
    def is_opening(self) -> bool:
        """Tell whether a connection is on its way."""
        return self._opening is not None

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep the slot from being called idle while the body runs."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self.last_used = time.monotonic()
            if not self.in_flight:
                self.on_free()

    async def get(self) -> Connection:
        """Return the connection; open it where there is none, once for everybody who waits (G122).

        Raises:
            DownstreamError: it cannot be opened, or must not be yet.
        """
        if (connection := self.connection) is not None:
            return connection
        if self._closed:
            raise self._gone()
        if self._opening is None:
            if self.crashes.wait() > 0:
                raise self.crashes.refusal()
            self._starts.check()
            self._error = None
            self._opening = self._tasks.start(self._open(), f"open {self._starts.server}")
        elif self._starts.failures:
            # The last start failed and one is being tried: nobody else waits for what will hardly work.
            raise self._starts.refusal()
        # ``wait`` leaves the opening alone when one of those who wait is cancelled.
        await asyncio.wait([self._opening])
        if (connection := self.connection) is not None:
            return connection
        raise self._error or self._gone()

    def _gone(self) -> DownstreamError:
        return DownstreamError(Reason.UNAVAILABLE, f'server "{self._starts.server}" has just been closed; try again')

    async def _open(self) -> None:
        connection = self._make()
        try:
            await connection.open()
        except DownstreamError as error:
            if isinstance(error, NoToken):
                # It is about who asks: the connections of others may well be opened.
                self._error = error
            else:
                self._starts.failed(error.message)
                self._error = self._starts.refusal()
            error.message = connection.told(error.message)
            self._watch.refused(self, error)
            return
        finally:
            self._opening = None
            self._starts.released()
        self._starts.succeeded()
        self.circuit.reset()
        self._connection = connection
        self._tasks.start(self._await_end(connection), f"watch {self._starts.server}")
        self._watch.opened(self, connection)

    async def _await_end(self, connection: Connection) -> None:
        """Release what a connection that ended by itself leaves behind."""
        await connection.over.wait()
        if self._connection is connection and not self._closed:
            self._connection = None
            reason = connection.reason or f'server "{self._starts.server}" ended'
            self.crashes.ended(reason, time.monotonic() - connection.opened_at)
            self._watch.ended(self, connection.told(reason))
        await connection.aclose()

    def retry(self) -> None:
        """Let the next connection be opened at once, whatever happened before."""
        self._starts.succeeded()
        self.crashes.succeeded()

    def wait(self) -> float:
        """Return the seconds until a new connection may be opened."""
        return max(self.crashes.wait(), self._starts.wait(), LONGER_WAIT if self.is_opening else SHORTEST_WAIT)

    async def aclose(self) -> None:
        """End the connection; the slot opens no other."""
        self._closed = True
        if self.idle_timer is not None:
            self.idle_timer.cancel()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._connection is not None:
            await self._connection.aclose()
