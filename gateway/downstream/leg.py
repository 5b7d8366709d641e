"""A request to a server as a span: below that of the call it belongs to, and told to the server in ``_meta``.

Context travels only where a request has a ``_meta`` already, which calls always have and older servers know of.
Knows neither transports nor eras.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from gateway.config.servers import Server
from gateway.downstream.transport import Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.protocol import headers, meta, methods, results
from gateway.protocol.jsonrpc import Id
from gateway.telemetry import spans
from gateway.telemetry.spans import OTHER, Fact, Side, Span, Tracer

_PORTS: Final = {"http": 80, "https": 443}


class Leg:
    """What all spans of one server have in common."""

    def __init__(self, tracer: Tracer, name: str, server: Server) -> None:
        self._tracer = tracer
        self._facts: dict[str, Fact] = {spans.SERVER: name, **_place(server)}

    async def request(self, send: Callable[[Request], Awaitable[Reply]], request: Request, version: str) -> Reply:
        """Send a request with ``send``; ``version`` is the protocol's, "" before there is one.

        Raises:
            DownstreamError: what ``send`` raises.
        """
        if not self._tracer.on:
            return await send(request)
        params = request.params if isinstance(request.params, dict) else {}
        own = params.get("_meta")
        own = own if isinstance(own, dict) else None
        parent = {key: str(own[key]) for key in meta.TRACE_KEYS if key in own} if own is not None else {}
        facts = self._described(request, params, version)
        name = spans.title(request.method, spans.named(request.method, params))
        span = self._tracer.begin(Side.CLIENT, name, parent, facts)
        if own is not None:
            rest = {key: value for key, value in own.items() if key not in meta.TRACE_KEYS}
            request = replace(request, params={**params, "_meta": {**rest, **span.carrier}})
        return await _followed(span, send, request)

    def _described(self, request: Request, params: Mapping[str, object], version: str) -> dict[str, Fact]:
        """Return the attributes of a request's span."""
        target = spans.named(request.method, params)
        facts = {**self._facts, spans.METHOD: request.method, **spans.about(request.method, target)}
        if version:
            facts[spans.VERSION] = version
        session = request.headers.get(headers.SESSION_ID)
        if session:
            facts[spans.SESSION] = self._tracer.pseudonym(session)
        return facts


async def _followed(span: Span, send: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
    """Send a request and end its span the way it ends."""

    def numbered(identifier: Id) -> None:
        span.note({spans.RPC_ID: str(identifier)})

    error = OTHER
    try:
        reply = await send(replace(request, on_id=numbered))
        error = _error(request.method, reply)
        if reply.error is not None:
            span.note({spans.RPC_CODE: str(reply.error.code)})
        return reply
    except DownstreamError as failure:
        error = failure.reason.value
        raise
    except asyncio.CancelledError:
        error = Reason.CANCELLED.value
        raise
    finally:
        span.end(error)


def _error(method: str, reply: Reply) -> str:
    """Return how a request failed, "" where it did not (conventions §Client, ``error.type``)."""
    if reply.error is not None:
        return str(reply.error.code)
    if reply.result is None:
        return str(reply.status or OTHER)
    return "tool_error" if method == methods.TOOLS_CALL and results.is_error(reply.result) else ""


def _place(server: Server) -> dict[str, Fact]:
    """Return where a server is; of an address only host and port, as the rest may hold secrets."""
    if server.kind == "stdio":
        return {spans.TRANSPORT: "pipe"}
    known: dict[str, Fact] = {spans.TRANSPORT: "tcp", spans.PROTOCOL: "http"}
    # An API without a url of its own is called at its document's origin, or where a file says.
    address = server.url.get_secret_value() if server.url is not None else server.document_url
    if not address:
        return known
    parts = urlsplit(address)
    port = parts.port or _PORTS.get(parts.scheme.lower(), 0)
    known[spans.SERVER_ADDRESS] = parts.hostname or ""
    return known | {spans.SERVER_PORT: port} if port else known
