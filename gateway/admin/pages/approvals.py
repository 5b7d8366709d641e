"""Calls that wait for a person: what exactly would be called, and yes or no to it."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.admin.access import Refused
from gateway.admin.operations import Conflict, Forbidden
from gateway.admin.pages.facts import rows, string, strings
from gateway.admin.pages.json_text import laid_out
from gateway.admin.pages.markup import Html, el, join, link, name, text
from gateway.admin.pages.parts import (
    Field,
    Line,
    act,
    badge,
    button,
    facts,
    field,
    notice,
    page_of,
    pager,
    table,
    when,
)
from gateway.admin.pages.visit import Answer, Gateway, Page, Redirect, Visit
from gateway.errors import AuditUnavailable
from gateway.protocol.rawjson import Object
from gateway.telemetry.text import printable

SIZE: Final = 50
MAX_REASON: Final = 200
_DONE: Final = {"approved": ("Approved. The call may pass once.", "good"), "denied": ("Denied.", "plain")}


async def waiting(gateway: Gateway, visit: Visit) -> Answer:
    """Show all calls that wait, or were decided and not made yet."""
    visit.need("approve")
    found = gateway.views.waiting(visit.session.user)
    first = page_of(visit) * SIZE
    said = _DONE.get(visit.query.get("done", ""))
    shown = table("Calls that wait for a person", HEADS, [row(each) for each in found[first : first + SIZE]])
    body = join(notice(*said) if said else None, shown, pager(visit, len(found), SIZE))
    return Page("Approvals", body, live=True)


HEADS: Final = ("call", "client", "arguments", "state", "asked", "open until", "")


def row(entry: Object) -> Line:
    """Return the line of one call."""
    target = join(name(string(entry, "server")), "/", name(string(entry, "name")))
    label = f"Review {string(entry, 'server')}/{string(entry, 'name')} of {string(entry, 'client')}"
    review = el(
        "a", {"href": link("/approvals/one", id=string(entry, "id")), "aria-label": printable(label, 200)}, "Review"
    )
    return [
        target,
        name(string(entry, "client")),
        el("code", {"class": "brief"}, text(string(entry, "shown"), 90)),
        badge(string(entry, "state")),
        when(string(entry, "asked_at")),
        when(string(entry, "ends_at")),
        review,
    ]


async def one(gateway: Gateway, visit: Visit) -> Answer:
    """Show one call whole, with what is needed to decide it."""
    visit.need("approve")
    try:
        entry = gateway.views.approval(visit.session.user, visit.query.get("id", ""))
    except KeyError as error:
        raise Refused(404, str(error.args[0])) from None
    # Arguments may be long, and laying them out takes a while: calls go on meanwhile.
    return Page("Approve a call?", await asyncio.to_thread(_whole, visit, entry))


def _whole(visit: Visit, entry: Object) -> Html:
    about = facts(
        {
            "server": name(string(entry, "server")),
            string(entry, "kind") or "name": name(string(entry, "name")),
            "client": name(string(entry, "client")),
            "principal": name(string(entry, "principal"), 300),
            "state": badge(string(entry, "state")),
            "asked": when(string(entry, "asked_at")),
            "open until": when(string(entry, "ends_at")),
            "approved by": ", ".join(strings(entry, "approved_by")),
            "reason": string(entry, "reason"),
            "definition": el("code", None, string(entry, "definition")) if string(entry, "definition") else None,
            "id": el("code", None, string(entry, "id")),
        }
    )
    needs = table("Rules that want a yes", ("rule", "of", ""), [_need(each) for each in rows(entry, "needs")])
    arguments = join(
        el("h2", None, "Arguments"),
        el("p", {"class": "hint"}, "Exactly these, and no others, will pass; white space is ours."),
        # The buttons come behind all of it, however long it is.
        el("div", {"class": "all"}, laid_out(string(entry, "arguments"))),
    )
    return join(about, arguments, needs, _decide(visit, entry))


def _need(need: Object) -> Line:
    who = ", ".join(strings(need, "by")) or "anybody with the role approve"
    rule = f"{string(need, 'policy')} {string(need, 'rule')}"
    return [name(rule, 200), who, badge("open", "plain") if need.get("open") is True else badge("approved")]


def _decide(visit: Visit, entry: Object) -> Html:
    if string(entry, "state") != "pending":
        return notice("This is decided already.")
    if entry.get("yours") is not True:
        return notice("The rules ask other users for this one.")
    given = {"id": string(entry, "id")}
    yes = act(visit, "/approvals/approve", given, button("Approve", "primary"))
    reason = field(Field("reason", "Reason, told to the client", limit=MAX_REASON))
    no = act(visit, "/approvals/deny", given, reason, button("Deny", "danger"))
    return el("section", {"class": "decide", "aria-label": "Decide"}, yes, no)


async def approve(gateway: Gateway, visit: Visit) -> Answer:
    """Say yes."""
    return await _decided(gateway, visit, "approve", "approved")


async def deny(gateway: Gateway, visit: Visit) -> Answer:
    """Say no."""
    return await _decided(gateway, visit, "deny", "denied")


async def _decided(gateway: Gateway, visit: Visit, verb: str, done: str) -> Answer:
    visit.need("approve")
    entry_id, reason = visit.form.get("id", ""), visit.form.get("reason", "")
    try:
        await gateway.operations.decide_approval(visit.act, verb, entry_id, reason)
    except KeyError as error:
        raise Refused(404, str(error.args[0])) from None
    except Forbidden as error:
        raise Refused(403, str(error)) from None
    except Conflict as error:
        raise Refused(409, str(error)) from None
    except AuditUnavailable:
        raise Refused(503, "The audit log cannot be written, so nothing is decided") from None
    return Redirect(link("/approvals", done=done))
