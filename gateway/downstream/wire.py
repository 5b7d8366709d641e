"""One open transport, and who hears what it says, from before its era is known to its end."""

from __future__ import annotations

from collections.abc import Callable

from gateway.downstream.dialect import Dialect, Events
from gateway.downstream.transport import Answer, Later, Transport
from gateway.protocol import codes, methods
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members


class Wire:
    """An inbox with its transport; a probe may use up one before the connection has its own."""

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
