"""A question to a client as a span below its call's, from when it is sent to the client's answer.

The client is told in ``_meta`` where its own span belongs. Knows neither sessions nor what a question is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.protocol import meta, methods, rawjson
from gateway.protocol.jsonrpc import Id, Response
from gateway.protocol.rawjson import Members, Raw
from gateway.telemetry import spans
from gateway.telemetry.spans import OTHER, Carrier, Fact, Side, Span, Tracer

Put: TypeAlias = Callable[[Raw | None, Callable[[Id], None]], Awaitable[Response | None]]
"""Sends a question with these params and waits for the answer, None for none; tells the id once it is sent."""

_KNOWN: Final = frozenset({methods.ELICIT, methods.SAMPLE, methods.ROOTS})


async def followed(tracer: Tracer, call: Call, question: Members, put: Put) -> Response | None:
    """Put a question to the client of a call, and return what ``put`` returns."""
    params = question.get("params")
    if not tracer.on:
        return await put(params, lambda identifier: None)
    own = rawjson.decode_members(params) if params is not None else {}
    method = str(rawjson.peek(question.get("method")))
    method = method if method in _KNOWN else OTHER
    parent, theirs = _above(call, own)
    span = tracer.begin(Side.CLIENT, method, parent, {spans.METHOD: method, **_facts(tracer, call)})
    if theirs:
        span.link(theirs)
    return await _until_answered(span, rawjson.raw(_with_context(own, span.carrier)), put)


async def _until_answered(span: Span, params: Raw, put: Put) -> Response | None:
    error = OTHER

    def sent(identifier: Id) -> None:
        nonlocal error
        # Taken back by its server, or given up by the call, unless an answer comes.
        error = Reason.CANCELLED.value
        span.note({spans.RPC_ID: str(identifier)})

    try:
        response = await put(params, sent)
        if response is not None:
            error = _code(response)
            span.note({spans.RPC_CODE: error} if error else {})
        return response
    except asyncio.CancelledError:
        error = Reason.CANCELLED.value
        raise
    finally:
        span.end(error)


def _code(response: Response) -> str:
    """Return the code of an error, "" for an answer; a person who declines has answered (conventions §Client)."""
    if response.error is None:
        return ""
    code = response.error.get("code")
    return str(code) if isinstance(code, int) and not isinstance(code, bool) else OTHER


def _above(call: Call, params: Members) -> tuple[Carrier, Carrier]:
    """Return the parent, and what is linked.

    A server that goes on with the call's trace names the span that asks. In any other trace it cannot put a span, nor
    can it say what is recorded.
    """
    own = meta.trace_context({key: rawjson.peek(item) for key, item in _meta(params).items() if key in meta.TRACE_KEYS})
    if not own:
        return call.trace, {}
    theirs, ours = own["traceparent"].split("-"), call.trace.get("traceparent", "").split("-")
    if len(ours) != 4 or theirs[1] != ours[1]:
        return call.trace, own
    return {**call.trace, "traceparent": "-".join([*ours[:2], theirs[2], ours[3]])}, {}


def _meta(params: Members) -> Members:
    own = params.get("_meta")
    # It is an object: what a server sent in its place is left out before a question gets here.
    return rawjson.decode_members(own) if own is not None else {}


def _with_context(params: Members, carrier: Carrier) -> Members:
    rest = {key: item for key, item in _meta(params).items() if key not in meta.TRACE_KEYS}
    return params | {"_meta": rawjson.raw(rest | {key: rawjson.raw(value) for key, value in carrier.items()})}


def _facts(tracer: Tracer, call: Call) -> dict[str, Fact]:
    caller = call.caller
    known = {
        spans.VERSION: caller.version,
        spans.TRANSPORT: "tcp",
        spans.PROTOCOL: "http",
        spans.SESSION: tracer.pseudonym(caller.session) if caller.session else "",
        spans.SERVER: call.target.server,
        spans.CLIENT: call.principal.label,
        spans.CALL: call.id,
        spans.VIEW: caller.view or "",
    }
    return {key: value for key, value in known.items() if value}
