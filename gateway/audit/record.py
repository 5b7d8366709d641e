"""The records of calls, built from the model's values. Pure; the log adds time, place in the chain and hash.

A call's records share one description (``describe``), made once; each then adds what only it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from gateway.audit import fields
from gateway.audit.chain import MAX_RECORD
from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import codes, methods, rawjson, results
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era

_CHAIN_ROOM: Final = 512
"""Bytes kept free for what the chain adds to a record."""
_SHRINK: Final = (
    ("payload", "args_shape"),
    ("payload", "result"),
    ("tool", "annotations"),
    ("principal", "claims_used"),
    ("principal", "groups"),
    ("principal", "scopes"),
    ("notes", ""),
    ("payload", "args"),
)
_KEPT: Final = frozenset({"event", "call_id", "ts", "mono_us", "server", "outcome"})

STATUS: Final[dict[Reason, str]] = {
    Reason.DENIED: "denied",
    Reason.APPROVAL_REQUIRED: "denied",
    Reason.APPROVAL_DENIED: "denied",
    Reason.INVALID_ARGUMENTS: "denied",
    Reason.DUPLICATE: "denied",
    Reason.BLOCKED_CONTENT: "denied",
    Reason.RATE_LIMITED: "limited",
    Reason.OVERLOADED: "limited",
    Reason.UNAVAILABLE: "unavailable",
    Reason.AUDIT_UNAVAILABLE: "unavailable",
    Reason.TIMEOUT: "timeout",
    Reason.CANCELLED: "cancelled",
    Reason.PROTOCOL_ERROR: "protocol_error",
    Reason.TOO_LARGE: "too_large",
}
"""``outcome.status`` of a call that the gateway stopped; see ``status_of`` for the others."""


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """What was decided and by which rule.

    ``action`` is ``allow`` or ``deny``; ``limits`` what was charged; ``claims_used`` the claims that conditions read;
    ``shadow`` what policies in shadow mode would have done; ``approval`` the id of the one it needed and who gave it.
    """

    action: str
    policy: str = ""
    rule: str = ""
    reason: str = ""
    limits: Mapping[str, Value] = field(default_factory=dict)
    claims_used: Mapping[str, Value] = field(default_factory=dict)
    shadow: Mapping[str, Value] = field(default_factory=dict)
    approval: Mapping[str, Value] = field(default_factory=dict)
    config_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a call, or of one round of it. ``now`` is monotonic seconds, ``payload`` the result's block."""

    exchange: Exchange
    outcome: Outcome
    now: float
    rounds: int = 1
    payload: Object = field(default_factory=dict)


def describe(call: Call, decision: DecisionFacts, payload: Object, key: AuditKey) -> Object:
    """Say who asked for what and what was decided: the part that all records of a call share."""
    record: Object = {
        "call_id": call.id,
        "principal": fields.principal_block(call.principal, key, decision.claims_used),
        "src": fields.source_block(call.caller.source),
        "mcp": fields.mcp_block(call.caller, key, call.method, call.rpc_id),
        "view": None if call.caller.view is None else fields.name(call.caller.view),
        "server": fields.name(call.target.server),
        "tool": _tool(call),
        "decision": _decision(decision),
        "payload": payload,
    }
    trace = _trace(call.trace.get("traceparent", ""))
    return record | {"trace": trace} if trace else record


def call_start(described: Object) -> Object:
    """Record that a call passed every check and is about to be dispatched."""
    return {"event": "call.start", **described}


def call_denied(described: Object, ending: Ending) -> Object:
    """Record that a call was stopped before dispatch."""
    return {"event": "call.denied", **described, "outcome": _outcome(described, ending)}


def call_end(described: Object, ending: Ending) -> Object:
    """Record how a dispatched call ended."""
    return _ended("call.end", described, ending)


def call_round(described: Object, ending: Ending, *, held: bool) -> Object:
    """Record that a call waits for its client's answers. ``held``: a server's process waits with it, here."""
    return _ended("call.round", described, ending) | {"round": {"number": ending.rounds, "held": held}}


def call_resumed(described: Object, number: int) -> Object:
    """Record that a client came back with answers and the call goes on with round ``number``."""
    return {"event": "call.round", **described, "round": {"number": number, "held": True}}


def call_moved(described: Object, number: int, replica: str, *, held: bool) -> Object:
    """Record that round ``number`` of a call is for another replica to tell of, or for this one (``held``): the call
    waits here once more, or goes on for a client of this replica at the other one."""
    return {"event": "call.round", **described, "round": {"number": number, "held": held, "replica": replica}}


def call_orphaned(call_id: str, reason: str) -> Object:
    """Record that a call's end will never be known: ``crash`` of the gateway, or ``gap`` in the log."""
    return {"event": "call.orphaned", "call_id": call_id, "orphaned": {"reason": reason}}


def status_of(outcome: Outcome) -> str:
    """Return ``outcome.status``: one word for each way a call can end, the same in log and metrics."""
    match outcome:
        case Complete(result):
            return "tool_error" if results.is_error(result) else "ok"
        case InputRequired():
            return "input_required"
        case Started():
            return "started"
        case Failure(error=None):
            return STATUS[outcome.reason]
        case Failure():
            return "tool_error"
        case _:
            assert_never(outcome)


def bounded(record: Object) -> Object:
    """Return the record, or a smaller one that fits in 16 KiB: it loses its shape first, and says so in ``shrunk``.

    Raises:
        JsonError: a lone surrogate in it, which is a fault of its builder.
    """
    limit = MAX_RECORD - _CHAIN_ROOM
    if len(rawjson.canonical_plain(record)) <= limit:
        return record
    kept = {**record, "shrunk": True}
    for block, member in _SHRINK:
        part = kept.get(block)
        if member and isinstance(part, dict):
            kept[block] = {name: value for name, value in part.items() if name != member}
        elif not member:
            kept.pop(block, None)
        if len(rawjson.canonical_plain(kept)) <= limit:
            return kept
    return _emptied(kept, limit)


def _emptied(record: Object, limit: int) -> Object:
    """Drop whole members, the largest first, until the rest fits; what says which call it was stays."""
    sizes = {name: len(rawjson.canonical_plain(value)) for name, value in record.items()}
    total = len(rawjson.canonical_plain(record))
    kept = dict(record)
    for name in sorted(sizes, key=lambda each: (each in _KEPT, -sizes[each])):
        if total <= limit:
            break
        if name not in ("event", "shrunk"):
            del kept[name]
            total -= sizes[name]
    return kept


def _ended(event: str, described: Object, ending: Ending) -> Object:
    record = {"event": event, **described, "outcome": _outcome(described, ending)}
    payload = record["payload"]
    if ending.payload and isinstance(payload, dict):
        record["payload"] = payload | ending.payload
    if ending.exchange.instance is not None:
        record["downstream"] = _downstream(ending.exchange.instance)
    if ending.exchange.notes:
        record["notes"] = fields.members(dict(ending.exchange.notes))
    return record


def _tool(call: Call) -> Object:
    return {
        "kind": call.target.kind.value,
        "exposed": fields.name(call.exposed),
        "name": fields.text(call.target.name),
        "def_sha256": None if call.definition is None else call.definition.digest,
        "annotations": fields.members(call.target.annotations),
    }


def _decision(facts: DecisionFacts) -> Object:
    block: Object = {
        "action": fields.name(facts.action),
        "policy": fields.name(facts.policy) or None,
        "rule": fields.name(facts.rule) or None,
        "reason": fields.name(facts.reason) or None,
        "limits": fields.members(facts.limits),
        "shadow": fields.members(facts.shadow),
        "config_sha256": fields.name(facts.config_sha256) or None,
    }
    return block | {"approval": fields.members(facts.approval)} if facts.approval else block


def _downstream(instance: InstanceFacts) -> Object:
    return {
        "transport": fields.name(instance.transport),
        "instance": fields.name(instance.instance),
        "identity": fields.name(instance.fingerprint),
        "server_info": fields.name(instance.server_info) or None,
        "pin": fields.name(instance.pin),
        **({"replica": fields.name(instance.replica)} if instance.replica else {}),
    }


def _outcome(described: Object, ending: Ending) -> Object:
    exchange, outcome = ending.exchange, ending.outcome
    mcp = described["mcp"]
    method = mcp["method"] if isinstance(mcp, dict) else ""
    modern = isinstance(mcp, dict) and mcp["era"] == Era.MODERN.value
    block: Object = {
        "status": status_of(outcome),
        "rpc_code": None,
        "http": 200,
        "is_error": isinstance(outcome, Complete) and results.is_error(outcome.result),
        "error_type": None,
        "dur_us": _micros(exchange.started, ending.now),
        "queue_us": _micros(exchange.started, exchange.dispatched_at),
        "downstream_us": _micros(exchange.dispatched_at, exchange.answered_at) if exchange.dispatched else 0,
        "rounds": ending.rounds,
    }
    if not isinstance(outcome, Failure):
        return block
    by_server = outcome.error is not None and not codes.runs_nothing(outcome.error.code)
    block["may_have_run"] = outcome.may_have_run or by_server
    block["error_type"] = outcome.reason.value if outcome.error is None else "server_error"
    if outcome.detail:
        block["detail"] = fields.text(outcome.detail)
    if outcome.hidden:
        block["rpc_code"] = codes.INVALID_PARAMS
        block["http"] = 400 if modern else 200
    elif outcome.error is not None:
        block["rpc_code"] = fields.plain(outcome.error.code)
        block["http"] = codes.http_status(outcome.error.code, Era.MODERN) if modern else 200
    elif method != methods.TOOLS_CALL:
        block["rpc_code"] = codes.reason_code(outcome.reason)
    else:
        block["is_error"] = True
    return block


def _micros(start: float, end: float) -> int:
    return max(int((end - start) * 1_000_000), 0) if end else 0


def _trace(traceparent: str) -> Object:
    parts = traceparent.split("-")
    return {"trace_id": fields.name(parts[1]), "span_id": fields.name(parts[2])} if len(parts) == 4 else {}
