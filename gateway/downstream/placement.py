"""Finds the connection that serves a call: everybody's, its principal's, a second one beside it, or that of its task.

Knows one server's connections; who may share one is for ``isolation`` to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.config.servers import Server
from gateway.downstream import isolation
from gateway.downstream.slot import Slot
from gateway.downstream.slots import Slots
from gateway.downstream.tasks import AUGMENT
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, TaskRef
from gateway.model.principal import Principal
from gateway.protocol import methods
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era

Make: TypeAlias = Callable[[str | None, Object, Object, Principal | None], Slot]
"""Makes a connection's place: its key, what is declared on it, the extensions among that, and whose it is."""


class Placement:
    """Where the calls of one server go. ``known_era`` returns what an earlier run learned of the server."""

    def __init__(
        self, server: Server, catalog: Slot, slots: Slots, known_era: Callable[[], Era | None], make: Make
    ) -> None:
        self.server = server
        self._catalog = catalog
        self.slots = slots
        self._known_era = known_era
        self._make = make

    async def slot_for(self, call: Call, until: float) -> Slot:
        """Return the place for a call; one that has to wait for it waits until then, in the loop's time.

        Raises:
            DownstreamError: there is none, or the task that the call is about is lost.
        """
        if call.task is not None and (held := self._slot_of(call, call.task)) is not None:
            return held
        server = self.server
        era = self._era()
        if era is None and isolation.needs_era(server, call):
            # Who has an account of its own there finds out with that: the gateway's own may never sign in.
            first = self.own_slot(call.principal) if isolation.is_personal(server) else self._catalog
            era = (await first.get()).hello.era
        key = isolation.key_of(server, era, call)
        if key is None:
            return self._catalog
        declared, extensions = isolation.declared(server, era, call), isolation.extensions(server, era, call)

        def make(name: str) -> Slot:
            return self._make(name, declared, extensions, call.principal)

        row = methods.METHODS.get(call.method)
        if not declared or row is None or not row.may_ask:
            return self.slots.get(key, lambda: make(key))
        # A task is asked about where it was begun, which must be found again: the first connection of its owner.
        most = 1 if AUGMENT in call.params else isolation.lanes(server)
        names = [isolation.lane(key, number) for number in range(1, most + 1)]
        return await self.slots.free(names, make, until)

    def own_slot(self, principal: Principal) -> Slot:
        """Return the place of a principal's own connection: of those that are up the one that was used last.

        A server whose lists change with what was called says so on the connection of those calls. One on which a call
        waits for a person may answer nothing else meanwhile.

        Raises:
            DownstreamError: there is none now, and no room for one.
        """
        mine = [slot for slot in self.slots if isolation.is_own(slot.key, principal)]
        up = [slot for slot in mine if slot.connection is not None and not slot.turns.is_held]
        if up:
            return max(up, key=lambda slot: slot.last_used)
        key = isolation.own_key(principal)
        return self.slots.get(key, lambda: self._make(key, {}, {}, principal))

    def _slot_of(self, call: Call, task: TaskRef) -> Slot | None:
        """Return where a task runs; None where any connection of its owner will do."""
        if not task.instance:
            return None
        slots: list[Slot] = [self._catalog, *self.slots]
        for slot in slots:
            connection = slot.connection
            if connection is not None and connection.instance == task.instance and isolation.may_use(slot.key, call):
                return slot
        if self.server.kind != "stdio":
            return None
        text = f'server "{call.target.server}" has ended since this task began, and the task is lost with it'
        raise DownstreamError(Reason.UNAVAILABLE, text, may_have_run=True)

    def _era(self) -> Era | None:
        """Return what the server speaks, as far as it is known without asking."""
        connection = self._catalog.connection
        if connection is not None:
            return connection.hello.era
        if self.server.protocol != "auto":
            return Era(self.server.protocol)
        return self._known_era()
