"""What servers were approved as, what they are now, and yes or no to what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from gateway.admin.access import Refused
from gateway.admin.operations import Conflict
from gateway.admin.pages.facts import number, part, rows, string, strings
from gateway.admin.pages.json_text import MAX_SHOWN, laid_out
from gateway.admin.pages.markup import Html, el, join, link, name, text
from gateway.admin.pages.parts import Line, act, anchor, badge, button, facts, notice, page_of, pager, table, when
from gateway.admin.pages.visit import Answer, Gateway, Page, Redirect, Visit
from gateway.errors import AuditUnavailable
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.telemetry.text import printable

SIZE: Final = 25
_DONE: Final = {
    "approve": ("Approved: what was shown is what is expected from now on.", "good"),
    "reject": ("Rejected: it stays held back.", "plain"),
}
_TONES: Final = {"quarantine": "bad", "hold": "bad", "tell": "warn"}
_TEXTS: Final = {"quarantine": "the server is quarantined", "hold": "held back", "tell": "only reported"}


async def servers(gateway: Gateway, visit: Visit) -> Answer:
    """Show how every server stands."""
    lines: list[Line] = []
    for server, status in part(gateway.views.status(), "servers").items():
        shown = status if isinstance(status, dict) else {}
        changed = strings(shown, "pin_changed")
        look = anchor(link("/pins/server", server=server), "Look") if string(shown, "pin") else ""
        differs = join(name(changed[0]), f" and {len(changed) - 1} more" if len(changed) > 1 else "") if changed else ""
        lines.append([name(server), badge(string(shown, "pin") or "off", _tone(string(shown, "pin"))), differs, look])
    return Page("Pins", table("Servers and their pins", ("server", "pin", "differs", ""), lines), live=True)


def _tone(state: str) -> str:
    return (
        "good" if state in ("recorded", "pinned", "ok") else "bad" if state in ("quarantined", "changed") else "plain"
    )


async def server(gateway: Gateway, visit: Visit) -> Answer:
    """Show what differs at one server."""
    target = visit.query.get("server", "")
    first = page_of(visit) * SIZE
    try:
        found = await gateway.views.differences(target, first, SIZE)
    except KeyError as error:
        raise Refused(404, str(error.args[0])) from None
    said = _DONE.get(visit.query.get("done", ""))
    total, shown = number(found, "total"), rows(found, "differences")
    about = facts(
        {
            "server": name(target),
            "pin": badge(string(found, "state"), _tone(string(found, "state"))),
            "mode": string(found, "mode"),
            "quarantined because": string(found, "reason"),
            "approved": when(string(found, "approved_at")) if string(found, "approved_at") else None,
            "definitions": number(found, "definitions"),
        }
    )
    known = [(name(key), name(value, 300)) for key, value in part(found, "facts").items() if isinstance(value, str)]
    body = join(
        notice(*said) if said else None,
        about,
        el("h2", None, f"{total:,} differences" if total != 1 else "1 difference"),
        _whole(visit, target, shown) if visit.may("pins") and 1 < total == len(shown) else None,
        [_difference(visit, target, each) for each in shown] or el("p", {"class": "nothing"}, "Nothing differs."),
        pager(visit, total, SIZE),
        el("details", None, el("summary", None, "What was recorded"), table("Facts", ("fact", "value"), known)),
    )
    return Page(f"Pin of {printable(target, 80)}", body)


async def whole(gateway: Gateway, visit: Visit) -> Answer:
    """Show all of one difference: what people approve must not end where a line does."""
    target = visit.query.get("server", "")
    try:
        found = await gateway.views.difference(target, visit.query.get("item", ""))
    except KeyError as error:
        raise Refused(404, str(error.args[0])) from None
    texts = await asyncio.to_thread(_texts, found)
    body = join(
        el("p", None, anchor(link("/pins/server", server=target), "← all that differs")),
        el("div", {"class": "all"}, *texts),
    )
    return Page(
        f"{printable(target, 80)}: {printable(string(found, 'shown'), 80)}",
        join(body, _difference(visit, target, found)),
    )


def _texts(found: Object) -> list[Html]:
    """Lay out both texts, the new one first."""
    shown = []
    for words, key in (("Now", "after_text"), ("As approved", "before_text")):
        shown.append(el("h2", None, words))
        shown.append(_text(string(found, key), string(found, "aspect")))
    return shown


def _text(value: str, aspect: str) -> Html:
    if not value:
        return el("p", {"class": "nothing"}, "Not there.")
    if aspect != "instructions":
        return laid_out(value)
    return el("pre", {"class": "json", "tabindex": "0"}, text(value, MAX_SHOWN))


def _whole(visit: Visit, target: str, shown: list[Object]) -> Html:
    digests = {string(each, "item"): string(each, "after") for each in shown}
    approve = act(visit, "/pins/approve", _given(target, target, digests), button("Approve all of it", "primary"))
    reject = act(visit, "/pins/reject", _given(target, target, digests), button("Reject all of it", "danger"))
    return el("div", {"class": "decide"}, approve, reject)


def _difference(visit: Visit, server: str, each: Object) -> Html:
    item, effect = string(each, "item"), string(each, "effect")
    heading = el(
        "h3",
        None,
        name(string(each, "shown")),
        badge(string(each, "aspect").replace("_", " "), "plain"),
        badge(_TEXTS.get(effect, effect), _TONES.get(effect, "plain")),
        badge("rejected", "plain") if each.get("rejected") is True else None,
    )
    lines = [_line(line) for line in rows(each, "diff")]
    if not lines:
        lines = [_changed("", string(each, "before") or None, string(each, "after") or None)]
    rest = None
    if rows(each, "diff") and "after_text" not in each:
        label = f"All of {string(each, 'shown')}, as approved and as it is now"
        rest = el("p", None, el("a", {"href": link("/pins/whole", server=server, item=item)}, label))
    diff = table(f"What changed in {string(each, 'shown')}", ("where", "approved", "now"), lines)
    given = _given(server, f"{server}/{item}", {item: string(each, "after")})
    decide = None
    if visit.may("pins"):
        yes = act(visit, "/pins/approve", given, button("Approve", "primary", aria_label=f"Approve {item}"))
        no = act(visit, "/pins/reject", given, button("Reject", "danger", aria_label=f"Reject {item}"))
        decide = el("div", {"class": "decide"}, yes, no)
    return el("section", {"class": "difference"}, heading, diff, rest, decide)


def _line(line: Object) -> Line:
    before, after = line.get("before"), line.get("after")
    return _changed(
        string(line, "pointer"),
        before if isinstance(before, str) else None,
        after if isinstance(after, str) else None,
    )


def _changed(pointer: str, before: str | None, after: str | None) -> Line:
    return [
        el("code", None, name(pointer or "all of it", 300)),
        el("del", None, text(before)) if before is not None else el("em", None, "not there"),
        el("ins", None, text(after)) if after is not None else el("em", None, "not there"),
    ]


def _given(server: str, target: str, digests: Mapping[str, str]) -> dict[str, str]:
    return {"server": server, "target": target, "digests": rawjson.encode(dict(digests)).decode()}


async def approve(gateway: Gateway, visit: Visit) -> Answer:
    """Approve what was shown."""
    return await _decided(gateway, visit, "approve")


async def reject(gateway: Gateway, visit: Visit) -> Answer:
    """Keep what was shown held back."""
    return await _decided(gateway, visit, "reject")


async def _decided(gateway: Gateway, visit: Visit, verb: str) -> Answer:
    visit.need("pins")
    try:
        value = rawjson.decode_value(visit.form.get("digests", "").encode("utf-8", "replace"))
    except JsonError:
        value = None
    if not isinstance(value, dict):
        raise Refused(400, "The form does not say what was shown")
    shown = {item: digest for item, digest in value.items() if isinstance(digest, str)}
    try:
        await gateway.operations.decide_pins(visit.act, verb, visit.form.get("target", ""), shown)
    except KeyError as error:
        raise Refused(404, str(error.args[0])) from None
    except Conflict as error:
        raise Refused(409, str(error)) from None
    except AuditUnavailable:
        raise Refused(503, "The audit log cannot be written, so nothing is changed") from None
    return Redirect(link("/pins/server", server=visit.form.get("server", ""), done=verb))
