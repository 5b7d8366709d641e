"""The connections of one server that belong to somebody: at most ``max_instances``, and none of them idle for long.

Knows who they belong to by name alone; opens none itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from gateway.config.servers import Server
from gateway.downstream import isolation
from gateway.downstream.slot import Slot
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

_log = get_logger("downstream")


class Slots:
    """Slots by isolation key. ``tasks`` runs the closing of those that go."""

    def __init__(self, name: str, server: Server, tasks: TaskSet) -> None:
        self._name = name
        self._server = server
        self._tasks = tasks
        self._slots: dict[str, Slot] = {}

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def get(self, key: str, make: Callable[[], Slot]) -> Slot:
        """Return the slot of a key, a new one where there is none.

        Raises:
            DownstreamError: ``overloaded``: all are in use.
        """
        slot = self._slots.get(key)
        if slot is None:
            self._make_room()
            slot = self._slots[key] = make()
            self._watch_idle(slot, self._server.idle_stop)
        return slot

    def end_session(self, session: str) -> None:
        """End what belongs to a legacy client session."""
        for slot in [slot for key, slot in self._slots.items() if isolation.is_of(key, session)]:
            self._drop(slot)

    def clear(self) -> list[Slot]:
        """Forget all; the caller closes them."""
        slots = list(self._slots.values())
        self._slots.clear()
        return slots

    def _make_room(self) -> None:
        """Stop the connection that was idle longest, where there are too many."""
        if len(self._slots) < self._server.max_instances:
            return
        idle = [slot for slot in self._slots.values() if not slot.in_flight and not slot.is_opening]
        if not idle:
            text = f'server "{self._name}" is at its limit of connections; nothing was sent, try again later'
            raise DownstreamError(Reason.OVERLOADED, text)
        self._drop(min(idle, key=lambda slot: slot.last_used))

    def _drop(self, slot: Slot) -> None:
        if slot.key is not None and self._slots.get(slot.key) is slot:
            del self._slots[slot.key]
            self._tasks.start(slot.aclose(), f"close {self._name}")

    def _watch_idle(self, slot: Slot, seconds: float) -> None:
        # A timer, not a task: a slot that is dropped takes it along, however many sessions come and go.
        slot.idle_timer = asyncio.get_running_loop().call_later(seconds, self._end_if_idle, slot)

    def _end_if_idle(self, slot: Slot) -> None:
        """End a connection of one principal or session that nobody has used for ``idle_stop`` (G037, G038)."""
        left = slot.last_used + self._server.idle_stop - time.monotonic()
        if left > 0 or slot.in_flight:
            self._watch_idle(slot, left if left > 0 else self._server.idle_stop)
        else:
            _log.info("server_idle", server=self._name)
            self._drop(slot)
