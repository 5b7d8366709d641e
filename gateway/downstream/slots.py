"""The connections of one server that belong to somebody: at most ``max_instances``, and none of them idle for long.

Knows who they belong to by name alone; opens none itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

from gateway.config.servers import Server
from gateway.downstream import isolation
from gateway.downstream.slot import Slot
from gateway.downstream.turns import Held
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

_log = get_logger("downstream")


class Slots:
    """Slots by isolation key, and further ones of a key for calls that would wait behind one that waits for people.

    ``tasks`` runs the closing of those that go.
    """

    def __init__(self, name: str, server: Server, tasks: TaskSet) -> None:
        self._name = name
        self._server = server
        self._tasks = tasks
        self._slots: dict[str, Slot] = {}
        self._freed = asyncio.Event()
        self._closed = False

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())

    def get(self, key: str, make: Callable[[], Slot]) -> Slot:
        """Return the slot of a key, a new one where there is none.

        Raises:
            DownstreamError: ``overloaded``: all are in use; ``unavailable``: this is over.
        """
        slot = self._slots.get(key)
        if slot is None:
            if self._closed:
                raise DownstreamError(Reason.UNAVAILABLE, f'server "{self._name}" has just been closed; try again')
            self._make_room()
            slot = self._slots[key] = make()
            slot.on_free = self._tell
            self._watch_idle(slot, self._server.idle_stop)
        return slot

    async def free(self, names: Sequence[str], make: Callable[[str], Slot], until: float) -> Slot:
        """Return one of these slots on which no call waits for people; where there can be none, wait for one.

        The first that there is, so that calls leave it only while they would wait for a person. ``until`` is loop time.

        Raises:
            DownstreamError: ``overloaded``: all are in use, or the wait was too long. Nothing was sent.
        """
        try:
            async with asyncio.timeout_at(until):
                while (slot := self._free(names, make)) is None:
                    await self._freed.wait()
        except TimeoutError:
            raise Held(self._name) from None
        return slot

    def _free(self, names: Sequence[str], make: Callable[[str], Slot]) -> Slot | None:
        there = [self._slots[name] for name in names if name in self._slots]
        for slot in there:
            if not slot.turns.is_held:
                return slot
        if len(there) == len(names) or (there and not self._has_room()):
            return None
        new = next(name for name in names if name not in self._slots)
        return self.get(new, lambda: make(new))

    def _tell(self) -> None:
        """Wake all who wait for a slot, once; each looks again."""
        self._freed.set()
        self._freed.clear()

    def end_session(self, session: str) -> None:
        """End what belongs to a legacy client session."""
        for slot in [slot for key, slot in self._slots.items() if isolation.is_of(key, session)]:
            self._drop(slot)

    def clear(self) -> list[Slot]:
        """Forget all, for good; the caller closes them."""
        self._closed = True
        slots = list(self._slots.values())
        self._slots.clear()
        self._tell()
        return slots

    def _make_room(self) -> None:
        """Stop the connection that was idle longest, where there are too many."""
        if not self._has_room():
            text = f'server "{self._name}" is at its limit of connections; nothing was sent, try again later'
            raise DownstreamError(Reason.OVERLOADED, text)
        if len(self._slots) >= self._server.max_instances:
            self._drop(min(self._idle(), key=lambda slot: slot.last_used))

    def _has_room(self) -> bool:
        return len(self._slots) < self._server.max_instances or bool(self._idle())

    def _idle(self) -> list[Slot]:
        return [slot for slot in self._slots.values() if not slot.busy and not slot.is_opening]

    def _drop(self, slot: Slot) -> None:
        if slot.key is not None and self._slots.get(slot.key) is slot:
            del self._slots[slot.key]
            self._tell()
            self._tasks.start(slot.aclose(), f"close {self._name}")

    def _watch_idle(self, slot: Slot, seconds: float) -> None:
        # A timer, not a task: a slot that is dropped takes it along, however many sessions come and go.
        slot.idle_timer = asyncio.get_running_loop().call_later(seconds, self._end_if_idle, slot)

    def _end_if_idle(self, slot: Slot) -> None:
        """End a connection of one principal or session that nobody has used for ``idle_stop`` (G037, G038)."""
        left = slot.last_used + self._server.idle_stop - time.monotonic()
        if left > 0 or slot.busy:
            self._watch_idle(slot, left if left > 0 else self._server.idle_stop)
        else:
            _log.info("server_idle", server=self._name)
            self._drop(slot)
