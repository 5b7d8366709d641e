"""The calls that run now."""

from __future__ import annotations

from typing import Final

from gateway.admin.pages.markup import el, join, link, name
from gateway.admin.pages.parts import Line, anchor, badge, page_of, pager, table
from gateway.admin.pages.visit import Answer, Gateway, Page, Visit

SIZE: Final = 100


async def calls(gateway: Gateway, visit: Visit) -> Answer:
    """Show them, the oldest first."""
    running = gateway.views.calls()
    first = page_of(visit) * SIZE
    lines: list[Line] = [
        [
            join(name(each.server), "/", name(each.name)) if each.server else name(each.name or each.method),
            name(each.client),
            badge(each.stage, "warn" if each.stage == "waiting" else "plain"),
            f"{each.seconds:,.1f} s",
            each.method,
            anchor(link("/audit", call=each.id), el("code", None, each.id)),
        ]
        for each in running[first : first + SIZE]
    ]
    shown = table("Calls that run now", ("call", "client", "stage", "for", "method", "id"), lines)
    return Page("Live calls", join(shown, pager(visit, len(running), SIZE)), live=True)
