"""The Streamable HTTP transport: one POST a message, an answer as JSON or as a stream (2026-07-28 and before).

Knows ids, bodies and streams, not MCP: an HTTP status is handed up for the dialect to interpret, and words such as
session or version come in as headers. A request is never sent twice, but for a redirect that the server asked for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from gateway.config.servers import Server
from gateway.downstream.client import failure
from gateway.downstream.meters import Meters
from gateway.downstream.remote import EVENTS, GET, JSON, Remote
from gateway.downstream.stream import EventStream, drain, read_body
from gateway.downstream.transport import Departure, Inbox, Reply, Request, encode_answer
from gateway.downstream.waitlist import DETAIL
from gateway.errors import DownstreamError, Reason
from gateway.protocol import headers, jsonrpc
from gateway.protocol.jsonrpc import Id, Invalid, ServerFailure, ServerMessage, ServerRequest, ServerResult
from gateway.protocol.rawjson import JsonError, Members
from gateway.telemetry.text import printable

DEFAULT_RETRY: Final = 1.0
MAX_RETRY: Final = 60.0
MAX_RESUMES: Final = 2
"""Resumed streams in a row that bring nothing new."""

_POST: Final = {"Accept": f"{JSON}, {EVENTS}", "Content-Type": JSON}

Notify = Callable[[str, Members], None]


class HttpTransport(Remote):
    """One server's MCP endpoint."""

    kind = "http"
    post = _POST

    def __init__(self, name: str, server: Server, meters: Meters | None = None, generation: int = 1) -> None:
        super().__init__(name, server, meters, generation)
        self._ids = itertools.count(1)
        self._resume: tuple[Mapping[str, str], str] = ({}, "")

    async def open(self, inbox: Inbox) -> None:
        """Prepare the HTTP client; dials nothing.

        Raises:
            DownstreamError: the url, a header or the TLS settings cannot be used.
        """
        self._inbox = inbox
        self._prepare()

    async def request(self, request: Request) -> Reply:
        """POST a request and wait for its answer.

        A status that is no success comes back as a reply: with ``error`` where the body is a JSON-RPC error,
        with neither result nor error where it is not.

        Raises:
            DownstreamError: ``unavailable``, ``timeout``, ``too_large`` or ``protocol_error``.
        """
        client = self._live()
        identifier = next(self._ids)
        if request.on_id is not None:
            request.on_id(identifier)
        departure = Departure(request.on_sent)
        body = jsonrpc.encode_request(identifier, request.method, request.params)
        try:
            async with asyncio.timeout(request.timeout):
                response = await client.send("POST", {**self.post, **request.headers}, body, departure)
                return await self._receive(response, identifier, request)
        except TimeoutError:
            self._cancel(request, identifier, departure)
            raise DownstreamError(
                Reason.TIMEOUT, f"no answer within {request.timeout or 0:g} s", may_have_run=departure.sent
            ) from None
        except asyncio.CancelledError:
            self._cancel(request, identifier, departure)
            raise

    async def stream(self, headers_: Mapping[str, str], on_open: Callable[[], None]) -> int:
        """GET a stream and hand its messages to the inbox until it ends; returns the HTTP status.

        ``on_open`` is called when the server has agreed to the stream. Never repeats itself. After a stream with
        event ids the next one under the same headers asks for what came after the last of them.

        Raises:
            DownstreamError: no answer, no stream in it, or the stream broke.
        """
        known, last = self._resume
        resume = {headers.LAST_EVENT_ID: last} if last and known == headers_ else {}
        response = await self._live().send("GET", {**GET, **headers_, **resume}, None, Departure())
        try:
            if response.status != 200:
                return response.status
            if response.content_type != EVENTS:
                raise DownstreamError(
                    Reason.PROTOCOL_ERROR, "the server answered GET with something else than a stream"
                )
            events = EventStream(response, self._server.max_result)
            on_open()
            try:
                while (batch := await events.read()) is not None:
                    for part in (part for data in batch for part in jsonrpc.parts(data)):
                        self._unasked(part, headers_)
            finally:
                self._resume = (dict(headers_), events.last_event_id or last)
            return response.status
        except aiohttp.ClientError as error:
            raise failure(error, False) from None
        finally:
            response.close()

    async def end_session(self, headers_: Mapping[str, str]) -> int:
        """DELETE the session that the headers name; returns the HTTP status.

        Raises:
            DownstreamError: no answer.
        """
        response = await self._live().send("DELETE", headers_, None, Departure())
        response.close()
        return response.status

    async def _receive(self, response: aiohttp.ClientResponse, identifier: Id, request: Request) -> Reply:
        """Read the answer; the connection is used again only where nothing is left on it."""
        received = {name.lower(): value for name, value in response.headers.items()}
        message: ServerResult | ServerFailure | None
        try:
            if response.status == 200 and response.content_type == EVENTS:
                message = await self._awaited(response, identifier, request)
            else:
                message = await self._whole(response, identifier, request)
        except aiohttp.ClientError as error:
            response.close()
            raise failure(error, True) from None
        except BaseException:
            # Cancelled, mostly: what is left on the connection must not meet another request.
            response.close()
            raise
        match message:
            case ServerResult():
                return Reply(message.result, None, response.status, received)
            case ServerFailure():
                return Reply(None, message.error, response.status, received)
            case None:
                return Reply(None, None, response.status, received)

    async def _whole(
        self, response: aiohttp.ClientResponse, identifier: Id, request: Request
    ) -> ServerResult | ServerFailure | None:
        """Read an answer that is one body; None for a status without a usable one."""
        success = response.status == 200
        if response.content_type != JSON:
            response.close()
            if success:
                raise _wrong("the server's answer is neither JSON nor a stream of events")
            return None
        body = await read_body(response, self._server.max_result)
        parts = jsonrpc.parts(body)
        if len(parts) > 1:
            # An array of 2025-03-26 may hold more than the answer.
            taken = [self._attributed(part, identifier, request) for part in parts]
            answers = [answer for answer in taken if answer is not None]
            if not answers and success:
                raise _wrong("the server answered something else than was asked")
            return answers[0] if answers else None
        try:
            message = jsonrpc.split(parts[0])
        except (Invalid, JsonError) as error:
            if not success:
                return None
            self._violation("bad_json" if isinstance(error, JsonError) else "not_jsonrpc", "in an answer")
            raise _wrong("the server's answer is no JSON-RPC message") from None
        match message:
            case ServerResult(id=named) if response.status < 300 and _same(named, identifier):
                return message
            # An error may have no id where the server could not tell it; the connection tells whose it is.
            case ServerFailure(id=named) if not success or named is None or _same(named, identifier):
                return message
            case _ if success:
                self._violation("unknown_id", "in an answer")
                raise _wrong("the server answered something else than was asked")
            case _:
                return None

    async def _awaited(
        self, response: aiohttp.ClientResponse, identifier: Id, request: Request
    ) -> ServerResult | ServerFailure:
        """Read a stream until the answer; where the server closed it on purpose before, go on with the next.

        A server that gives its events ids may close the connection and be asked for the rest after ``retry``
        (2025-11-25 basic/transports §Sending Messages, 6). Not where closing the stream is how to cancel.
        """
        barren, last, wait = 0, "", DEFAULT_RETRY
        while True:
            events = EventStream(response, self._server.max_result)
            try:
                while (batch := await events.read()) is not None:
                    for data in batch:
                        taken = [self._attributed(part, identifier, request) for part in jsonrpc.parts(data)]
                        message = next((answer for answer in taken if answer is not None), None)
                        if message is not None:
                            self._linger(response)
                            return message
            except aiohttp.ClientError:
                response.close()
            except BaseException:
                # As above, for a resumed stream that the caller does not know.
                response.close()
                raise
            barren = 0 if events.last_event_id not in ("", last) else barren + 1
            last = events.last_event_id or last
            wait = events.retry_ms / 1000 if events.retry_ms is not None else wait
            if request.cancel is None or not last or barren > MAX_RESUMES or wait > MAX_RETRY:
                raise _disconnected()
            await asyncio.sleep(wait)
            response = await self._rest(request, last)

    async def _rest(self, request: Request, last: str) -> aiohttp.ClientResponse:
        """Ask for what comes after an event of a stream that was closed."""
        head = {**GET, **request.headers, headers.LAST_EVENT_ID: last}
        try:
            response = await self._live().send("GET", head, None, Departure())
        except DownstreamError as error:
            # Nothing of the GET may have left, but all of the request has.
            raise DownstreamError(error.reason, error.message, may_have_run=True) from None
        if response.status != 200 or response.content_type != EVENTS:
            response.close()
            raise _disconnected(f", and gave status {response.status} for the rest")
        return response

    def _attributed(self, data: bytes, identifier: Id, request: Request) -> ServerResult | ServerFailure | None:
        """Take one message of a request's own stream; the answer is returned."""
        message = self._split(data)
        match message:
            case ServerResult(id=named) | ServerFailure(id=named):
                if _same(named, identifier):
                    return message
                self._violation("unknown_id", printable(str(named), DETAIL))
            case ServerRequest():
                self._ask(message, request.headers, request)
            case None:
                pass
            case _ if request.on_notification is not None:
                request.on_notification(message.method, message.params)
            case _ if self._inbox is not None:
                self._inbox.notification(message.method, message.params)
        return None

    def _unasked(self, data: bytes, headers_: Mapping[str, str]) -> None:
        """Take one message of a stream that belongs to no request."""
        message = self._split(data)
        match message:
            case ServerResult() | ServerFailure():
                self._violation("unknown_id", printable(str(message.id), DETAIL))
            case ServerRequest():
                self._ask(message, headers_)
            case None:
                pass
            case _ if self._inbox is not None:
                self._inbox.notification(message.method, message.params)

    def _split(self, data: bytes) -> ServerMessage | None:
        try:
            return jsonrpc.split(data)
        except (Invalid, JsonError) as error:
            kind = "bad_json" if isinstance(error, JsonError) else "not_jsonrpc"
            self._violation(kind, printable(data[: DETAIL * 4].decode("utf-8", "replace"), DETAIL))
            return None

    def _ask(self, asked: ServerRequest, headers_: Mapping[str, str], request: Request | None = None) -> None:
        """Answer a server's request (before 2026-07-28) with a POST of its own."""
        if self._inbox is None:
            return
        take = request.on_ask if request is not None and request.on_ask is not None else self._inbox.ask
        answer = take(asked.method, asked.params)
        self.owed.deliver(asked.id, answer, lambda it: self._aside(encode_answer(asked.id, it), headers_))

    def _cancel(self, request: Request, identifier: Id, departure: Departure) -> None:
        if departure.sent and request.cancel is not None and self._client is not None:
            method, params = request.cancel(identifier)
            self._aside(jsonrpc.encode_notification(method, params), request.headers)

    def _linger(self, response: aiohttp.ClientResponse) -> None:
        if response.content.at_eof():
            return
        if not self._has_place():
            response.close()
        else:
            self._start_aside(drain(response), "linger")


def _same(named: Id | None, identifier: Id) -> bool:
    """Compare ids in value and type."""
    return type(named) is type(identifier) and named == identifier


def _disconnected(more: str = "") -> DownstreamError:
    return DownstreamError(Reason.UNAVAILABLE, f"the server disconnected before answering{more}", may_have_run=True)


def _wrong(message: str) -> DownstreamError:
    return DownstreamError(Reason.PROTOCOL_ERROR, message, may_have_run=True)
