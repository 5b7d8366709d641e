"""The frame around every page: head, navigation, who is signed in. No scripts, and nothing from elsewhere."""

from __future__ import annotations

from typing import Final

from gateway.admin.pages.markup import MAIN, Html, el, join, link
from gateway.admin.pages.parts import anchor, badge, button
from gateway.admin.pages.visit import Page, Visit

LIVE_SECONDS: Final = 5
PLACES: Final = (
    ("", "Overview"),
    ("/approvals", "Approvals"),
    ("/pins", "Pins"),
    ("/servers", "Servers"),
    ("/calls", "Live calls"),
    ("/traffic", "Traffic"),
    ("/policies", "Policies"),
    ("/alerts", "Alerts"),
    ("/audit", "Audit"),
)


def frame(page: Page, visit: Visit, pending: int) -> Html:
    """Put a page into its frame; ``pending`` is how many calls wait for somebody."""
    places = [_place(visit, path, label, pending if path == "/approvals" else 0) for path, label in PLACES]
    user = el("span", {"class": "user"}, visit.session.user, *(badge(role, "role") for role in sorted(visit.roles)))
    leave = el(
        "form", {"method": "post", "action": link("/sign-out"), "class": "leave"}, visit.token(), button("Sign out")
    )
    top = el(
        "header",
        {"class": "top"},
        el("a", {"href": link(""), "class": "brand"}, "mcp-gateway"),
        el("nav", {"aria-label": "Pages of the dashboard"}, el("ul", None, places)),
        el("div", {"class": "who"}, user, leave),
    )
    heading = el("div", {"class": "heading"}, el("h1", None, page.title), _live(page, visit))
    main = el("main", {"id": "main"}, heading, page.body)
    return _html(page.title, top, main)


def bare(title: str, body: Html) -> Html:
    """Frame a page for somebody who is not signed in."""
    top = el("header", {"class": "top"}, el("span", {"class": "brand"}, "mcp-gateway"))
    return _html(title, top, el("main", {"id": "main", "class": "narrow"}, el("h1", None, title), body))


def _html(title: str, *body: Html) -> Html:
    head = el(
        "head",
        None,
        el("meta", {"charset": "utf-8"}),
        el("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        el("meta", {"name": "color-scheme", "content": "light dark"}),
        el("title", None, f"{title} · mcp-gateway"),
        el("link", {"rel": "stylesheet", "href": link("/style.css")}),
        el("link", {"rel": "icon", "href": link("/icon.svg"), "type": "image/svg+xml"}),
    )
    skip = el("a", {"class": "skip", "href": MAIN}, "Skip to the content")
    return el("html", {"lang": "en"}, head, el("body", None, skip, join(*body)))


def _place(visit: Visit, path: str, label: str, count: int) -> Html:
    here = visit.path == path or (path != "" and visit.path.startswith(f"{path}/"))
    counted = el("span", {"class": "count"}, count) if count else None
    return el("li", None, el("a", {"href": link(path), "aria-current": "page" if here else None}, label, counted))


def _live(page: Page, visit: Visit) -> Html | None:
    if not page.live:
        return None
    kept = {name: value for name, value in visit.query.items() if name not in ("live", "done")}
    if visit.query.get("live") == "1":
        return anchor(link(visit.path, **kept), f"Stop (every {LIVE_SECONDS} s)")
    return anchor(link(visit.path, **kept | {"live": "1"}), f"Refresh every {LIVE_SECONDS} s")
