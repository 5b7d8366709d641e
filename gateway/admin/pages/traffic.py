"""Calls, refusals and durations over time: of everybody, or of one client, server or tool."""

from __future__ import annotations

from typing import Final

from gateway.admin.pages import chart
from gateway.admin.pages.markup import Html, el, join, link, name
from gateway.admin.pages.parts import Field, Line, anchor, search, table
from gateway.admin.pages.servers import milliseconds
from gateway.admin.pages.visit import Answer, Gateway, Page, Visit
from gateway.admin.views import Chosen, Tally, Traffic

WINDOWS: Final = {"1h": 3600.0, "2h": 7200.0, "6h": 21_600.0, "24h": 86_400.0}
BY: Final = ("tool", "server", "client")


async def traffic(gateway: Gateway, visit: Visit) -> Answer:
    """Show what was chosen."""
    window, by = visit.query.get("window", "1h"), visit.query.get("by", "tool")
    window, by = window if window in WINDOWS else "1h", by if by in BY else "tool"
    client, server, tool = (visit.query.get(key, "") for key in ("client", "server", "tool"))
    seen = await gateway.views.traffic(Chosen(WINDOWS[window], by, client, server, tool))
    form = search(
        "/traffic",
        [
            Field("window", "over", window, choices=tuple(WINDOWS)),
            Field("by", "by", by, choices=BY),
            Field("client", "client", client, "all"),
            Field("server", "server", server, "all"),
            Field("tool", "tool", tool, "all, or server/tool"),
        ],
        "Show",
    )
    busiest = max((each.calls for _, each in seen.by_name), default=0)
    lines = [_row(visit, by, each, tally, busiest) for each, tally in seen.by_name]
    heads = (by, "", "calls", "ok", "refused", "failed", "half under", "95 % under")
    body = join(form, _charts(seen, window), table(f"By {by}, the busiest first", heads, lines), _numbers(seen))
    return Page("Traffic", body, live=True)


def _charts(seen: Traffic, window: str) -> Html:
    whole = seen.whole
    said = f"{whole.calls:,} calls in {window}: {whole.ok:,} ok, {whole.refused:,} refused, {whole.failed:,} failed"
    keys = [el("span", {"class": f"key {kind}"}, kind) for kind in ("ok", "refused", "failed")]
    lines = [
        el("span", {"class": f"key {kind}"}, words) for kind, words in (("half", "half under"), ("most", "95 % under"))
    ]
    return join(
        el("figure", None, el("figcaption", None, said, keys), chart.ends(seen.over_time, seen.step, said)),
        el(
            "figure",
            None,
            el("figcaption", None, "How long calls took, refused ones aside", lines),
            chart.durations(seen.over_time, seen.step, f"Durations of calls in {window}"),
        ),
    )


def _row(visit: Visit, by: str, each: str, tally: Tally, busiest: int) -> Line:
    kept = {key: value for key, value in visit.query.items() if key in ("window", "client", "server", "tool", "by")}
    return [
        anchor(link("/traffic", **kept | {by: each}), name(each, 160)),
        chart.share(tally, busiest),
        f"{tally.calls:,}",
        f"{tally.ok:,}",
        f"{tally.refused:,}",
        f"{tally.failed:,}",
        _ms(tally.half_ms),
        _ms(tally.most_ms),
    ]


def _ms(value: float | None) -> str:
    return "–" if value is None else milliseconds(value)


def _numbers(seen: Traffic) -> Html:
    """Show the charts' numbers, for who cannot see them."""
    lines: list[Line] = [
        [
            f"{round((len(seen.over_time) - 1 - index) * seen.step / 60)} min ago",
            *map(str, (each.ok, each.refused, each.failed)),
            _ms(each.half_ms),
            _ms(each.most_ms),
        ]
        for index, each in enumerate(seen.over_time)
        if each.calls
    ]
    shown = table("Steps with calls in them", ("step", "ok", "refused", "failed", "half under", "95 % under"), lines)
    return el("details", None, el("summary", None, "The charts in numbers"), shown)
