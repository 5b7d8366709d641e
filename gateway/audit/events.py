"""The event catalogue, and the records of everything that is not a call. Pure.

Listings, failed authentication, attacks, limits, servers, pins, config, the gateway's own life and the acts of
administrators stand in the same chain as the calls (S172).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.audit import fields
from gateway.audit.keys import AuditKey
from gateway.audit.record import DecisionFacts
from gateway.model.call import Caller, Target
from gateway.model.principal import Principal
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Object, Value

EVENTS: Final = frozenset(
    f"{group}.{event}"
    for group, events in {
        "call": ("start", "end", "denied", "orphaned", "round"),
        "list": ("served",),
        "auth": ("failed", "degraded"),
        "security": ("origin_denied", "bad_json", "session_mismatch", "header_mismatch", "state_rejected"),
        "ratelimit": ("refused",),
        "pin": ("recorded", "mismatch", "quarantined", "approved", "removed"),
        "definition": ("suspicious",),
        "downstream": ("started", "exited", "failed", "circuit", "consent"),
        "config": ("loaded", "reload_failed"),
        "audit": ("segment", "checkpoint", "gap", "recovered", "tombstone", "verified"),
        "gateway": ("started", "draining", "stopped"),
        "store": ("degraded", "recovered"),
        "database": ("unreachable", "recovered"),
        "alert": ("raised",),
        "approval": ("requested", "approved", "denied", "used", "expired", "voided"),
    }.items()
    for event in events
)
"""Every event but ``admin.*``, which names the act."""
_ADMIN: Final = re.compile(r"admin\.[a-z][a-z_]{0,30}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is no call, as far as it was understood."""

    principal: Principal
    caller: Caller
    method: str = ""
    rpc_id: Id | None = None


def is_known(event: str) -> bool:
    """Tell whether an event is in the catalogue."""
    return event in EVENTS or _ADMIN.fullmatch(event) is not None


def asked_block(asked: Asked, key: AuditKey) -> Object:
    """Say who asked for what."""
    return {
        "principal": fields.principal_block(asked.principal, key, {}),
        "src": fields.source_block(asked.caller.source),
        "mcp": fields.mcp_block(asked.caller, key, asked.method, asked.rpc_id),
        "view": None if asked.caller.view is None else fields.name(asked.caller.view),
    }


def unknown_denied(asked: Asked, name: str, count: int, key: AuditKey) -> Object:
    """Record that a principal asked ``count`` times for names that do not exist for it; ``name`` is the last."""
    return {
        "event": "call.denied",
        **asked_block(asked, key),
        "server": None,
        "tool": {"kind": None, "exposed": fields.name(name), "name": None, "def_sha256": None, "annotations": {}},
        "decision": {"action": "deny", "policy": None, "rule": None, "reason": "unknown_name"},
        "outcome": {"status": "denied", "error_type": "unknown_name"},
        "count": count,
    }


def hidden_denied(denied: Object, target: Target, decision: DecisionFacts) -> Object:
    """Complete a record of ``unknown_denied`` where the name exists, but a policy or a view hides it."""
    tool: Object = {
        "kind": target.kind.value,
        "name": fields.text(target.name),
        "def_sha256": None,
        "annotations": fields.members(target.annotations),
    }
    rule: Object = {
        "action": decision.action,
        "policy": fields.name(decision.policy) or None,
        "rule": fields.name(decision.rule) or None,
        "reason": fields.name(decision.reason),
    }
    shown = denied["tool"]
    exposed = shown["exposed"] if isinstance(shown, dict) else None
    return denied | {"server": fields.name(target.server), "tool": {"exposed": exposed, **tool}, "decision": rule}


def list_served(asked: Asked, items: int, key: AuditKey, count: int = 1) -> Object:
    """Record one of the sampled listings: who was shown how many items; ``count`` is how many it stands for."""
    return {"event": "list.served", **asked_block(asked, key), "list": {"items": items}, "count": count}


def refused_early(event: str, source: str, facts: Mapping[str, Value], count: int = 1) -> Object:
    """Record ``auth.failed`` or a ``security.*`` event: a request that was refused before it was understood."""
    return gateway_event(event, facts) | {"src": fields.source_block(source), "count": count}


def ratelimit_refused(asked: Asked, limits: Mapping[str, Value], key: AuditKey, count: int = 1) -> Object:
    """Record a request refused by a limit before it became a call."""
    return {
        "event": "ratelimit.refused",
        **asked_block(asked, key),
        "decision": {"action": "deny", "reason": "rate_limited", "limits": fields.members(limits)},
        "count": count,
    }


def server_event(event: str, server: str, facts: Mapping[str, Value]) -> Object:
    """Record what happened to a server: ``downstream.*``, ``pin.*``, ``definition.suspicious``."""
    group = event.partition(".")[0]
    return {"event": event, "server": fields.name(server), group: _texts(facts)}


def approval(event: str, principal: Principal, server: str, facts: Mapping[str, Value], key: AuditKey) -> Object:
    """Record ``approval.EVENT``: what became of a call that needs a person's yes; never its arguments."""
    return {
        "event": f"approval.{event}",
        "principal": fields.principal_block(principal, key, {}),
        "server": fields.name(server),
        "approval": _texts(facts),
    }


def gateway_event(event: str, facts: Mapping[str, Value]) -> Object:
    """Record what happened to the gateway: ``gateway.*``, ``config.*``, ``audit.*``, alerts."""
    return {"event": event, event.partition(".")[0]: _texts(facts)}


def admin(action: str, user: str, facts: Mapping[str, Value], source: str = "") -> Object:
    """Record ``admin.ACTION``: what a person did, and to what."""
    return {
        "event": f"admin.{action}",
        "src": fields.source_block(source),
        "admin": {"user": fields.name(user), **_texts(facts)},
    }


def gap(lost: Mapping[str, int]) -> Object:
    """Record that records could not be written: how many of each event."""
    return {"event": "audit.gap", "gap": {"lost": sum(lost.values()), "events": dict(sorted(lost.items()))}}


def _texts(facts: Mapping[str, Value]) -> Object:
    """Write facts; texts among them may be longer than names."""
    return {
        fields.name(key): fields.text(value) if isinstance(value, str) else fields.plain(value)
        for key, value in facts.items()
    }
