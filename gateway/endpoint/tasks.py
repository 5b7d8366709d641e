"""Tasks towards clients of both eras: ids sealed to whom they belong, requests about them, and what is shown of them.

An id is the server's own, sealed with its server and tool to principal, view and era: any gateway with the key can open
it, and it opens for nobody else. It always is the same text, so that a client finds its task again in lists and
notifications. Knows nothing of how a call runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gateway.endpoint import faults, fit, reply
from gateway.endpoint.build import UnknownTarget, invalid
from gateway.endpoint.classify import SHOWN
from gateway.endpoint.reply import Answer
from gateway.endpoint.services import Moment
from gateway.model.call import Call, Caller, Target, TaskRef
from gateway.model.catalog import Kind, Route
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome
from gateway.model.principal import Principal
from gateway.protocol import codes, jsonrpc, methods, rawjson, tasks
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import JsonError, Object, Raw
from gateway.state.sealing import Sealer, SealError
from gateway.telemetry.text import printable

_PURPOSE: Final = "task"
_FORGETS: Final = frozenset({methods.TASKS_GET, methods.TASKS_UPDATE})
"""Where a server's "invalid params" can only mean that it does not know the task; a cancellation it may also refuse."""


@dataclass(frozen=True, slots=True)
class Handle:
    """What a sealed id holds: where the task runs, which tool it runs, and the call it began as.

    ``instance`` and ``replica`` name the connection that it was started on, and the gateway that has this connection.
    """

    server: str
    tool: str
    task: str
    call: str
    instance: str = ""
    replica: str = ""


def _context(principal: Principal, caller: Caller) -> bytes:
    return rawjson.canonical_plain([principal.id, caller.view, caller.era.value])


def seal(sealer: Sealer, call: Call, task: str, instance: str = "", replica: str = "") -> str:
    """Return the id under which the caller knows a task of its call."""
    held: Object = {"server": call.target.server, "tool": call.target.name, "task": task, "call": call.id}
    if instance:
        held["instance"] = instance
    if replica:
        held["replica"] = replica
    return sealer.seal_alike(_PURPOSE, rawjson.canonical_plain(held), _context(call.principal, call.caller))


def opened(sealer: Sealer, token: str, principal: Principal, caller: Caller) -> Handle | None:
    """Return what an id holds; None for one that is not this caller's, whatever else it is."""
    try:
        held = rawjson.decode_value(sealer.open(_PURPOSE, token, _context(principal, caller)))
    except (SealError, JsonError):
        return None
    if not isinstance(held, dict):
        return None
    texts = {name: value for name, value in held.items() if isinstance(value, str)}
    if not {"server", "tool", "task", "call"} <= texts.keys():
        return None
    where = (texts.get("instance", ""), texts.get("replica", ""))
    return Handle(texts["server"], texts["tool"], texts["task"], texts["call"], *where)


def route_of(moment: Moment, server: str, tool: str) -> Route | None:
    """Return a tool by its server's own name for it, whoever may see it."""
    routes = moment.catalog.by_kind.get(Kind.TOOL, ())
    return next((route for route in routes if (route.server, route.name) == (server, tool)), None)


def call_of(moment: Moment, sealer: Sealer, draft: Call, params: Object) -> Call:
    """Return the call that a request about a task stands for: about the same tool, under the id it began with.

    Raises:
        UnknownTarget: the id is not the caller's, or it may not call the tool any more, all alike.
        RequestError: params of the wrong shape.
    """
    token = params.get(methods.TASK_ID)
    if not isinstance(token, str):
        raise invalid(f"{methods.TASK_ID} must be a string")
    handle = opened(sealer, token, draft.principal, draft.caller)
    route = route_of(moment, handle.server, handle.tool) if handle is not None else None
    if handle is None or route is None:
        raise unknown(draft, token)
    if moment.resolve(Kind.TOOL, route.exposed, draft.principal, draft.caller.view) is None:
        raise unknown(draft, token, route.exposed)
    return replace(
        draft,
        id=handle.call,
        target=Target.of(route),
        exposed=route.exposed,
        definition=route.definition,
        params={methods.TASK_ID: handle.task},
        task=TaskRef(handle.task, token, handle.instance, handle.replica),
        round=2,
    )


def unknown(draft: Call, token: str, hidden: str = "") -> UnknownTarget:
    """Return the one answer for every id that leads nowhere; ``hidden`` is the tool it names, for the log alone."""
    shown = printable(token, SHOWN)
    lost = replace(draft, target=Target(Kind.TOOL, "", hidden or shown), exposed=hidden or shown)
    return UnknownTarget(lost, f"Unknown task: {shown}")


def as_tool_call(call: Call) -> Call:
    """Return the call that the task began as, as far as its result is concerned."""
    return replace(call, method=methods.TOOLS_CALL, params={"name": call.target.name})


def answer(moment: Moment, call: Call, exchange: Exchange, outcome: Outcome) -> Answer:
    """Write how a request about a task ended; ``outcome`` already shows the client's id."""
    error = outcome.error if isinstance(outcome, Failure) else None
    if error is None or call.task is None:
        return reply.of_outcome(moment, call, exchange, outcome)
    if error.code == codes.INVALID_PARAMS and call.method in _FORGETS:
        told = unknown(call, call.task.shown)
        body = jsonrpc.encode_error(call.rpc_id, ErrorObject(told.code, told.message))
        return Answer(body, codes.http_status(told.code, call.caller.era))
    assert isinstance(outcome, Failure)
    renamed = replace(error, message=error.message.replace(call.task.id, call.task.shown))
    return reply.of_outcome(moment, call, exchange, replace(outcome, error=renamed))


def carried_error(moment: Moment, call: Call, item: Raw) -> Raw:
    """Return the error that a task failed with as its client may see it."""
    try:
        error = jsonrpc.read_error(item)
    except (JsonError, jsonrpc.Invalid):
        return item
    listing = moment.catalog.listings.get(call.target.server)
    fitted = faults.of_server(as_tool_call(call), error, listing.era if listing is not None else "")
    if isinstance(fitted, Failure):
        fitted = ErrorObject(codes.reason_code(fitted.reason), fitted.text)
    body: dict[str, object] = {"code": fitted.code, "message": fitted.message}
    if fitted.data is not None:
        body["data"] = fitted.data
    return rawjson.raw(body)


def carried_result(moment: Moment, call: Call, item: Raw) -> Raw:
    """Return the result inside of a task as its client may read it; it does not say again which task it is of."""
    try:
        members = rawjson.decode_members(item)
    except JsonError:
        return item
    return rawjson.raw(tasks.unrelated(fit.carried(moment, as_tool_call(call), members)))
