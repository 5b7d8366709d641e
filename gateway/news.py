"""Says once what differs from what was approved: in the log, the audit log and the metrics. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.audit import events
from gateway.model.catalog import Kind
from gateway.pinning import diff, forms
from gateway.pinning.diff import Line
from gateway.pinning.fingerprint import Fingerprint, text_of
from gateway.pinning.pins import Pin
from gateway.pinning.verify import INSTRUCTIONS, Difference, Effect, Verdict
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import get_logger
from gateway.telemetry.metrics import Metrics

_log = get_logger("pins")
_MAX_TOLD: Final = 20_000
"""Differences remembered of one server; with more, old ones may be told again."""
_DIFF_LINES: Final = 8
_ALERTS: Final = {Effect.QUARANTINE: "pin_quarantine", Effect.HOLD: "pin_hold", Effect.TELL: "pin_drift"}


Raised: TypeAlias = Callable[[str, Object], None]
"""Takes the kind of an alert and what it is about."""


class News:
    """What was said already. ``write`` takes audit records that nobody waits for, ``raised`` alerts."""

    def __init__(self, write: Callable[[Object], None], metrics: Metrics, raised: Raised) -> None:
        self._write = write
        self._raised = raised
        self._metrics = metrics
        self._told: dict[str, set[tuple[str, str, str]]] = {}
        self._elsewhere: dict[str, set[tuple[str, str, str]]] = {}

    def recorded(self, server: str, seen: Fingerprint, *, saved: bool) -> None:
        """Say that a server was seen for the first time and is held to that from now on, where that is durable."""
        if saved:
            self._write(events.server_event("pin.recorded", server, {"definitions": len(seen.definitions or ())}))

    def report(self, server: str, verdict: Verdict, pin: Pin | None, seen: Fingerprint) -> None:
        """Say what is new in a verdict, and show how many tools are hidden; what is over is news when it comes back."""
        told = self._told.get(server, set())
        now = {item.identity for item in verdict.differences[:_MAX_TOLD]}
        self._told[server] = now
        if pin is not None or verdict.barred:
            for item in verdict.differences:
                if item.identity not in told:
                    of = "principal" if item.form else "shared"
                    self._difference(server, item, lines_of(item, pin, seen), connection=of)
                    if verdict.barred and item.effect is Effect.QUARANTINE:
                        self._quarantined(server, item, verdict.hidden)
                    elif item.item in verdict.held:
                        self._quarantined(server, item, verdict.held[item.item])
        self._metrics.quarantined_tools.set(_hidden_tools(verdict, seen), server=server)

    def elsewhere(self, server: str, item: Difference) -> None:
        """Say that a connection of one principal offers something that is not as approved."""
        told = self._elsewhere.setdefault(server, set())
        if item.identity in told:
            return
        if len(told) >= _MAX_TOLD:
            told.clear()
        told.add(item.identity)
        self._difference(server, item, (), connection="principal")

    def _difference(self, server: str, item: Difference, lines: tuple[Line, ...], connection: str = "shared") -> None:
        facts: Object = {
            "kind": item.kind,
            "aspect": item.aspect,
            "name": item.item,
            "before": item.before,
            "after": item.after,
            "effect": item.effect.value,
            "connection": connection,
        }
        if lines:
            facts["diff"] = [line.value() for line in lines[:_DIFF_LINES]]
        removed = item.aspect == "removed_definition"
        self._write(events.server_event("pin.removed" if removed else "pin.mismatch", server, facts))
        self._metrics.pin_mismatches_total.inc(server=server, kind=item.kind)
        alert = _ALERTS[item.effect]
        self._raised(alert, {"server": server, "name": item.item})
        _log.warning("pin_differs", server=server, aspect=item.aspect, name=item.item, effect=item.effect.value)

    def _quarantined(self, server: str, item: Difference, reason: str) -> None:
        facts: Object = {"name": item.item, "before": item.before, "after": item.after, "reason": reason}
        self._write(events.server_event("pin.quarantined", server, facts))


def lines_of(item: Difference, pin: Pin | None, seen: Fingerprint) -> tuple[Line, ...]:
    """Return what changed inside a definition or the instructions, for people; nothing for other facts."""
    texts = texts_of(item, pin, seen)
    if texts is None:
        return ()
    return diff.texts(*texts) if item.aspect == INSTRUCTIONS else diff.lines(*texts)


def texts_of(item: Difference, pin: Pin | None, seen: Fingerprint) -> tuple[str, str] | None:
    """Return a definition or the instructions whole, as approved and as they are now; None for other facts.

    A definition is canonical JSON; "" stands for nothing.
    """
    if item.aspect == INSTRUCTIONS:
        return pin.instructions.text if pin is not None else "", seen.instructions
    if item.aspect not in ("definition", "new_definition", "removed_definition"):
        return None
    known = pin.definitions.get(item.subject, ()) if pin is not None else ()
    now = forms.found(seen, item.item, item.after) if item.form else (seen.definitions or {}).get(item.item)
    return known[-1].text if known else "", text_of(now) if now is not None else ""


def _hidden_tools(verdict: Verdict, seen: Fingerprint) -> int:
    prefix = f"{Kind.TOOL.value}:"
    names = (seen.definitions or {}) if verdict.barred else verdict.held
    return sum(name.startswith(prefix) for name in names)
