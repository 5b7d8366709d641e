"""Transports move JSON-RPC bytes and know ids and framing, not MCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from gateway.downstream.lent import Lent
from gateway.protocol import jsonrpc
from gateway.protocol.jsonrpc import ErrorObject, Id
from gateway.protocol.rawjson import Members

Answer: TypeAlias = Members | ErrorObject
"""What a server's own request is answered with."""
Later: TypeAlias = asyncio.Future[Answer]
"""An answer that takes its time; cancelled where none will come."""


@dataclass(frozen=True, slots=True)
class Request:
    """One message to send: method and params, plus what the HTTP binding wants beside the body.

    ``timeout`` is in seconds, None for no limit of its own. ``on_id`` is told the id on the wire, ``on_sent`` is called
    right before the first byte can leave; ``on_answer`` on a pipe when the answer has been read, before anything behind
    it is. ``on_notification`` gets notifications that the transport can attribute to this request (HTTP streams); all
    others go to the inbox. ``on_ask`` does the same for requests of the server. ``cancel`` is the notification to send
    when the waiting coroutine is cancelled, built from the id on the wire; None where closing the stream says it.
    """

    method: str
    params: object | None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    on_id: Callable[[Id], None] | None = None
    on_sent: Callable[[], None] | None = None
    on_answer: Callable[[], None] | None = None
    on_notification: Callable[[str, Members], None] | None = None
    on_ask: Callable[[str, Members], Answer | Later] | None = None
    cancel: Callable[[Id], tuple[str, object]] | None = None


@dataclass(slots=True)
class Departure:
    """Tells whether a request can have reached the server: set when its connection stands."""

    on_sent: Callable[[], None] | None = None
    sent: bool = False

    def leave(self) -> None:
        """Note that the first byte is about to go."""
        if not self.sent:
            self.sent = True
            if self.on_sent is not None:
                self.on_sent()


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer: ``result`` split one level, or ``error``. ``status`` and ``headers`` for HTTP (lower case)."""

    result: Members | None
    error: ErrorObject | None = None
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


def encode_answer(identifier: Id, answer: Answer) -> bytes:
    """Encode the answer to a server's request."""
    if isinstance(answer, ErrorObject):
        return jsonrpc.encode_error(identifier, answer)
    return jsonrpc.encode_result(identifier, answer)


class Owed:
    """The answers that a server waits for, by the ids of its requests; who answers bounds their number."""

    def __init__(self) -> None:
        self._open: dict[Id, Later] = {}

    def __len__(self) -> int:
        return len(self._open)

    def deliver(self, identifier: Id, answer: Answer | Later, send: Callable[[Answer], None]) -> None:
        """Send an answer, at once or when it is there; an answer that was given up is not sent."""
        if not isinstance(answer, asyncio.Future):
            send(answer)
            return

        def done(later: Later) -> None:
            if self._open.get(identifier) is later:
                del self._open[identifier]
            if not later.cancelled():
                send(later.result())

        self._open[identifier] = answer
        answer.add_done_callback(done)

    def withdraw(self, identifier: Id) -> None:
        """Give an answer up that its server does not want any more."""
        later = self._open.get(identifier)
        if later is not None:
            later.cancel()


class Inbox(Protocol):
    """What a transport hands up. Methods do not block; they are called from the reading task."""

    def notification(self, method: str, params: Members) -> None:
        """A notification that belongs to no particular request, as far as the transport can tell."""

    def ask(self, method: str, params: Members) -> Answer | Later:
        """A request of the server (legacy era): returns the answer to send back, at once or when it is there."""

    def violation(self, kind: str, detail: str) -> None:
        """Something that is no MCP message: ``unknown_id``, ``bad_json``, ``not_jsonrpc``, … ``detail`` is bounded."""

    def closed(self, reason: str) -> None:
        """The transport ended by itself; called once, not after ``aclose``."""


class Transport(Protocol):
    """One live channel to one server."""

    kind: str
    """``stdio``, ``http``, ``sse`` or ``openapi``."""

    owed: Owed

    @property
    def lent(self) -> Lent:
        """What the server was given, and may say to nobody."""

    @property
    def instance(self) -> str:
        """A short name of what is reached: ``pid:4711#3`` or a session's keyed hash."""

    @property
    def key_digest(self) -> str:
        """Hex SHA-256 of the server's TLS key as last seen; "" without TLS."""

    @property
    def last_words(self) -> str:
        """What the other side last had to say, escaped and bounded, for operators alone; "" where there is nothing."""

    async def open(self, inbox: Inbox) -> None:
        """Start the process or prepare the HTTP client.

        Raises:
            DownstreamError: it cannot be started; nothing is left behind.
        """

    async def request(self, request: Request) -> Reply:
        """Send a request under an id of our own and wait for its answer; cancelling is the cancel signal.

        Raises:
            DownstreamError: ``unavailable``, ``timeout``, ``too_large``, ``protocol_error``, ``overloaded``.
        """

    async def notify(self, request: Request) -> None:
        """Send a notification.

        Raises:
            DownstreamError: it could not be sent.
        """

    async def aclose(self) -> None:
        """End the channel and whatever it started; safe to call twice; bounded in time."""
