"""Raises alerts: each a record, a count and a message to whoever is configured. Never in the way of a call.

Nothing here fails or waits: what a call does is looked at when it has ended, and messages leave from queues of their
own. What clients cause is bounded: one alert of a kind for a client and window, and of sensitive calls ten a second.
No alert holds a value of an argument or result.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.alerts.norm import Norms
from gateway.alerts.watch import Watch
from gateway.alerts.webhook import Webhook
from gateway.audit import events, fields, record
from gateway.audit.aggregate import Aggregator
from gateway.audit.keys import AuditKey
from gateway.model.call import Call, Target, new_call_id
from gateway.model.outcome import Outcome
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

_log = get_logger("alerts")

MAX_RECENT: Final = 50
"""Alerts that the status shows."""
MAX_TOLD: Final = 10_000
_DENIED: Final = "denied"

_TEXTS: Final = {
    "rate": "calls more than it used to",
    "hours": "called outside the hours",
    "sensitive": "called something sensitive",
    "pin_quarantine": "a server is not who it was, and is quarantined",
    "pin_hold": "a definition changed or is new, and is held back",
    "pin_drift": "a server changed in a way that is only told of",
    "approval_requested": "a call waits for a person's approval",
    "database_unreachable": "the shared database is away: nothing can be approved, and nothing new is trusted",
    "store_degraded": "the shared store is away, and each replica counts limits by itself",
}


@dataclass(frozen=True, slots=True)
class Means:
    """Where alerts go besides their addresses: ``write`` takes audit records that nobody waits for."""

    write: Callable[[Object], None]
    metrics: Metrics
    key: AuditKey


class Alerts:
    """All alerts of one gateway; a reload changes what is watched, not what is known of clients."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._watch: Watch | None = None
        self._norms = Norms()
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._sensitive = Aggregator(self._emit)
        self._recent: deque[Object] = deque(maxlen=MAX_RECENT)
        self._count = 0
        self._hooks: dict[str, Webhook] = {}
        self._leaving: list[Webhook] = []

    def apply(self, watch: Watch) -> None:
        """Watch for other things from now on; addresses that stay keep what waits for them."""
        self._watch = watch
        kept = {url: hook for url, hook in self._hooks.items() if url in watch.to}
        self._leaving += [hook for url, hook in self._hooks.items() if url not in watch.to]
        counted = self._counted
        self._hooks = {url: kept.get(url) or Webhook(number, url, counted) for number, url in enumerate(watch.to)}

    async def aclose(self) -> None:
        """Tell what is held back, and deliver what can be delivered soon."""
        self._sensitive.close()
        hooks, self._hooks = self._hooks, {}
        for hook in hooks.values():
            await hook.aclose()
        await self.settle()

    async def settle(self) -> None:
        """Tell what fell silent, and let go of addresses that are not configured any more."""
        self._sensitive.flush(time.monotonic())
        leaving, self._leaving = self._leaving, []
        for hook in leaving:
            await hook.aclose(0)

    # What is looked at.

    def seen(self, call: Call, outcome: Outcome) -> None:
        """Look at a call that ended; its later rounds are the same call."""
        if call.round == 1:
            self._look(call, call.target, record.status_of(outcome))

    def denied(self, call: Call, target: Target | None) -> None:
        """Look at a call of a name that is hidden from its caller, or that does not exist."""
        self._look(call, target, _DENIED)

    def _look(self, call: Call, target: Target | None, status: str) -> None:
        watch, principal, now = self._watch, call.principal, time.monotonic()
        if watch is None:
            return
        facts = _about(principal, target, self._means.key)
        excess = self._norms.take(principal.id, now, watch.terms)
        if excess is not None:
            usual = None if excess.usual is None else round(excess.usual)
            self._emit({"kind": "rate", **facts, "calls": excess.calls, "usual": usual})
        if not watch.hours.hold(datetime.now(UTC)) and self._first("hours", principal.id, now, watch.terms.window):
            self._emit({"kind": "hours", **facts, "outcome": status})
        if target is not None and watch.is_sensitive(target):
            told: Object = {"kind": "sensitive", **facts, "outcome": status, "call_id": call.id}
            key = f"{principal.id}\n{target.server}\n{target.name}"
            self._sensitive.add(key, now, lambda count: told | {"count": count})

    def _first(self, kind: str, who: str, now: float, window: float) -> bool:
        """Tell whether a kind of alert is due for a client: once in a window."""
        last = self._told.get((kind, who))
        if last is not None and now - last < window:
            return False
        self._told[kind, who] = now
        self._told.move_to_end((kind, who))
        if len(self._told) > MAX_TOLD:
            self._told.popitem(last=False)
        return True

    # What is told.

    def raised(self, kind: str, facts: Mapping[str, Value]) -> None:
        """Raise an alert about something that somebody else found, such as drift of a server."""
        self._emit({"kind": kind, **facts})

    def notify(self, kind: str, facts: Mapping[str, Value]) -> None:
        """Send a message that is no alert: it has a record of its own."""
        shown = events.gateway_event("alert.raised", {"kind": kind, **facts})["alert"]
        assert isinstance(shown, dict)
        self._deliver(shown)

    def status(self) -> Object:
        """Return the last alerts, the newest first, and how many there were and are on their way."""
        waiting = sum(hook.waiting for hook in self._hooks.values())
        return {"raised": self._count, "undelivered": waiting, "recent": [*reversed(self._recent)]}

    def _emit(self, facts: Object) -> None:
        kind = str(facts["kind"])
        entry = events.gateway_event("alert.raised", facts)
        self._means.write(entry)
        self._means.metrics.alerts_total.inc(kind=kind)
        self._count += 1
        shown = entry["alert"]
        assert isinstance(shown, dict)
        self._recent.append({"at": _now(), **shown})
        _log.warning("alert", kind=kind, server=str(facts.get("server") or ""), client=str(facts.get("client") or ""))
        self._deliver(shown)

    def _deliver(self, facts: Object) -> None:
        if not self._hooks:
            return
        kind = str(facts["kind"])
        who = " ".join(str(facts[part]) for part in ("client", "server", "name") if facts.get(part))
        text = f"mcp-gateway: {_TEXTS.get(kind, kind)}: {who}"
        body = rawjson.encode({"id": new_call_id(), "at": _now(), "text": text, **facts})
        for hook in self._hooks.values():
            hook.put(body)

    def _counted(self, result: str) -> None:
        self._means.metrics.alert_deliveries_total.inc(result=result)


def _about(principal: Principal, target: Target | None, key: AuditKey) -> Object:
    """Say who called what; subjects of an authorization server appear as keyed hashes alone."""
    block = fields.principal_block(principal, key, {})
    parts = {"client": "client", "principal": "id", "iss": "iss", "sub_h": "sub_h"}
    who: Object = {shown: block[name] for shown, name in parts.items() if name in block}
    if target is None:
        return who | {"server": None, "name": None}
    return who | {"server": fields.name(target.server), "name": fields.name(target.name)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
