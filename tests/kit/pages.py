"""A gateway for tests of the dashboard's pages: it answers what it is told, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser

from gateway.admin.operations import Act, Conflict, Forbidden, Readiness
from gateway.admin.pages.markup import Html
from gateway.admin.pages.visit import Gateway, Page, Redirect, Visit
from gateway.admin.session import Session
from gateway.admin.views import Busy, Chosen, Corner, Explained, LiveCall, Matrix, Supposed, Tally, Traffic
from gateway.audit.pages import Found, Place
from gateway.audit.query import Wanted
from gateway.errors import AuditUnavailable, ConfigError, Problem
from gateway.protocol.rawjson import Object

HOSTILE = "<script>alert(1)</script>\"'&\u202e\u200b"
"""What no page may show as it is."""
HIDDEN = frozenset("\u202e\u200b")
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;"
"""How it begins on a page."""

ENTRY: Object = {
    "id": "e1",
    "state": "pending",
    "asked_at": "2026-08-23T10:00:00+00:00",
    "ends_at": "2026-08-23T10:10:00+00:00",
    "principal": HOSTILE,
    "client": HOSTILE,
    "server": HOSTILE,
    "kind": "tool",
    "name": HOSTILE,
    "definition": "sha256:ab",
    "arguments": '{"a":12345678901234567890,"b":"<i>\u202e</i>"}',
    "shown": "{…}",
    "needs": [{"policy": HOSTILE, "rule": "approve[0]", "by": ["alice"], "open": True}],
    "approved_by": [],
    "reason": "",
    "yours": True,
}
DIFFERENCE: Object = {
    "item": f"tool:{HOSTILE}",
    "shown": HOSTILE,
    "aspect": "definition",
    "effect": "hold",
    "held": True,
    "rejected": False,
    "before": "d1",
    "after": "d2",
    "diff": [{"pointer": "/description", "before": HOSTILE, "after": None}],
}
SERVER: Object = {
    "kind": "stdio",
    "state": "up",
    "since": "2026-08-23T10:00:00Z",
    "era": "modern",
    "version": "2026-07-28",
    "product": HOSTILE,
    "last_round_trip": "2026-08-23T10:00:00Z",
    "last_error": HOSTILE,
    "next_retry_s": 3,
    "restarts": 2,
    "consent_url": "https://idp.example.com/consent?x=1&y=2",
    "pin": "changed",
    "pin_changed": [HOSTILE],
    "tools": 10_000,
    "held_back": [{"kind": "tool", "name": HOSTILE, "reason": HOSTILE}],
}

ALERT: Object = {
    "at": "2026-08-23T10:00:00Z",
    "kind": "pin_hold",
    "server": HOSTILE,
    "name": HOSTILE,
    "client": None,
    "calls": 7,
}
CHAIN: Object = {
    "healthy": True,
    "readable": True,
    "last_seq": 7,
    "durable_seq": 7,
    "last_hash": "ab" * 32,
    "bytes": 3000,
}


class Told:
    """Implements operations and views."""

    def __init__(self) -> None:
        self.entries: list[Object] = [ENTRY]
        self.servers: Object = {HOSTILE: SERVER, "off": {"state": "off", "last_error": "variable X is not set"}}
        self.found = Found((), None)
        self.difference_total = 1
        self.whole: Object = {}
        self.fails: Exception | None = None
        self.asked: list[tuple[object, ...]] = []
        self.tally = Tally(8, 1, 1, 20.0, 500.0)
        self.live: tuple[LiveCall, ...] = (LiveCall("c1", HOSTILE, HOSTILE, HOSTILE, "tools/call", "waiting", 1.5),)
        self.last_load: Object = {"ok": True, "at": "2026-08-23T10:00:00Z", "problems": []}
        self.config: Object = {"in_force_since": "2026-08-23T10:00:00Z", "watched": True}
        self.shared: Object = {}

    @property
    def gateway(self) -> Gateway:
        return Gateway(self, self)

    def _did(self, *what: object) -> None:
        self.asked.append(what)
        if self.fails is not None:
            raise self.fails

    # Operations.

    def readiness(self) -> Readiness:
        return Readiness(True)

    def render_metrics(self, accept: str) -> tuple[bytes, str]:
        return b"", "text/plain"

    def status(self) -> Object:
        return {
            "version": "1",
            "endpoint": "http://127.0.0.1:8080/mcp",
            "started": "2026-08-23T10:00:00+00:00",
            "ready": True,
            "reasons": [],
            "anonymous": True,
            "config": {"path": "/etc/gateway.yaml", "sha256": "ab" * 32, "last_load": self.last_load, **self.config},
            "approvals": {"pending": len(self.entries)},
            "alerts": {"raised": 3, "undelivered": 0, "recent": [ALERT]},
            "servers": self.servers,
            **self.shared,
        }

    def tools_as(self, principal: str, view: str | None = None) -> Object:
        return {}

    async def call_as(self, act: Act, principal: str, target: str, arguments: Object) -> Object:
        return {}

    async def pins(self, target: str) -> Object:
        return {}

    async def decide_pins(self, act: Act, verb: str, target: str, digests: Mapping[str, str]) -> Object:
        self._did("pins", act, verb, target, dict(digests))
        return {}

    async def approvals(self, user: str) -> Object:
        return {"approvals": [*self.entries]}

    async def decide_approval(self, act: Act, verb: str, entry_id: str, reason: str) -> Object:
        self._did("approval", act, verb, entry_id, reason)
        return {}

    async def reload(self, act: Act) -> Object:
        self._did("reload", act)
        return {}

    # Views.

    async def signed(self, act: Act, what: str) -> None:
        self._did("signed", act, what)

    async def sign_in_refused(self, source: str, reason: str) -> None:
        self.asked.append(("refused", reason))

    def pending(self) -> int:
        return len(self.entries)

    def calls(self) -> tuple[LiveCall, ...]:
        return self.live

    async def traffic(self, chosen: Chosen) -> Traffic:
        self.asked.append(("traffic", chosen))
        return Traffic(60.0, (Tally(), self.tally), ((HOSTILE, self.tally),), self.tally)

    async def matrix(self, corner: Corner) -> Matrix:
        self.asked.append(("matrix", corner))
        return Matrix((HOSTILE, "bot"), ("a/x", f"a/{HOSTILE}"), (("yes", "no"), ("asks", "depends")), 30, 10_000)

    async def weights(self) -> Object:
        return {"bot": {"tools": 3, "approx_tokens": 1200}, HOSTILE: {"tools": 10_000, "approx_tokens": 2_000_000}}

    def policies(self) -> tuple[Object, ...]:
        return ({"name": HOSTILE, "mode": "shadow", "allow": [HOSTILE]},)

    def explain(self, supposed: Supposed) -> Explained:
        self._did("explain", supposed)
        return Explained(False, True, (HOSTILE, "  deny[0] denies"))

    def approval(self, user: str, entry_id: str) -> Object:
        for entry in self.entries:
            if entry["id"] == entry_id:
                return entry
        raise KeyError(f"nothing with the id {entry_id}")

    def waiting(self, user: str) -> tuple[Object, ...]:
        return tuple(self.entries)

    async def difference(self, server: str, item: str) -> Object:
        self._did("difference", server, item)
        return {**DIFFERENCE, "item": item, "before_text": "", "after_text": f'{{"a":"{HOSTILE}"}}', **self.whole}

    async def differences(self, server: str, first: int, most: int) -> Object:
        self.asked.append(("differences", server, first, most))
        if server not in self.servers:
            raise KeyError("no such server")
        facts: Object = {"command": HOSTILE}
        shown = [{**DIFFERENCE, "item": f"tool:{number}"} for number in range(min(most, self.difference_total - first))]
        if self.difference_total == 1:
            shown = [DIFFERENCE]
        pin: Object = {"state": "changed", "mode": "tofu", "facts": facts}
        return {**pin, "differences": [*shown], "total": self.difference_total}

    def tools(self, server: str, first: int, most: int) -> Object:
        self.asked.append(("tools", server, first, most))
        return {"tools": [{"name": HOSTILE, "exposed": HOSTILE, "bytes": 2048}], "total": 10_000}

    async def audit(self, act: Act, wanted: Wanted, before: Place | None) -> Found:
        self._did("audit", wanted, before)
        return self.found

    async def chain(self) -> Object:
        return {
            "healthy": True,
            "readable": True,
            "last_seq": 7,
            "durable_seq": 7,
            "last_hash": "ab" * 32,
            "bytes": 3000,
        }


REFUSALS: tuple[tuple[Exception, int], ...] = (
    (KeyError("nothing waits"), 404),
    (Conflict("it has changed"), 409),
    (AuditUnavailable(), 503),
)
"""What acts may raise, and the status of the page that says so."""
OTHERS: tuple[Exception, ...] = (Forbidden("others"), Busy(), ConfigError([Problem("bad <key>")]))


def visit(path: str = "", roles: tuple[str, ...] = ("approve", "pins", "reload"), **query: str) -> Visit:
    """Return a visit of alice."""
    return Visit(path, Session("alice", "mark", 0.0, 0.0), frozenset(roles), "127.0.0.1", query, {})


def posted(path: str, form: Mapping[str, str], roles: tuple[str, ...] = ("approve", "pins", "reload")) -> Visit:
    """Return a visit that acts."""
    return Visit(path, Session("alice", "mark", 0.0, 0.0), frozenset(roles), "127.0.0.1", {}, form)


def page(answer: Page | Redirect) -> Page:
    """Return a page that must be one, and that is well formed and holds nothing hostile."""
    assert isinstance(answer, Page), answer
    check(answer.body)
    return answer


def check(html: Html) -> None:
    """Fail for markup that nobody of ours wrote: a script, a handler, a style, an address elsewhere, an open tag."""
    reader = _Reader()
    reader.feed(html.text)
    reader.close()
    assert reader.open == []


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "style", "iframe", "object", "base"), tag
        for key, value in attrs:
            assert not key.startswith("on"), key
            assert key != "style"
            assert key == "value" or value is None or HIDDEN.isdisjoint(value), key
            if key in ("href", "src", "action"):
                assert value is not None
                assert value.startswith(("/ui", "#", "https://idp.example.com/")), value
        if tag not in ("br", "hr", "input", "link", "meta"):
            self.open.append(tag)

    def handle_data(self, data: str) -> None:
        assert HIDDEN.isdisjoint(data), data

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
