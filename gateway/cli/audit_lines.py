"""A record of the audit log as one line for a person, and how followers of the log wait."""

from __future__ import annotations

import threading
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.telemetry.text import printable

_WIDEST: Final = 256
_DIGEST: Final = 12
"""Characters that are enough to tell digests apart by eye."""
_BY_RULE: Final = frozenset({"allow_rule", "deny_rule"})
"""Reasons that say no more than that the rule beside them matched."""


def wait(seconds: float) -> None:
    """Wait, interruptibly: files are polled, since a follower may look at a copy on another machine."""
    threading.Event().wait(seconds)


def describe_line(line: bytes) -> str:
    """Return what ``describe`` says of a line of the log, whatever it holds."""
    try:
        record = rawjson.decode_value(line)
    except JsonError:
        record = None
    if not isinstance(record, dict):
        return "? unreadable line: " + printable(line.decode(errors="replace"), 80)
    return describe(record)


def describe(record: Object) -> str:
    """Return one line for a person: time, event, principal, server and name, decision or outcome, duration."""
    principal, tool, outcome = _part(record, "principal"), _part(record, "tool"), _part(record, "outcome")
    words = [
        _text(record.get("ts")),
        _text(record.get("event")),
        _who(principal) or _text(_part(record, "admin").get("user")),
        "/".join(
            part for part in (_text(record.get("server")), _text(tool.get("name") or tool.get("exposed"))) if part
        ),
        *_verdict(_text(record.get("event")), _part(record, "decision"), outcome),
        _duration(outcome.get("dur_us")),
        _facts_of(record),
    ]
    return "  ".join(word for word in words if word)


def _who(principal: Object) -> str:
    known = principal.get("id") or principal.get("sub_h")
    client = _text(principal.get("client"))
    return _text(known) if principal.get("id") else f"{client} {_text(known)}".strip()


def _verdict(event: str, decision: Object, outcome: Object) -> tuple[str, str]:
    """Say what was decided and how it ended, but not what the event's own name says already."""
    status, detail = _text(outcome.get("status")), _text(outcome.get("detail"))
    allowed = decision.get("action") == "allow"
    decided = "" if allowed and event != "call.start" else _decision(decision)
    ended = status
    if status == "denied":
        # The rule says why; where no rule refused it, something else did, and nobody need have said no.
        ended = "" if decided else _text(outcome.get("error_type")) or status
    return decided, f"{ended} ({detail})" if ended and detail else ended


def _decision(decision: Object) -> str:
    rule = "/".join(part for part in (_text(decision.get("policy")), _text(decision.get("rule"))) if part)
    reason = _text(decision.get("reason"))
    detail = " ".join(part for part in (rule, "" if rule and reason in _BY_RULE else reason) if part)
    action = _text(decision.get("action"))
    return f"{action} ({detail})" if action and detail else action


def _duration(micros: Value) -> str:
    return f"{micros / 1000:.1f}ms" if isinstance(micros, int) else ""


def _facts_of(record: Object) -> str:
    """Show what an event that is no call says, such as ``config.loaded``."""
    event = record.get("event")
    group, _, kind = event.partition(".") if isinstance(event, str) else ("", "", "")
    facts = _part(record, group) or _part(record, kind)
    times = record.get("count")
    shown = [
        f"{_text(name)}={_text(value)[: _DIGEST if name.endswith('sha256') else _WIDEST]}"
        for name, value in facts.items()
        if name != "user" and not isinstance(value, (dict, list))
    ]
    return " ".join([*shown, f"x{times}"] if isinstance(times, int) and times > 1 else shown)


def _part(record: Object, name: str) -> Object:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: Value) -> str:
    return "" if value is None else printable(str(value), _WIDEST)
