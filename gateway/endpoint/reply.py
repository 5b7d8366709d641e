"""From an outcome to the bytes of one answer, and the HTTP responses that carry answers. Knows no streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from aiohttp import web

from gateway.endpoint import faults, fit
from gateway.endpoint.connection import BASE_HEADERS
from gateway.endpoint.rejection import Rejection
from gateway.endpoint.services import Moment
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import LOOK, Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import codes, jsonrpc, methods, rawjson, results
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members
from gateway.protocol.versions import Era

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """One JSON-RPC answer and the HTTP status and headers it has as long as no stream has begun."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def of_outcome(moment: Moment, call: Call, exchange: Exchange, outcome: Outcome) -> Answer:
    """Write how a call ended."""
    match outcome:
        case Complete(members):
            return Answer(jsonrpc.encode_result(call.rpc_id, fit.result(moment, call, exchange, members)))
        case Failure(scopes=scopes) if scopes:
            return _insufficient_scope(moment, call, outcome)
        case Failure(hidden=True):
            error = faults.unknown(call)
            return Answer(jsonrpc.encode_error(call.rpc_id, error), codes.http_status(error.code, call.caller.era))
        case Failure(error=error):
            return refusal(call, outcome) if error is None else _server_error(moment, call, error)
        case InputRequired() | Started():
            return refusal(call, unfinished(call))
    assert_never(outcome)


def unfinished(call: Call) -> Failure:
    """Return what stands for an answer that this call cannot be given."""
    what = "answered with something this call did not offer to take"
    return Failure.by_server(call.target.server, Reason.PROTOCOL_ERROR, what, LOOK)


def _server_error(moment: Moment, call: Call, error: ErrorObject) -> Answer:
    listing = moment.catalog.listings.get(call.target.server)
    fitted = faults.of_server(call, error, listing.era if listing is not None else "")
    if isinstance(fitted, Failure):
        return refusal(call, fitted)
    return Answer(jsonrpc.encode_error(call.rpc_id, fitted), codes.http_status(fitted.code, call.caller.era))


def refusal(call: Call, failure: Failure) -> Answer:
    """Write what the gateway stopped: a result a model can read for tools, an error for everything else."""
    modern = call.caller.era is Era.MODERN
    if call.method == methods.TOOLS_CALL:
        members = results.refusal(failure.text, failure.facts(), modern=modern)
        return Answer(jsonrpc.encode_result(call.rpc_id, fit.own_result(members) if modern else members))
    return Answer(jsonrpc.encode_error(call.rpc_id, _refusal_error(failure)))


def _refusal_error(failure: Failure) -> ErrorObject:
    data: dict[str, object] = {"source": faults.GATEWAY, **failure.facts()}
    return ErrorObject(codes.reason_code(failure.reason), failure.text, rawjson.raw(data))


def _insufficient_scope(moment: Moment, call: Call, failure: Failure) -> Answer:
    """Challenge for every scope the call needs at once (row 18; RFC 6750 §3.1)."""
    challenge = moment.authenticator.challenges.insufficient(call.caller.view or "", failure.scopes)
    error = _refusal_error(failure)
    return Answer(jsonrpc.encode_error(call.rpc_id, error), 403, {"WWW-Authenticate": challenge})


def of_result(identifier: jsonrpc.Id, members: Members) -> Answer:
    """Write a result of our own making."""
    return Answer(jsonrpc.encode_result(identifier, members))


def respond(answer: Answer, extra: Mapping[str, str]) -> web.Response:
    """Make the plain response of an answer; ``extra`` are headers of the request's own, such as CORS."""
    if not answer.body:
        return accepted(extra, answer.status)
    headers = {**BASE_HEADERS, **extra, **answer.headers}
    return web.Response(status=answer.status, body=answer.body, headers=headers, content_type=JSON)


def accepted(extra: Mapping[str, str], status: int = 202) -> web.Response:
    """Make a response without a body."""
    return web.Response(status=status, headers={**BASE_HEADERS, **extra})


def rejected(rejection: Rejection, extra: Mapping[str, str]) -> web.Response:
    """Make the response of a rejection."""
    headers = {**BASE_HEADERS, **extra, **rejection.headers}
    body = rejection.body()
    response = web.Response(
        status=rejection.status, body=body or None, headers=headers, content_type=JSON if body else None
    )
    if rejection.close:
        response.force_close()
    return response
