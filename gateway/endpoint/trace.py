"""A client's request as a span, from when it is understood to its answer; with tracing off, nothing at all.

The parent is the context in ``_meta``; one that came as an HTTP header is the hop's own: it is linked, or the parent
where there is no other (conventions §Context propagation). Knows no chain and no server.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import Final, Protocol

from gateway.audit import fields
from gateway.endpoint.inbound import Inbound
from gateway.endpoint.rejection import Rejected
from gateway.errors import Reason, RequestError
from gateway.model.call import Call, Caller
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.observe import error_type, outcome_label
from gateway.protocol import codes, meta, methods
from gateway.protocol.jsonrpc import Request
from gateway.protocol.meta import RequestMeta
from gateway.telemetry import spans
from gateway.telemetry.spans import OTHER, Fact, Side, Span, Tracer


class RequestSpan(Protocol):
    """What a handler tells of a request while it serves it; leaving the block ends it."""

    def __enter__(self) -> RequestSpan: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, told: RequestMeta, caller: Caller) -> RequestMeta:
        """Begin it, once it is known who asks over what; returns ``_meta`` with the context for the next hop."""

    def about(self, call: Call) -> None:
        """Say what the request is about, once that is known."""

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Say how its call ended."""

    def refused(self, error: RequestError) -> None:
        """Say that it is answered with an error before it became a call."""


class _Untraced:
    """Takes everything and does nothing."""

    def __enter__(self) -> _Untraced:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, told: RequestMeta, caller: Caller) -> RequestMeta:
        return told

    def about(self, call: Call) -> None: ...

    def ended(self, call: Call, outcome: Outcome) -> None: ...

    def refused(self, error: RequestError) -> None: ...


UNTRACED: Final = _Untraced()


class _Traced:
    """One request with a span, once it has begun."""

    def __init__(self, tracer: Tracer, inbound: Inbound, request: Request) -> None:
        self._tracer = tracer
        self._inbound = inbound
        self._request = request
        self._method = request.method if request.method in methods.METHODS else OTHER
        self._span: Span | None = None
        self._error = ""

    def __enter__(self) -> _Traced:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        match error:
            case None:
                pass
            case Rejected():
                self._failed(error.rejection.code)
            case asyncio.CancelledError():
                self._error = Reason.CANCELLED.value
            case _:
                self._error = OTHER
        if self._span is not None:
            self._span.end(self._error)

    def begin(self, told: RequestMeta, caller: Caller) -> RequestMeta:
        hop = meta.trace_context(dict(self._inbound.head.headers))
        span = self._tracer.begin(Side.SERVER, self._method, told.trace or hop, self._facts(caller))
        if told.trace and hop:
            span.link(hop)
        self._span = span
        return replace(told, trace=span.carrier)

    def _facts(self, caller: Caller) -> dict[str, Fact]:
        inbound = self._inbound
        facts: dict[str, Fact] = {
            spans.METHOD: self._method,
            spans.RPC_ID: str(self._request.id),
            spans.TRANSPORT: "tcp",
            spans.PROTOCOL: "http",
            spans.CLIENT: inbound.principal.label,
        }
        network = fields.source_block(caller.source).get("ip")
        known = {
            spans.VERSION: caller.version,
            spans.CLIENT_ADDRESS: network if isinstance(network, str) else "",
            spans.SESSION: self._tracer.pseudonym(caller.session) if caller.session else "",
            spans.VIEW: caller.view or "",
        }
        return facts | {key: value for key, value in known.items() if value}

    def about(self, call: Call) -> None:
        if self._span is None:
            return
        facts: dict[str, Fact] = {
            **spans.about(call.method, call.exposed),
            spans.SERVER: call.target.server,
            spans.CALL: call.id,
            spans.METHOD: call.method,
        }
        if call.definition is not None:
            facts[spans.DEFINITION] = call.definition.digest
        if call.round > 1:
            facts[spans.ROUND] = call.round
        # A name that nothing is known by is a client's text, of which there may be any number.
        self._span.name(spans.title(call.method, call.exposed if call.definition is not None else ""))
        self._span.note(facts)
        if call.earlier:
            self._span.link(call.earlier)

    def ended(self, call: Call, outcome: Outcome) -> None:
        if self._span is None:
            return
        self._error = error_type(outcome)
        facts: dict[str, Fact] = {spans.OUTCOME: outcome_label(outcome)}
        code = _code(call, outcome)
        self._span.note(facts if code is None else facts | {spans.RPC_CODE: str(code)})

    def refused(self, error: RequestError) -> None:
        self._failed(error.code)

    def _failed(self, code: int | None) -> None:
        """Name an error by its code (conventions §Server, ``error.type``)."""
        self._error = str(code)
        if self._span is not None:
            self._span.note({spans.RPC_CODE: self._error})


def request_span(tracer: Tracer, inbound: Inbound, request: Request) -> RequestSpan:
    """Return what to tell of a request. A stream that waits for changes is none: it has no end to wait for."""
    return _Traced(tracer, inbound, request) if tracer.on and request.method != methods.LISTEN else UNTRACED


def _code(call: Call, outcome: Outcome) -> int | None:
    """Return the JSON-RPC error that a client gets; a refused tool call is a result."""
    match outcome:
        case Failure(error=error) if error is not None:
            return error.code
        case Failure(reason=reason) if call.method != methods.TOOLS_CALL:
            return codes.reason_code(reason)
        case _:
            return None
