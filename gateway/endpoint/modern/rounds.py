"""A call's rounds towards a modern client: its server's questions as a result, and the request that comes back.

What must come back unchanged is sealed: the server's own state, which call it is, and what the gateway answered itself.
The seal opens for the same principal, view, server, method, target and arguments alone (basic/patterns/mrtr
§Server Requirements; S98). Knows nothing of how a call runs.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

from gateway.endpoint import fit
from gateway.endpoint.reply import Answer, refusal
from gateway.endpoint.services import Moment
from gateway.errors import Reason, RequestError
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import LOOK, Failure, InputRequired
from gateway.protocol import codes, jsonrpc, meta, methods, rawjson, results
from gateway.protocol.rawjson import JsonError, Members, Object, Value
from gateway.state.sealing import Sealer, SealError

LIFETIME: Final = 600.0
"""Seconds for which a state is good, at most; less where the server's calls may wait less long for people."""

MAX_STATE: Final = 512 * 1024
"""Bytes that may be sealed: the client has to send them back in a body of bounded size."""

_PURPOSE: Final = "request-state"


class StateRejected(RequestError):
    """A ``requestState`` that is not ours, not for this request, or too old; which of them, nobody is told."""

    def __init__(self) -> None:
        super().__init__(codes.INVALID_PARAMS, f"Invalid or expired {methods.REQUEST_STATE}")


def resumed(sealer: Sealer, call: Call, params: Object) -> Call:
    """Return the call a request stands for: the next round of an earlier one where it carries a state.

    Answers without a state come from a client that knows the questions beforehand: they travel with a new call, and
    its server ignores what it does not need (mrtr §Error Handling). One that is no object is not used, so that its
    question is asked again.

    Raises:
        StateRejected: the state does not open here.
        RequestError: the answers are no object.
    """
    given = params.get(methods.INPUT_RESPONSES, {})
    if not isinstance(given, dict):
        raise RequestError(codes.INVALID_PARAMS, f"Invalid params: {methods.INPUT_RESPONSES} must be an object")
    answers: Object = {key: item for key, item in given.items() if isinstance(item, dict)}
    if methods.REQUEST_STATE not in params:
        return replace(call, input_responses=answers) if answers else call
    token = params[methods.REQUEST_STATE]
    if not isinstance(token, str):
        raise StateRejected
    try:
        carried = rawjson.decode_value(sealer.open(_PURPOSE, token, _context(call)))
    except (SealError, JsonError):
        raise StateRejected from None
    return _next_round(call, carried, answers)


def _next_round(call: Call, carried: Value, given: Object) -> Call:
    if not isinstance(carried, dict):
        raise StateRejected
    call_id, number, state = carried.get("call"), carried.get("round"), carried.get("state")
    answered, trace = carried.get("answered"), carried.get("trace")
    if not isinstance(call_id, str) or not isinstance(number, int) or not isinstance(answered, dict):
        raise StateRejected
    return replace(
        call,
        id=call_id,
        round=number,
        earlier=meta.trace_context(trace) if isinstance(trace, dict) else {},
        request_state=state if isinstance(state, str) else None,
        input_responses=given | answered,
    )


def asking(sealer: Sealer, moment: Moment, call: Call, exchange: Exchange, asked: InputRequired) -> Answer:
    """Write the result that asks for input (mrtr §InputRequiredResult); it always carries a state."""
    carried: Object = {
        "call": call.id,
        "round": call.round + 1,
        "state": asked.state,
        "answered": asked.answered,
        "trace": {**call.trace},
    }
    payload = rawjson.encode(carried)
    if len(payload) > MAX_STATE:
        return refusal(call, _too_large(call))
    patience = moment.config.servers[call.target.server].timeouts.asks
    token = sealer.seal(_PURPOSE, payload, _context(call), min(LIFETIME, patience))
    members: Members = meta.without_ours(asked.extra) | {
        "resultType": rawjson.raw(results.INPUT_REQUIRED),
        methods.REQUEST_STATE: rawjson.raw(token),
    }
    if asked.requests:
        questions = {key: fit.question(call, exchange, item) for key, item in asked.requests.items()}
        members["inputRequests"] = rawjson.raw(questions)
    return Answer(jsonrpc.encode_result(call.rpc_id, fit.marked(moment, call, exchange, members)))


def _too_large(call: Call) -> Failure:
    what = f"asked for input with a state over {MAX_STATE} bytes"
    return Failure.by_server(call.target.server, Reason.TOO_LARGE, what, LOOK)


def _context(call: Call) -> bytes:
    """Return what a state is bound to, beside its expiry."""
    target = call.target
    arguments = hashlib.sha256(rawjson.canonical_decoded(call.params)).hexdigest()
    bound: list[Value] = [call.principal.id, call.caller.view, target.server, call.method]
    return rawjson.canonical_plain([*bound, target.kind.value, target.name, arguments])
