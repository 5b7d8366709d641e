"""Says in the audit log when servers come and go, each time once."""

from __future__ import annotations

from collections.abc import Callable

from gateway.audit import events
from gateway.downstream.dialect import Hello
from gateway.protocol.rawjson import Object


class Attendance:
    """Who is there. ``write`` takes audit records that nobody waits for."""

    def __init__(self, write: Callable[[Object], None]) -> None:
        self._write = write
        self._there: set[str] = set()

    def came(self, server: str, hello: Hello | None) -> None:
        """Note that a server is up; said again only after it was down."""
        if server in self._there:
            return
        self._there.add(server)
        met: Object = {} if hello is None else {"era": hello.era.value, "version": hello.version}
        product: Object = {} if hello is None else {"product": hello.product}
        self._write(events.server_event("downstream.started", server, met | product))

    def left(self, server: str, reason: str) -> None:
        """Note that a server ended, or could not be reached."""
        event = "downstream.exited" if server in self._there else "downstream.failed"
        self._there.discard(server)
        self._write(events.server_event(event, server, {"reason": reason}))

    def circuit(self, server: str, state: str) -> None:
        """Note that calls are refused after too many failures, or let through again."""
        self._write(events.server_event("downstream.circuit", server, {"state": state}))
