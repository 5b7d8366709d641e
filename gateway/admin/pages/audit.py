"""The audit log, searched from its end backwards. Each search is an entry in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gateway.admin.access import Refused
from gateway.admin.pages.facts import number, part, string
from gateway.admin.pages.json_text import laid_out
from gateway.admin.pages.markup import Html, el, join, link, name
from gateway.admin.pages.parts import Field, Line, anchor, badge, notice, search, size, table, when
from gateway.admin.pages.visit import Answer, Gateway, Page, Visit
from gateway.admin.views import Busy
from gateway.audit.pages import Found, Place
from gateway.audit.query import Wanted, moment
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object

FILTERS: Final = ("principal", "server", "tool", "event", "outcome", "call", "since", "until")
_HINTS: Final = {
    "principal": "client or id",
    "tool": "own or exposed name",
    "event": "call.denied, admin.*",
    "outcome": "ok, denied, timeout",
    "call": "id",
    "since": "2h, or 2026-08-23T10:00Z",
    "until": "likewise",
}
_GOOD: Final = frozenset({"ok", "started", "input_required"})
_BY_RULE: Final = frozenset({"allow_rule", "deny_rule"})
"""Reasons that say no more than that the rule beside them matched."""


async def audit(gateway: Gateway, visit: Visit) -> Answer:
    """Show the records that match."""
    given = {key: visit.query.get(key, "").strip() for key in FILTERS}
    form = search("/audit", [Field(key, key, given[key], _HINTS.get(key, "")) for key in FILTERS], "Search")
    before = Place.read(visit.query.get("before", ""))
    try:
        wanted = wanted_by(given, datetime.now(UTC))
        found = await gateway.views.audit(visit.act, wanted, before)
    except ValueError as error:
        return Page("Audit log", join(form, notice(str(error), "bad")), 400)
    except Busy:
        return Page("Audit log", join(form, notice("Another search runs. Try again in a moment.", "bad")), 503)
    except OSError:
        raise Refused(503, "The audit log cannot be read") from None
    heads = ("time", "seq", "event", "who", "what", "outcome", "record")
    # Fifty records of 16 KiB are a lot of text, and calls go on meanwhile.
    shown = await asyncio.to_thread(table, "Records, the newest first", heads, map(_row, found.records))
    return Page("Audit log", join(form, shown, _onwards(given, found)))


def wanted_by(given: dict[str, str], now: datetime) -> Wanted:
    """Read the filters of the form.

    Raises:
        ValueError: a time that cannot be read.
    """
    wanted = Wanted(
        frozenset({given["principal"]} if given["principal"] else ()),
        *(given[key] for key in ("server", "tool", "event", "outcome", "call")),
    )
    return replace(wanted, since=moment(given["since"], now), until=moment(given["until"], now))


def _row(record: Object) -> Line:
    outcome, decision = part(record, "outcome"), part(record, "decision")
    event = string(record, "event")
    inner = laid_out(rawjson.encode(record).decode())
    return [
        when(string(record, "ts")),
        f"{number(record, 'seq')}",
        event,
        _who(record),
        _what(record),
        _outcome(outcome, decision),
        el("details", None, el("summary", {"aria-label": f"Record {number(record, 'seq')}"}, "show"), inner),
    ]


def _who(record: Object) -> Html | None:
    """Show a principal as the log knows it: of a subject of an authorization server that is a keyed digest."""
    principal = part(record, "principal")
    subject, client = string(principal, "sub_h"), string(principal, "client")
    who = string(principal, "id") or subject or client or string(part(record, "admin"), "user")
    if not who:
        return None
    shown = f"{client} {subject}".strip() if who == subject else who
    return anchor(link("/audit", principal=who), name(shown, 80))


def _what(record: Object) -> Html | None:
    tool, call = part(record, "tool"), string(record, "call_id")
    server, item = string(record, "server"), string(tool, "name") or string(tool, "exposed")
    admin, pin = part(record, "admin"), part(record, "pin")
    item = item or string(admin, "name") or string(pin, "name")
    server = server or string(admin, "server")
    shown = join(name(server), "/" if item else None, name(item)) if server else name(item)
    return anchor(link("/audit", call=call), shown) if call else shown if server or item else None


def _outcome(outcome: Object, decision: Object) -> Html | None:
    status, taken = string(outcome, "status"), outcome.get("dur_us")
    took = f" {_taken(taken)}" if isinstance(taken, int) else None
    if not status:
        rule = _rule(decision)
        return el("span", {"class": "hint"}, name(rule, 120)) if rule else None
    reason = "" if status in _GOOD else _reason(status, outcome, decision)
    shown = el("span", {"class": "hint"}, " ", name(reason, 120)) if reason else None
    return join(badge(status, "good" if status in _GOOD else "bad"), took, shown)


def _rule(decision: Object) -> str:
    rule = " ".join(part for part in (string(decision, "policy"), string(decision, "rule")) if part)
    reason = string(decision, "reason")
    return " ".join(part for part in (rule, "" if rule and reason in _BY_RULE else reason) if part)


def _reason(status: str, outcome: Object, decision: Object) -> str:
    """Say what kept a call from going well: the rule that refused it, else what came after a rule allowed it."""
    if string(decision, "action") not in ("", "allow"):
        return _rule(decision)
    error = string(outcome, "error_type")
    return " ".join(part for part in (error if error != status else "", string(outcome, "detail")) if part)


def _taken(micros: int) -> str:
    return f"{micros / 1000:,.1f} ms" if micros < 1_000_000 else f"{micros / 1_000_000:,.1f} s"


def _onwards(given: dict[str, str], found: Found) -> Html:
    looked = f"Looked through {size(found.looked)}"
    if found.next is None:
        return el("p", {"class": "hint"}, f"{looked}: that is all there is.")
    older = anchor(link("/audit", **{**given, "before": str(found.next)}), "Look further back →")
    back = join(", back to ", when(found.back_to)) if found.back_to else None
    return el("p", {"class": "pager"}, el("span", None, looked, back, "."), older)
