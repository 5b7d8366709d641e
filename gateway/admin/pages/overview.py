"""What an operator wants to know first: does it serve, what waits, what is wrong, is the account whole."""

from __future__ import annotations

from typing import Final

from gateway.admin.pages import chart
from gateway.admin.pages.approvals import HEADS, row
from gateway.admin.pages.facts import as_object, number, part, string, strings
from gateway.admin.pages.markup import Child, Html, Url, el, join, link, name, text
from gateway.admin.pages.parts import act, badge, button, facts, notice, size, table, when
from gateway.admin.pages.visit import Answer, Gateway, Page, Redirect, Visit
from gateway.admin.views import Chosen
from gateway.errors import ConfigError
from gateway.protocol.rawjson import Object

_HOUR: Final = 3600.0
_FIRST: Final = 5
_DONE: Final = {"reload": ("The config was read again and is in force.", "good")}


async def overview(gateway: Gateway, visit: Visit) -> Answer:
    """Show it."""
    status, chain = gateway.views.status(), await gateway.views.chain()
    said = _DONE.get(visit.query.get("done", ""))
    seen = await gateway.views.traffic(Chosen(_HOUR, "tool"))
    words = f"{seen.whole.calls:,} calls in an hour, {seen.whole.refused:,} refused, {seen.whole.failed:,} failed"
    body = join(
        notice(*said) if said else None,
        _cards(status, chain),
        _waiting(gateway, visit),
        el("figure", None, el("figcaption", None, words), chart.ends(seen.over_time, seen.step, words)),
        el("div", {"class": "columns"}, _chain(chain), _config(visit, status)),
    )
    return Page("Overview", body, live=True)


def _cards(status: Object, chain: Object) -> Html:
    servers = {key: as_object(value) for key, value in part(status, "servers").items()}
    up = sum(string(each, "state") == "up" for each in servers.values())
    off = sum(string(each, "state") == "off" for each in servers.values())
    differ = sum(string(each, "pin") in ("changed", "quarantined") for each in servers.values())
    pending = number(part(status, "approvals"), "pending")
    healthy = chain.get("healthy") is True
    reasons = ", ".join(strings(status, "reasons")) or "takes calls"
    raised = number(part(status, "alerts"), "raised")
    cards = [
        _card(
            link("/servers"),
            "Servers up",
            f"{up} of {len(servers) - off}",
            "good" if up == len(servers) - off else "bad",
        ),
        _card(link("/approvals"), "Wait for a person", f"{pending:,}", "warn" if pending else "good"),
        _card(link("/pins"), "Pins that differ", f"{differ:,}", "bad" if differ else "good"),
        _card(link("/alerts"), "Alerts", f"{raised:,}", "warn" if raised else "good"),
        _card(link("/audit"), "Audit log", "writes" if healthy else "cannot write", "good" if healthy else "bad"),
        _card(link("/calls"), "Gateway", *_standing(status, reasons)),
    ]
    return el("ul", {"class": "cards"}, cards)


def _standing(status: Object, reasons: str) -> tuple[str, str]:
    """Say whether it takes calls, and whether by the config that is on the disk; and how to colour that."""
    if status.get("ready") is not True:
        return reasons, "bad"
    refused = part(part(status, "config"), "last_load").get("ok") is False
    return ("config refused", "warn") if refused else ("ready", "good")


def _card(to: Url, label: str, value: str, tone: str) -> Html:
    inner = (el("span", {"class": "label"}, label), el("strong", None, value))
    return el("li", {"class": tone}, el("a", {"href": to}, *inner))


def _waiting(gateway: Gateway, visit: Visit) -> Html | None:
    if not visit.may("approve"):
        return None
    pending = [each for each in gateway.views.waiting(visit.session.user) if string(each, "state") == "pending"]
    return table("Calls that wait for a person", HEADS, map(row, pending[:_FIRST])) if pending else None


def _chain(chain: Object) -> Html:
    shown: dict[str, Child] = {
        "state": badge("writes", "good") if chain.get("healthy") is True else badge("cannot write", "bad"),
        "last record": f"{number(chain, 'last_seq'):,}",
        "at": when(string(chain, "last_at")),
        "hash": el("code", None, string(chain, "last_hash")[:23]),
        "on disk": f"{number(chain, 'durable_seq'):,}",
        "last checkpoint": when(string(chain, "checkpoint_at")) if string(chain, "checkpoint_at") else "none nearby",
        "signed up to": f"{number(chain, 'checkpoint_seq'):,}",
        "files": _files(number(chain, "segments"), number(chain, "bytes")),
    }
    if chain.get("readable") is not True:
        shown = {"state": badge("cannot be read", "bad")}
    hint = el(
        "p", {"class": "hint"}, "Check all of it from the files alone: ", el("code", None, "mcp-gateway audit verify")
    )
    return el("section", None, el("h2", None, "Audit chain"), facts(shown), hint)


def _files(segments: int, count: int) -> str:
    return f"{segments:,} segment{'' if segments == 1 else 's'}, {size(count)}"


def _config(visit: Visit, status: Object) -> Html:
    config = part(status, "config")
    last = part(config, "last_load")
    problems = [el("li", None, text(each)) for each in strings(last, "problems")[:20]]
    restart = strings(last, "needs_restart")
    shown = facts(
        {
            "version": string(status, "version"),
            "endpoint": text(string(status, "endpoint")),
            **_shared(status),
            "started": when(string(status, "started")),
            "config": el("code", None, string(config, "sha256")[:16]),
            "last read": join(
                badge("ok" if last.get("ok") is True else "refused"), " ", when(string(last, "at")), " ", _why(last)
            ),
            "in force since": when(string(config, "in_force_since")),
            "config files": None if "watched" not in config else _watching(config.get("watched") is True),
            "needs a restart": ", ".join(restart),
            "callers": badge("anonymous ones too", "warn")
            if status.get("anonymous") is True
            else "those who prove who they are",
        }
    )
    reload = act(visit, "/reload", {}, button("Read the config again")) if visit.may("reload") else None
    wrong = join(
        notice("The config on the disk cannot be served; the one before is in force.", "bad"), el("ul", None, problems)
    )
    return el("section", None, el("h2", None, "Gateway"), shown, wrong if problems else None, reload)


def _why(last: Object) -> Child:
    """Say what had the config read."""
    user = string(last, "user")
    match string(last, "cause"):
        case "watch":
            return "because a file changed"
        case "signal":
            return "on SIGHUP"
        case "admin":
            return join("for ", name(user)) if user else "on request"
        case _:
            return "at the start"


def _watching(watched: bool) -> str:
    return "watched: a change is read by itself" if watched else "not watched: read on request and on SIGHUP"


def _shared(status: Object) -> dict[str, Child]:
    """Tell which of several replicas this is, and whether what they share is there; nothing for one that is alone."""
    store, database = part(status, "store"), part(status, "database")
    if string(store, "kind") != "shared":
        return {}
    away, lost = string(store, "state") != "up", database.get("reachable") is False
    return {
        "replica": el("code", None, string(status, "replica")),
        "store": _state(string(store, "since"), "limits are this replica's own", bad=away),
        "database": _state(string(database, "since"), "nothing new can be approved", bad=lost),
    }


def _state(since: str, words: str, *, bad: bool) -> Html:
    return join(badge("away", "bad"), " since ", when(since), f": {words}") if bad else join(badge("there", "good"))


async def reload(gateway: Gateway, visit: Visit) -> Answer:
    """Have the config read again."""
    visit.need("reload")
    try:
        await gateway.operations.reload(visit.act)
    except ConfigError as error:
        shown = [el("li", None, text(str(problem))) for problem in error.problems[:50]]
        words = "The new config cannot be served; the old one goes on."
        return Page("Config refused", join(notice(words, "bad"), el("ul", None, shown)), 422)
    return Redirect(link("", done="reload"))
