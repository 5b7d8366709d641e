"""Rows 15 and 16 of the checks: from a request to a ``Call``. Names are looked up whole, never split.

Only known members of ``params`` go on, so that what was judged is all that travels (S27). Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.endpoint import on_demand
from gateway.endpoint.classify import METHOD_NOT_FOUND
from gateway.endpoint.faults import unknown
from gateway.endpoint.services import Moment
from gateway.errors import RequestError
from gateway.model.call import Call, Caller, Target, new_call_id
from gateway.model.catalog import Definition, Kind, Route
from gateway.model.principal import Principal
from gateway.pipeline.snapshot import target_of
from gateway.protocol import codes, methods
from gateway.protocol.jsonrpc import Request
from gateway.protocol.meta import RequestMeta
from gateway.protocol.methods import Method
from gateway.protocol.rawjson import Object, Value

_ARGUMENTS = "arguments"
_NAMED_KIND = {methods.TOOLS_CALL: Kind.TOOL, methods.PROMPTS_GET: Kind.PROMPT}
_NOT_SENT_ON = frozenset({methods.REQUEST_STATE, methods.INPUT_RESPONSES, "task"})
"""Members of rounds, which say how a call goes on and not what it is, and of tasks, which are not given out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, and what came with the request besides its own params."""

    principal: Principal
    caller: Caller
    meta: RequestMeta
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """What a request names: its target, the params with the server's own name, the name the client used."""

    target: Target
    params: Object
    exposed: str
    definition: Definition | None = None


class UnknownTarget(RequestError):
    """A name that leads nowhere for this principal; ``call`` is what the audit log gets."""

    def __init__(self, call: Call, message: str = "") -> None:
        error = unknown(call)
        super().__init__(
            error.code, message or error.message, {"uri": call.exposed} if error.data is not None else None
        )
        self.call = call


def invalid(message: str) -> RequestError:
    """Return the error for params of the wrong shape."""
    return RequestError(codes.INVALID_PARAMS, f"Invalid params: {message}")


def known(params: Object, members: Iterable[str]) -> Object:
    """Return the known members.

    Raises:
        RequestError: a member that differs from a known one only by case (CVE-2026-27896).
    """
    wanted = tuple(members)
    folded = {name.casefold() for name in (*wanted, "_meta")}
    for key in params:
        if key not in wanted and key != "_meta" and key.casefold() in folded:
            raise invalid("a member differs from a known one only by case")
    return {key: params[key] for key in wanted if key in params}


def build(moment: Moment, request: Request, row: Method, asked: Asked) -> Call:
    """Make the call that a request of role CALL stands for.

    Raises:
        UnknownTarget: the name is unknown, hidden or held back, all alike.
        RequestError: params of the wrong shape, or a URI that several visible servers claim.
    """
    if row.opaque:
        return _of_extension(moment, request, draft_of(request, asked))
    params = known(request.params, row.members)
    params = {key: value for key, value in params.items() if key not in _NOT_SENT_ON}
    draft = draft_of(request, asked)
    if request.method == methods.COMPLETE:
        found = _completion(moment, draft, params)
    elif row.target == "uri":
        found = _resource(moment, draft, params)
    else:
        if request.method == methods.TOOLS_CALL and on_demand.applies(moment.config, asked.caller.view):
            params = on_demand.inner(params)
        found = _named(moment, draft, params, _NAMED_KIND[request.method])
    return replace(draft, target=found.target, params=found.params, exposed=found.exposed, definition=found.definition)


def _of_extension(moment: Moment, request: Request, draft: Call) -> Call:
    """Make the call that a method of an unknown extension stands for; only ``_meta`` of its params is rebuilt.

    Raises:
        RequestError: no server or more than one can be meant, or the client may not use it: all of them alike.
    """
    target = moment.owner(request.method, draft.principal, draft.caller)
    if target is None:
        raise RequestError(codes.METHOD_NOT_FOUND, METHOD_NOT_FOUND)
    params = {key: value for key, value in request.params.items() if key != "_meta"}
    return replace(draft, target=target, params=params, exposed=request.method)


def draft_of(request: Request, asked: Asked) -> Call:
    """Return the call that a request stands for, before it is known what it is about."""
    return Call(
        id=new_call_id(),
        rpc_id=request.id,
        method=request.method,
        params={},
        target=Target(Kind.TOOL, "", ""),
        principal=asked.principal,
        caller=asked.caller,
        meta=asked.meta.extra,
        trace=asked.meta.trace,
        progress_token=asked.meta.progress_token,
        log_level=asked.log_level,
    )


def _text(params: Object, key: str, where: str = "") -> str:
    value = params.get(key)
    if not isinstance(value, str):
        raise invalid(f"{where}{key} must be a string")
    return value


def _object(params: Object, key: str, where: str = "") -> Object:
    value = params.get(key)
    if not isinstance(value, dict):
        raise invalid(f"{where}{key} must be an object")
    return value


def _named(moment: Moment, draft: Call, params: Object, kind: Kind) -> _Found:
    name = _text(params, "name")
    if _ARGUMENTS in params:
        _object(params, _ARGUMENTS)
    route = _route(moment, draft, kind, name)
    return _Found(target_of(route), params | {"name": route.name}, route.exposed, route.definition)


def _route(moment: Moment, draft: Call, kind: Kind, name: str) -> Route:
    route = moment.resolve(kind, name, draft.principal, draft.caller.view)
    if route is None:
        lost = replace(draft, target=Target(kind, "", name), exposed=name)
        raise UnknownTarget(lost)
    return route


def _resource(moment: Moment, draft: Call, params: Object) -> _Found:
    uri = _text(params, "uri")
    target, definition = resolve(moment, draft, uri)
    return _Found(target, params | {"uri": target.name}, uri, definition)


def resolve(moment: Moment, draft: Call, uri: str) -> tuple[Target, Definition | None]:
    """Return where a resource URI leads for the caller of ``draft``.

    Raises:
        UnknownTarget: nowhere.
        RequestError: to several visible servers, which the text names.
    """
    resolved = moment.resolve_uri(uri, draft.principal, draft.caller.view)
    if resolved.ambiguous:
        servers: list[Value] = list(resolved.ambiguous)
        text = f"Ambiguous resource: write SERVER+URI with one of {', '.join(resolved.ambiguous)}"
        raise RequestError(codes.INVALID_PARAMS, text, {"uri": uri, "servers": servers})
    if resolved.target is None:
        lost = replace(draft, target=Target(Kind.RESOURCE, "", uri), exposed=uri)
        raise UnknownTarget(lost)
    return resolved.target, resolved.definition


def _completion(moment: Moment, draft: Call, params: Object) -> _Found:
    """Resolve a reference like the thing it names (server/utilities/completion §Reference Types)."""
    ref = known(_object(params, "ref"), ("type", "name", "title", "uri"))
    argument = known(_object(params, "argument"), ("name", "value"))
    for key in ("name", "value"):
        _text(argument, key, "argument.")
    context = known(_object(params, "context"), (_ARGUMENTS,)) if "context" in params else None
    if context is not None and _ARGUMENTS in context:
        _object(context, _ARGUMENTS, "context.")
    rest: Object = {"argument": argument}
    if context is not None:
        rest["context"] = context
    match ref.get("type"):
        case "ref/prompt":
            route = _route(moment, draft, Kind.PROMPT, _text(ref, "name", "ref."))
            own: Object = {"type": "ref/prompt", "name": route.name}
            return _Found(target_of(route), {"ref": own, **rest}, route.exposed, route.definition)
        case "ref/resource":
            return _resource_ref(moment, draft, _text(ref, "uri", "ref."), rest)
        case _:
            raise invalid("ref.type must be ref/prompt or ref/resource")


def _resource_ref(moment: Moment, draft: Call, uri: str, rest: Object) -> _Found:
    """Resolve a template by its text, as listed or with its server in front, and anything else as a resource."""
    principal, view = draft.principal, draft.caller.view
    for route in moment.listed(Kind.TEMPLATE, principal, view):
        forms = (f"{route.server}+{route.name}", moment.bare_uri(route, principal, view))
        if uri in forms:
            found: tuple[Target, Definition | None] = target_of(route), route.definition
            break
    else:
        found = resolve(moment, draft, uri)
    target, definition = found
    return _Found(target, {"ref": {"type": "ref/resource", "uri": target.name}, **rest}, uri, definition)
