"""The last alerts, and how many there were."""

from __future__ import annotations

from typing import Final

from gateway.admin.pages.facts import number, part, rows, string
from gateway.admin.pages.markup import el, join, link, name, text
from gateway.admin.pages.parts import Line, anchor, badge, facts, table, when
from gateway.admin.pages.visit import Answer, Gateway, Page, Visit
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object

_TOLD_APART: Final = frozenset({"at", "kind", "client", "server", "name"})
_PINS: Final = "pin_"


async def alerts(gateway: Gateway, visit: Visit) -> Answer:
    """Show them, the newest first."""
    found = part(gateway.views.status(), "alerts")
    recent = rows(found, "recent")
    about = facts(
        {
            "since the start": f"{number(found, 'raised'):,}",
            "not delivered yet": f"{number(found, 'undelivered'):,}",
            "older ones": anchor(link("/audit", event="alert.raised"), "in the audit log"),
        }
    )
    shown = table("The last alerts", ("when", "kind", "client", "server", "name", "more"), map(_row, recent))
    return Page("Alerts", join(about, shown), live=True)


def _row(alert: Object) -> Line:
    kind, server = string(alert, "kind"), string(alert, "server")
    more = {key: value for key, value in alert.items() if key not in _TOLD_APART and value not in (None, "")}
    shown = name(server) if server else ""
    return [
        when(string(alert, "at")),
        badge(kind.replace("_", " "), "bad" if kind in ("pin_quarantine", "pin_hold") else "warn"),
        name(string(alert, "client")),
        anchor(link("/pins/server", server=server), name(server)) if kind.startswith(_PINS) and server else shown,
        name(string(alert, "name")),
        el("span", {"class": "words"}, text(", ".join(f"{key} {_plain(value)}" for key, value in more.items()), 300)),
    ]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else rawjson.encode(value).decode()
