"""The HTTP+SSE transport of 2024-11-05: one stream for all that the server says, a POST for each message to it.

The stream's first event names where to POST; every answer comes on the stream, matched by its id as on a pipe.
Knows ids, bodies and the stream, not MCP. A message is never sent twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp

from gateway.config.servers import Server
from gateway.downstream.client import Departure, HttpClient, failure
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.stream import EventStream
from gateway.downstream.transport import Inbox, Reply, Request, deliver, encode_answer
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc
from gateway.protocol.jsonrpc import Id, Invalid, ServerFailure, ServerMessage, ServerRequest, ServerResult
from gateway.protocol.rawjson import JsonError
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.text import printable

EVENTS: Final = "text/event-stream"
MAX_ASIDE: Final = 64
"""Answers to the server and cancellations under way at once; more are dropped."""
ASIDE_TIMEOUT: Final = 30.0

_POST: Final = {"Content-Type": "application/json"}
_GET: Final = {"Accept": EVENTS}
_ENDPOINT: Final = "endpoint"
_DETAIL: Final = 80
_log = get_logger("http")


@dataclass(eq=False, slots=True)
class _Waiting:
    """A request without its answer, and the POST that carries it."""

    request: Request
    answer: asyncio.Future[Reply]
    departure: Departure
    post: asyncio.Task[None] | None = None


class SseTransport:
    """One server's stream. ``generation`` tells this conversation from its predecessors."""

    kind = "sse"

    def __init__(self, name: str, server: Server, meters: Meters | None = None, generation: int = 1) -> None:
        self._name = name
        self._server = server
        self._meters = meters or NoMeters()
        self._generation = generation
        self._ids = itertools.count(1)
        self._client: HttpClient | None = None
        self._inbox: Inbox | None = None
        self._waiting: dict[Id, _Waiting] = {}
        self._aside = 0
        self._tasks = TaskSet(on_crash(_log))

    @property
    def last_words(self) -> str:
        """Nothing: what an HTTP server says is in its answers."""
        return ""

    @property
    def instance(self) -> str:
        """``sse#3``; which session that is only the server knows."""
        return f"sse#{self._generation}"

    @property
    def key_digest(self) -> str:
        """Hex SHA-256 of the server's TLS key as last seen; empty without TLS."""
        return self._client.key_digest if self._client is not None else ""

    async def open(self, inbox: Inbox) -> None:
        """Open the stream and wait until it names where messages go; the caller bounds the time.

        Raises:
            DownstreamError: no stream, or it names no place at its own origin; nothing is left behind.
        """
        client = self._client = HttpClient(self._server, lambda: self._meters.blocked(self._name))
        try:
            response = await client.send("GET", _GET, None, Departure())
            events = await self._greeted(client, response)
        except BaseException:
            # Cancelled too: a start that is given up leaves no connection behind.
            await self.aclose()
            raise
        self._inbox = inbox
        self._tasks.start(self._read(response, events), f"stream-{self._name}")

    async def _greeted(self, client: HttpClient, response: aiohttp.ClientResponse) -> EventStream:
        """Read up to the ``endpoint`` event; messages cannot come before it."""
        if response.status != 200:
            response.close()
            raise DownstreamError(Reason.UNAVAILABLE, f"the server answered GET with HTTP status {response.status}")
        if response.content_type != EVENTS:
            response.close()
            raise DownstreamError(Reason.PROTOCOL_ERROR, "the server answered GET with something else than a stream")
        events = EventStream(response, self._server.max_result)
        try:
            while (batch := await events.read_all()) is not None:
                for event in batch:
                    if event.name == _ENDPOINT:
                        client.post_to(event.data.decode("utf-8", "replace").strip())
                        return events
        except aiohttp.ClientError as error:
            raise failure(error, False) from None
        raise DownstreamError(Reason.UNAVAILABLE, "the server closed its stream before it named an endpoint")

    async def request(self, request: Request) -> Reply:
        """POST a request and wait for its answer on the stream.

        A POST whose status is no success comes back as a reply with neither result nor error.

        Raises:
            DownstreamError: ``unavailable``, ``timeout``, ``too_large`` or ``protocol_error``.
        """
        self._live()
        identifier = next(self._ids)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[identifier] = _Waiting(request, answer, Departure(request.on_sent))
        body = jsonrpc.encode_request(identifier, request.method, request.params)
        try:
            async with asyncio.timeout(request.timeout):
                # Beside the wait, since servers may answer before they accept.
                waiting.post = self._tasks.start(self._carry(waiting, body), f"post-{self._name}")
                return await answer
        except TimeoutError:
            self._cancel(request, identifier, waiting)
            raise DownstreamError(
                Reason.TIMEOUT, f"no answer within {request.timeout or 0:g} s", may_have_run=waiting.departure.sent
            ) from None
        except asyncio.CancelledError:
            self._cancel(request, identifier, waiting)
            raise
        finally:
            del self._waiting[identifier]
            if waiting.post is not None:
                waiting.post.cancel()
            if answer.done() and not answer.cancelled():
                # Read here too, since an answer and a timeout may come in the same turn of the loop.
                answer.exception()

    async def _carry(self, waiting: _Waiting, body: bytes) -> None:
        """POST one request; what goes wrong is its answer."""
        try:
            status, head = await self._post(body, waiting.request.headers, waiting.departure)
        except DownstreamError as error:
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
            return
        if status >= 300 and not waiting.answer.done():
            waiting.answer.set_result(Reply(None, None, status, head))

    async def notify(self, request: Request) -> None:
        """POST a notification.

        Raises:
            DownstreamError: it could not be sent, or was not accepted.
        """
        departure, limit = Departure(request.on_sent), request.timeout or ASIDE_TIMEOUT
        body = jsonrpc.encode_notification(request.method, request.params)
        try:
            async with asyncio.timeout(limit):
                status, _ = await self._post(body, request.headers, departure)
        except TimeoutError:
            raise DownstreamError(
                Reason.TIMEOUT, f"no answer within {limit:g} s", may_have_run=departure.sent
            ) from None
        if status >= 300:
            text = f"the server refused a notification with status {status}"
            raise DownstreamError(Reason.UNAVAILABLE, text, may_have_run=True)

    async def aclose(self) -> None:
        """Close the stream, which ends the session; calls in flight fail. Safe to call twice."""
        self._inbox = None
        client, self._client = self._client, None
        self._fail(DownstreamError(Reason.UNAVAILABLE, "the connection was closed"))
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
        """POST a message; only the head of the answer is of interest."""
        response = await self._live().send("POST", {**_POST, **headers}, body, departure)
        response.close()
        return response.status, {name.lower(): value for name, value in response.headers.items()}

    async def _read(self, response: aiohttp.ClientResponse, events: EventStream) -> None:
        """Read the stream to its end, which is the end of this transport."""
        end = DownstreamError(Reason.UNAVAILABLE, "the server closed its stream")
        try:
            while (batch := await events.read()) is not None:
                for part in (part for data in batch for part in jsonrpc.parts(data)):
                    self._take(part)
        except aiohttp.ClientError as error:
            end = failure(error, True)
        except DownstreamError as error:
            end = error
        finally:
            response.close()
        inbox, self._inbox = self._inbox, None
        client, self._client = self._client, None
        self._fail(end)
        if inbox is not None:
            inbox.closed(end.message)
        if client is not None:
            await client.aclose()

    def _take(self, data: bytes) -> None:
        try:
            message = jsonrpc.split(data)
        except (Invalid, JsonError) as error:
            kind = "bad_json" if isinstance(error, JsonError) else "not_jsonrpc"
            self._violation(kind, printable(data[: _DETAIL * 4].decode("utf-8", "replace"), _DETAIL))
            named = error.id if isinstance(error, Invalid) else jsonrpc.claimed_id(data)
            self._garbled(named)
        else:
            self._dispatch(message)

    def _dispatch(self, message: ServerMessage) -> None:
        inbox = self._inbox
        if inbox is None:
            return
        match message:
            case ServerResult(identifier, result):
                self._answer(identifier, Reply(result))
            case ServerFailure(identifier, error):
                self._answer(identifier, Reply(None, error))
            case ServerRequest(identifier, method, params):
                deliver(inbox.ask(method, params), lambda answer: self._post_aside(encode_answer(identifier, answer)))
            case _:
                inbox.notification(message.method, message.params)

    def _answer(self, identifier: Id | None, reply: Reply) -> None:
        waiting = self._waiting.get(identifier) if identifier is not None else None
        if waiting is None or waiting.answer.done() or not waiting.departure.sent:
            self._violation("unknown_id", printable(str(identifier), _DETAIL))
            return
        if waiting.request.on_answer is not None:
            waiting.request.on_answer()
        waiting.answer.set_result(reply)

    def _garbled(self, identifier: Id | None) -> None:
        """Let a call learn at once that its answer is no message."""
        waiting = self._waiting.get(identifier) if identifier is not None else None
        if waiting is not None and waiting.departure.sent and not waiting.answer.done():
            text = "the server's answer is no valid message"
            waiting.answer.set_exception(DownstreamError(Reason.PROTOCOL_ERROR, text, may_have_run=True))

    def _cancel(self, request: Request, identifier: Id, waiting: _Waiting) -> None:
        answered = waiting.answer.done() and not waiting.answer.cancelled()
        if waiting.departure.sent and request.cancel is not None and not answered:
            method, params = request.cancel(identifier)
            self._post_aside(jsonrpc.encode_notification(method, params))

    def _post_aside(self, body: bytes) -> None:
        """POST something nobody waits for."""
        if self._client is None:
            return
        if self._aside >= MAX_ASIDE:
            self._violation("answer_dropped", "too many at once")
            return
        self._aside += 1
        task = self._tasks.start(self._try_aside(body), f"aside-{self._name}")
        task.add_done_callback(lambda _: self._landed())

    def _landed(self) -> None:
        self._aside -= 1

    async def _try_aside(self, body: bytes) -> None:
        try:
            async with asyncio.timeout(ASIDE_TIMEOUT):
                status, _ = await self._post(body, {}, Departure())
        except (DownstreamError, TimeoutError) as error:
            _log.info("answer_not_delivered", server=self._name, error=type(error).__name__)
        else:
            if status >= 300:
                _log.info("answer_refused", server=self._name, status=status)

    def _violation(self, kind: str, detail: str) -> None:
        if self._inbox is not None:
            self._inbox.violation(kind, detail)

    def _fail(self, end: DownstreamError) -> None:
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                sent = waiting.departure.sent
                waiting.answer.set_exception(DownstreamError(end.reason, end.message, may_have_run=sent))
