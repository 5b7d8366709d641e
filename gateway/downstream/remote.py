"""What the two HTTP transports have in common: one client, notifications, and messages nobody waits for.

Knows POSTs and their status; how an answer comes is each transport's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import ClassVar, Final

from gateway.config.servers import Server
from gateway.downstream.authorizer import Authorizer
from gateway.downstream.client import HttpClient
from gateway.downstream.lent import Lent
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.transport import Departure, Inbox, Owed, Request
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
GET: Final[Mapping[str, str]] = {"Accept": EVENTS}
MAX_ASIDE: Final = 64
"""Answers, cancellations and closing streams at once; more are dropped."""
ASIDE_TIMEOUT: Final = 30.0

_log = get_logger("http")


class Remote:
    """One server's place on the network. ``generation`` tells this conversation from its predecessors."""

    kind: str = "http"
    post: ClassVar[Mapping[str, str]] = {"Content-Type": JSON}
    """The header fields of every POST."""

    def __init__(self, name: str, server: Server, meters: Meters | None = None, generation: int = 1) -> None:
        self._name = name
        self._server = server
        self._meters = meters or NoMeters()
        self._generation = generation
        self._client: HttpClient | None = None
        self._authorizer: Authorizer | None = None
        self._inbox: Inbox | None = None
        self.owed = Owed()
        self._asides = 0
        self._tasks = TaskSet(on_crash(_log))

    @property
    def lent(self) -> Lent:
        """What the server was given, the token that was last sent along included."""
        return self._client.lent if self._client is not None else Lent.of(self._server)

    @property
    def last_words(self) -> str:
        """Nothing: what an HTTP server says is in its answers."""
        return ""

    @property
    def instance(self) -> str:
        """``http#3``; which session that is only the server and the dialect know."""
        return f"{self.kind}#{self._generation}"

    @property
    def key_digest(self) -> str:
        """Hex SHA-256 of the server's TLS key as last seen; empty without TLS."""
        return self._client.key_digest if self._client is not None else ""

    def authorize(self, authorizer: Authorizer) -> None:
        """Send what this gives along with every request; before ``open``."""
        self._authorizer = authorizer

    def _prepare(self) -> HttpClient:
        """Make the client; dials nothing.

        Raises:
            DownstreamError: the url, a header or the TLS settings cannot be used.
        """
        self._client = HttpClient(self._server, lambda: self._meters.blocked(self._name), self._authorizer)
        return self._client

    async def notify(self, request: Request) -> None:
        """POST a notification.

        Raises:
            DownstreamError: it could not be sent, or was not accepted.
        """
        body = jsonrpc.encode_notification(request.method, request.params)
        limit = request.timeout or ASIDE_TIMEOUT
        status = await self._post_within(limit, body, request.headers, Departure(request.on_sent))
        if status >= 300:
            text = f"the server refused a notification with status {status}"
            raise DownstreamError(Reason.UNAVAILABLE, text, may_have_run=True)

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail. Safe to call twice."""
        self._inbox = None
        client, self._client = self._client, None
        await self._tasks.aclose()
        if client is not None:
            await client.aclose()

    def _live(self) -> HttpClient:
        if self._client is None:
            raise DownstreamError(Reason.UNAVAILABLE, "the connection is closed")
        return self._client

    async def _post(
        self, body: bytes, headers: Mapping[str, str], departure: Departure
    ) -> tuple[int, Mapping[str, str]]:
        """POST a message and return status and header fields in lower case; the body is of no interest."""
        response = await self._live().send("POST", {**self.post, **headers}, body, departure)
        # A connection without a body on it is free again already.
        response.close()
        return response.status, {name.lower(): value for name, value in response.headers.items()}

    async def _post_within(self, limit: float, body: bytes, headers: Mapping[str, str], departure: Departure) -> int:
        try:
            async with asyncio.timeout(limit):
                status, _ = await self._post(body, headers, departure)
        except TimeoutError:
            text = f"no answer within {limit:g} s"
            raise DownstreamError(Reason.TIMEOUT, text, may_have_run=departure.sent) from None
        return status

    def _has_place(self) -> bool:
        """Tell whether one more thing may go on that nobody waits for."""
        return self._client is not None and self._asides < MAX_ASIDE

    def _aside(self, body: bytes, headers: Mapping[str, str]) -> None:
        """POST something nobody waits for."""
        if self._client is None:
            return
        if not self._has_place():
            self._violation("answer_dropped", "too many at once")
            return
        self._start_aside(self._try_aside(body, headers), "aside")

    def _start_aside(self, work: Coroutine[object, object, None], what: str) -> None:
        self._asides += 1
        self._tasks.start(work, f"{what}-{self._name}").add_done_callback(lambda _: self._landed())

    def _landed(self) -> None:
        self._asides -= 1

    async def _try_aside(self, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            status = await self._post_within(ASIDE_TIMEOUT, body, headers, Departure())
        except DownstreamError as error:
            _log.info("answer_not_delivered", server=self._name, reason=error.message)
        else:
            if status >= 300:
                _log.info("answer_refused", server=self._name, status=status)

    def _violation(self, kind: str, detail: str) -> None:
        if self._inbox is not None:
            self._inbox.violation(kind, detail)
