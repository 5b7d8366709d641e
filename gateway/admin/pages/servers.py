"""The servers: how each stands, when it last answered, what it lists, and what is wrong with it."""

from __future__ import annotations

from typing import Final

from gateway.admin.access import Refused
from gateway.admin.pages.facts import as_object, number, part, rows, string, strings
from gateway.admin.pages.markup import Html, el, external, join, link, name, text
from gateway.admin.pages.parts import Line, anchor, badge, facts, page_of, pager, size, table, when
from gateway.admin.pages.visit import Answer, Gateway, Page, Visit
from gateway.admin.views import Chosen, Tally
from gateway.protocol.rawjson import Object
from gateway.telemetry.text import printable

SIZE: Final = 100
HOUR: Final = 3600.0
HEADS: Final = (
    "server",
    "state",
    "tools",
    "last round trip",
    "calls, 1 h",
    "failed",
    "half under",
    "restarts",
    "pin",
    "last error",
)


async def servers(gateway: Gateway, visit: Visit) -> Answer:
    """Show all of them."""
    found = part(gateway.views.status(), "servers")
    first = page_of(visit) * SIZE
    shown = [await _row(gateway, server, as_object(found[server])) for server in list(found)[first : first + SIZE]]
    return Page("Servers", join(table("Servers", HEADS, shown), pager(visit, len(found), SIZE)), live=True)


async def _row(gateway: Gateway, server: str, status: Object) -> Line:
    seen = (await gateway.views.traffic(Chosen(HOUR, "server", server=server))).whole
    return [
        anchor(link("/servers/one", server=server), name(server)),
        badge(string(status, "state"), tone(string(status, "state"))),
        f"{number(status, 'tools'):,}",
        when(string(status, "last_round_trip")),
        f"{seen.calls:,}",
        f"{seen.failed:,}",
        taken(seen),
        f"{number(status, 'restarts'):,}",
        badge(string(status, "pin") or "off", pin_tone(string(status, "pin"))),
        el("span", {"class": "words"}, text(string(status, "last_error"), 120)),
    ]


def tone(state: str) -> str:
    """Return how to colour a state."""
    return {"up": "good", "starting": "plain", "off": "plain"}.get(state, "bad" if state in _DEAD else "warn")


_DEAD: Final = frozenset({"failed", "quarantined", "open"})


def pin_tone(state: str) -> str:
    """Return how to colour the state of a pin."""
    return {"recorded": "good", "changed": "bad", "quarantined": "bad"}.get(state, "plain")


def taken(seen: Tally) -> str:
    """Return under what half of the calls were, for people."""
    return "–" if seen.half_ms is None else milliseconds(seen.half_ms)


def milliseconds(value: float) -> str:
    """Return a duration for people."""
    return f"{value / 1000:g} s" if value >= 1000 else f"{value:g} ms"


async def one(gateway: Gateway, visit: Visit) -> Answer:
    """Show one of them with its tools."""
    server = visit.query.get("server", "")
    found = part(gateway.views.status(), "servers")
    if server not in found:
        raise Refused(404, "No such server")
    status, first = as_object(found[server]), page_of(visit) * SIZE
    listed = gateway.views.tools(server, first, SIZE)
    tools: list[Line] = [
        [name(string(each, "name")), name(string(each, "exposed")), size(number(each, "bytes"))]
        for each in rows(listed, "tools")
    ]
    held: list[Line] = [
        [name(string(each, "name")), string(each, "kind"), text(string(each, "reason"), 512)]
        for each in rows(status, "held_back")
    ]
    body = join(
        await _facts(gateway, server, status),
        table(f"{number(listed, 'total'):,} tools", ("tool", "as clients see it", "definition"), tools),
        pager(visit, number(listed, "total"), SIZE),
        table("Held back", ("name", "kind", "why"), held) if held else None,
    )
    return Page(f"Server {printable(server, 80)}", body, live=True)


async def _facts(gateway: Gateway, server: str, status: Object) -> Html:
    seen = (await gateway.views.traffic(Chosen(HOUR, "server", server=server))).whole
    version = " ".join(string(status, key) for key in ("era", "version")).strip()
    retry = status.get("next_retry_s")
    changed = strings(status, "pin_changed")
    pin = anchor(link("/pins/server", server=server), badge(string(status, "pin"), pin_tone(string(status, "pin"))))
    return facts(
        {
            "server": name(server),
            "state": badge(string(status, "state"), tone(string(status, "state"))),
            "since": when(string(status, "since")),
            "kind": string(status, "kind"),
            "protocol": version,
            "product": name(string(status, "product")) if string(status, "product") else None,
            "last round trip": when(string(status, "last_round_trip")),
            "last error": text(string(status, "last_error"), 512) if string(status, "last_error") else None,
            "next retry": f"in {retry} s" if isinstance(retry, int) else None,
            "restarts": f"{number(status, 'restarts'):,}",
            "connections": f"{number(status, 'connections'):,}, {number(status, 'in_flight'):,} calls in flight",
            "calls in an hour": f"{seen.calls:,}, {seen.refused:,} refused, {seen.failed:,} failed, "
            f"half under {taken(seen)}",
            "lists": f"{number(status, 'tools'):,} tools (about {number(status, 'approx_tokens'):,} tokens), "
            f"{number(status, 'prompts'):,} prompts, {number(status, 'resources'):,} resources",
            "pin": pin if string(status, "pin") else None,
            "differs": ", ".join(changed[:5]) + (" …" if len(changed) > 5 else ""),
            "consent": _consent(string(status, "consent_url")),
        }
    )


def _consent(address: str) -> Html | None:
    to = external(address)
    if to is None:
        return text(address, 512) if address else None
    return el("a", {"href": to, "rel": "noopener noreferrer"}, "Give the consent that this server needs")
