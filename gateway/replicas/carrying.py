"""Calls and their outcomes as letters between replicas: all of them, as the steps before and after see them.

What client and server wrote travels as it was written. Reading is strict: a letter of another version is no call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.errors import Reason
from gateway.model.call import Beyond, Call, Caller, Sort, Target, TaskRef
from gateway.model.catalog import Definition, Kind
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import JsonError, Members, Object, Raw
from gateway.protocol.versions import Era

_SORTS: Final[Mapping[str, Sort]] = {each.value: each for each in (*Kind, *Beyond)}
_WORDS: Final[Mapping[type[Outcome], str]] = {
    Complete: "complete",
    InputRequired: "input",
    Started: "started",
    Failure: "failure",
}


@dataclass(frozen=True, slots=True)
class _Target:
    kind: str
    server: str
    name: str
    annotations: Raw


@dataclass(frozen=True, slots=True)
class _Definition:
    kind: Kind
    name: str
    members: Members
    digest: str
    annotations: Raw
    views: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Principal:
    id: str
    kind: str
    label: str
    groups: frozenset[str]
    scopes: frozenset[str]
    claims: Raw
    credential: str
    expires: float | None
    terms: str
    token: str


@dataclass(frozen=True, slots=True)
class _Caller:
    era: Era
    version: str
    source: str
    session: str
    capabilities: Raw
    info: Raw
    view: str | None


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    rpc_id: int | str
    method: str
    params: Raw
    target: _Target
    principal: _Principal
    caller: _Caller
    exposed: str
    definition: _Definition | None
    meta: Raw
    trace: dict[str, str]
    progress_token: int | str | None
    log_level: str | None
    input_responses: Raw
    request_state: str | None
    round: int
    task: TaskRef | None


@dataclass(frozen=True, slots=True)
class _Questions:
    requests: Members
    state: str | None
    held: bool
    answered: Raw
    extra: Members


@dataclass(frozen=True, slots=True)
class _Error:
    code: int
    message: str
    data: Raw


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: Reason
    text: str
    may_have_run: bool
    retry_after_ms: int | None
    error: _Error | None
    detail: str
    scopes: frozenset[str]
    hidden: bool
    approval: str


@dataclass(frozen=True, slots=True)
class _Facts:
    dispatched: bool
    repeated: bool
    instance: InstanceFacts | None
    notes: dict[str, str]


@dataclass(frozen=True, slots=True)
class Carried:
    """A call on its way to another replica, and what its client answered questions with in words of its own."""

    call: Call
    refusals: dict[str, ErrorObject]


def of_call(call: Call, exchange: Exchange) -> Mapping[str, object]:
    """Return what a letter says of a call."""
    return {"call": call, "refusals": exchange.refusals}


def read_call(said: Members) -> Carried:
    """Return the call that a letter tells of.

    Raises:
        JsonError: it tells of none.
    """
    read = rawjson.decode_as(_Call, _member(said, "call"))
    if read.target.kind not in _SORTS:
        raise JsonError("other_shape")
    principal, caller = read.principal, read.caller
    given = rawjson.decode_value(read.input_responses)
    call = Call(
        id=read.id,
        rpc_id=read.rpc_id,
        method=read.method,
        params=_object(read.params),
        target=Target(_SORTS[read.target.kind], read.target.server, read.target.name, _object(read.target.annotations)),
        principal=Principal(
            principal.id,
            principal.kind,
            principal.label,
            principal.groups,
            principal.scopes,
            _object(principal.claims),
            principal.credential,
            principal.expires,
            principal.terms,
            principal.token,
        ),
        caller=Caller(
            caller.era,
            caller.version,
            caller.source,
            caller.session,
            _object(caller.capabilities),
            _object(caller.info),
            caller.view,
        ),
        exposed=read.exposed,
        definition=_definition(read.definition),
        meta=_object(read.meta),
        trace=read.trace,
        progress_token=read.progress_token,
        log_level=read.log_level,
        input_responses=given if isinstance(given, dict) else None,
        request_state=read.request_state,
        round=read.round,
        task=read.task,
    )
    refusals = rawjson.decode_members(_member(said, "refusals"))
    return Carried(call, {key: _error(rawjson.decode_as(_Error, item)) for key, item in refusals.items()})


def of_outcome(outcome: Outcome) -> Mapping[str, object]:
    """Return what a letter says of an outcome."""
    return {"sort": _WORDS[type(outcome)], "outcome": outcome}


def read_outcome(said: Members) -> Outcome:
    """Return the outcome that a letter tells of.

    Raises:
        JsonError: it tells of none.
    """
    held = _member(said, "outcome")
    match rawjson.peek(said.get("sort")):
        case "complete":
            return rawjson.decode_as(Complete, held)
        case "started":
            return rawjson.decode_as(Started, held)
        case "failure":
            return _failure(rawjson.decode_as(_Failure, held))
        case "input":
            asked = rawjson.decode_as(_Questions, held)
            return InputRequired(asked.requests, asked.state, asked.held, _object(asked.answered), asked.extra)
        case _:
            raise JsonError("other_shape")


def of_exchange(exchange: Exchange) -> Mapping[str, object]:
    """Return what a letter says of how a call went."""
    facts = _Facts(exchange.dispatched, exchange.repeated, exchange.instance, exchange.notes)
    return {"facts": facts}


def note_exchange(said: Members, exchange: Exchange) -> None:
    """Write down in the exchange of a call how it went at another replica.

    Raises:
        JsonError: the letter does not tell.
    """
    facts = rawjson.decode_as(_Facts, _member(said, "facts"))
    if facts.dispatched:
        exchange.mark_dispatched()
    exchange.repeated = facts.repeated
    exchange.instance = facts.instance
    exchange.notes.update(facts.notes)


def broken(server: str) -> Failure:
    """Return the failure of a call whose outcome cannot be passed on."""
    return Failure.by_server(server, Reason.TOO_LARGE, "answered with more than one replica passes on to another")


def _member(said: Members, name: str) -> Raw:
    if name not in said:
        raise JsonError("other_shape")
    return said[name]


def _object(item: Raw) -> Object:
    value = rawjson.decode_value(item)
    if not isinstance(value, dict):
        raise JsonError("other_shape")
    return value


def _definition(read: _Definition | None) -> Definition | None:
    if read is None:
        return None
    return Definition(read.kind, read.name, read.members, read.digest, _object(read.annotations), read.views)


def _failure(read: _Failure) -> Failure:
    return Failure(
        read.reason,
        read.text,
        read.may_have_run,
        read.retry_after_ms,
        None if read.error is None else _error(read.error),
        read.detail,
        read.scopes,
        read.hidden,
        read.approval,
    )


def _error(read: _Error) -> ErrorObject:
    return ErrorObject(read.code, read.message, None if rawjson.is_text(read.data, b"null") else read.data)
