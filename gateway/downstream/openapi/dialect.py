"""What stands where an era stands: calls of tools become HTTP requests, what comes back becomes results.

An API knows no sessions and asks nothing, so towards the rest of the gateway it is a modern server with tools alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import aiohttp

from gateway.downstream.client import failure
from gateway.downstream.dialect import Hello, Page, Peer
from gateway.downstream.flights import Flight, Flights
from gateway.downstream.openapi.addresses import names_in
from gateway.downstream.openapi.answer import Answered, result_of
from gateway.downstream.openapi.channel import ApiChannel
from gateway.downstream.openapi.operations import Operation
from gateway.downstream.openapi.payload import payload_of
from gateway.downstream.openapi.serialise import BadArgument, header_fields, target
from gateway.downstream.openapi.toolset import Toolset
from gateway.downstream.stream import read_body
from gateway.downstream.transport import Answer, Departure, Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.protocol import codes, methods
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members
from gateway.protocol.versions import Era
from gateway.telemetry.logs import get_logger

_log = get_logger("openapi")
_NO_METHOD: Final = ErrorObject(codes.METHOD_NOT_FOUND, "Method not found")
_TRACE: Final = ("traceparent", "tracestate")
_CHANGED: Final = "has just changed what this tool does; its tools are being read again"
_RETRY_MS: Final = 1000
_LONG: Final = 64 * 1024
"""Bytes of an answer that takes long enough to read for others to notice."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One HTTP request but for its method; ``target`` is path and query."""

    target: str
    fields: Mapping[str, str]
    body: bytes | None = None


class OpenApi:
    """One API over one channel."""

    def __init__(self, peer: Peer, channel: ApiChannel, tools: Toolset) -> None:
        self._peer = peer
        self._channel = channel
        self._tools = tools
        self._told = ""
        self._fresh = True
        self._flights = Flights(
            peer.name, peer.timeouts.call, peer.timeouts.max, logs_by_request=True, violation=peer.events.violation
        )
        self._hello = Hello(
            Era.MODERN, f"OpenAPI {tools.version}", tools.info, {"tools": {"listChanged": True}}, tools.description
        )

    @classmethod
    async def meet(cls, peer: Peer, channel: ApiChannel) -> OpenApi:
        """Read the document; the API itself is not asked anything.

        Raises:
            DownstreamError: it cannot be had, or has no tools.
        """
        return cls(peer, channel, await channel.tools())

    @property
    def hello(self) -> Hello:
        """What the document says of itself."""
        return self._hello

    def notification(self, method: str, params: Members) -> None:
        """Take nothing: an API sends none."""

    def ask(self, method: str, params: Members) -> Answer:
        """Answer nothing: an API asks nothing."""
        return _NO_METHOD

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Call an operation.

        Raises:
            DownstreamError: there is no answer.
        """
        operation = self._tools.operations.get(call.target.name)
        if call.method != methods.TOOLS_CALL or operation is None:
            text = f'server "{self._peer.name}" has no such method or tool'
            return Failure(Reason.PROTOCOL_ERROR, text, error=_NO_METHOD)
        if call.definition is not None and call.definition.digest != operation.definition.digest:
            # What was decided upon, and perhaps approved, is not what would be sent.
            self._peer.events.changed(frozenset({Kind.TOOL}))
            error = self._peer.error(Reason.UNAVAILABLE, _CHANGED)
            error.retry_after_ms = _RETRY_MS
            raise error
        try:
            outgoing = self._outgoing(operation, call)
        except BadArgument as bad:
            text = f'The arguments do not fit server "{self._peer.name}": {bad}. The call did not run.'
            return Failure(Reason.INVALID_ARGUMENTS, text, detail="openapi")
        try:
            async with self._flights.fly(call, exchange) as flight:
                return await self._followed(operation, outgoing, call, flight)
        except DownstreamError as error:
            if operation.is_safe:
                # Whatever became of it, nothing is changed by it.
                error.may_have_run = False
            raise

    async def _followed(self, operation: Operation, outgoing: Outgoing, call: Call, flight: Flight) -> Outcome:
        """Send, under a span where there are any."""

        async def send(request: Request) -> Reply:
            answered = await self._asked(operation, replace(outgoing, fields=_traced(outgoing, request)), flight)
            if len(answered.body) < _LONG:
                result = result_of(operation, answered)
            else:
                result = await asyncio.to_thread(result_of, operation, answered)
            return Reply(result, None, answered.status)

        # A request of the protocol is what the spans of all servers are made of; this one never travels as such.
        request = Request(call.method, {"name": call.target.name, "_meta": dict(call.trace)})
        leg = self._peer.leg
        reply = await (send(request) if leg is None else leg.request(send, request, ""))
        return Complete(reply.result or {})

    def _outgoing(self, operation: Operation, call: Call) -> Outgoing:
        """Write target, header fields and body.

        Raises:
            BadArgument: an argument cannot be sent.
        """
        terms, arguments = self._channel.terms, call.arguments
        own = "&".join(filter(None, (terms.query, operation.query)))
        fixed = terms.fixed | names_in(operation.query)
        place = target(operation.template, operation.parameters, arguments, own, fixed)
        payload = payload_of(operation.body, arguments, fixed) if operation.body is not None else None
        fields = header_fields(operation.parameters, arguments) | {"Accept": operation.accept}
        if payload is None:
            return Outgoing(place, fields)
        return Outgoing(place, fields | {"Content-Type": payload.kind}, payload.data)

    async def _asked(self, operation: Operation, outgoing: Outgoing, flight: Flight) -> Answered:
        departure = Departure(flight.mark_sent)
        try:
            response = await self._channel.send(
                operation.method, outgoing.target, outgoing.fields, outgoing.body, departure
            )
            return await self._read(operation, response)
        except DownstreamError as error:
            # An answer that is none, such as a redirect, may come when everything is done already.
            error.may_have_run |= departure.sent and error.reason is Reason.PROTOCOL_ERROR
            raise

    async def _read(self, operation: Operation, response: aiohttp.ClientResponse) -> Answered:
        try:
            # The length that stands in an answer to HEAD is of a body that does not come.
            body = await read_body(response, self._channel.max_result) if operation.method != "HEAD" else b""
        except aiohttp.ClientError as error:
            raise failure(error, True) from None
        finally:
            # Cancelled, mostly, or too long: what is left on the connection must not meet another request.
            if not response.content.at_eof():
                response.close()
        return Answered(response.status, {name.lower(): value for name, value in response.headers.items()}, body)

    async def page(self, kind: Kind, cursor: str | None) -> Page:
        """Return all tools, of the document as it is now.

        Raises:
            DownstreamError: the document cannot be had, or has no tools any more.
        """
        if kind is not Kind.TOOL:
            return Page([])
        if self._fresh:
            # The first list belongs to the document that was read a moment ago.
            self._fresh = False
        else:
            self._tools = await self._channel.tools()
        self._tell(self._tools.left_out)
        return Page([each.item for each in self._tools.operations.values()], left_out=self._tools.left_out)

    def _tell(self, left_out: Iterable[tuple[str, str]]) -> None:
        """Log what of a document became no tools, once for each document."""
        count = len(tuple(left_out))
        if count and self._told != self._tools.digest:
            _log.warning("operations_left_out", server=self._peer.name, count=count)
        self._told = self._tools.digest

    async def listen(self) -> None:
        """Hear nothing: a document says nothing by itself, so it is read again now and then."""

    async def subscribe(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        """Subscribe to nothing: an API has no resources."""

    async def abandon(self) -> None:
        """Nothing runs that others do not own."""

    async def aclose(self) -> None:
        """Say nothing: there is no goodbye in HTTP."""


def _traced(outgoing: Outgoing, request: Request) -> Mapping[str, str]:
    """Return the header fields with the trace context of a request (W3C Trace Context), whatever arguments say."""
    params = request.params if isinstance(request.params, dict) else {}
    context = params.get("_meta")
    known = context if isinstance(context, dict) else {}
    trace = {name: str(known[name]) for name in _TRACE if name in known}
    return {name: value for name, value in outgoing.fields.items() if name.lower() not in trace} | trace
