"""Who gets a page, and what a form needs before it acts: over real sockets, with a client that is no browser."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

import pytest
from aiohttp import ClientResponse, ClientSession, DummyCookieJar
from aiohttp.test_utils import RawTestServer

from gateway.admin.access import Access
from gateway.admin.operations import Act
from gateway.admin.pages.site import FAILURES, MAX_FIELDS, MAX_FORM, Site
from gateway.admin.server import AdminServer
from gateway.config.root import AdminUser
from gateway.errors import AuditUnavailable
from tests.kit.pages import Told

TOKEN = "secret-token"
PAGES = (
    "/ui",
    "/ui/approvals",
    "/ui/approvals/one?id=e1",
    "/ui/pins",
    "/ui/pins/server?server=off",
    "/ui/servers",
    "/ui/servers/one?server=off",
    "/ui/calls",
    "/ui/traffic",
    "/ui/policies",
    "/ui/policies/explain",
    "/ui/alerts",
    "/ui/audit",
)
ACTS = (
    "/ui/approvals/approve",
    "/ui/approvals/deny",
    "/ui/pins/approve",
    "/ui/pins/reject",
    "/ui/reload",
    "/ui/sign-out",
)


def user(token: str, *roles: str) -> AdminUser:
    return AdminUser.model_validate({"token_sha256": hashlib.sha256(token.encode()).hexdigest(), "roles": list(roles)})


@dataclass
class Visitor:
    """A client that does what it is told, with the cookie it was given."""

    session: ClientSession
    url: str
    told: Told
    cookie: str = ""

    @property
    def origin(self) -> dict[str, str]:
        return {"Origin": self.url}

    async def get(self, path: str, **headers: str) -> tuple[int, str, ClientResponse]:
        kept = {"Cookie": self.cookie} if self.cookie else {}
        async with self.session.get(self.url + path, headers={**kept, **headers}, allow_redirects=False) as reply:
            return reply.status, await reply.text(), reply

    async def post(
        self, path: str, form: dict[str, str] | bytes, headers: dict[str, str] | None = None
    ) -> tuple[int, str, ClientResponse]:
        kept = {"Cookie": self.cookie} if self.cookie else {}
        sent = {**kept, **(self.origin if headers is None else headers)}
        async with self.session.post(self.url + path, data=form, headers=sent, allow_redirects=False) as reply:
            return reply.status, await reply.text(), reply

    async def sign_in(self, token: str = TOKEN) -> None:
        status, _, reply = await self.post("/ui/sign-in", {"token": token})
        assert (status, reply.headers["Location"]) == (303, "/ui")
        self.cookie = reply.headers["Set-Cookie"].partition(";")[0]

    async def mark(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', (await self.get("/ui"))[1])
        assert found is not None
        return found[1]


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    told = Told()
    users = {"alice": user(TOKEN, "approve", "pins", "reload"), "looker": user("looker-token", "view")}
    access = Access("127.0.0.1", users)
    server = RawTestServer(AdminServer(told, access, Site(told.gateway, access).handle).handle)
    await server.start_server()
    async with ClientSession(cookie_jar=DummyCookieJar()) as session:
        yield Visitor(session, f"http://127.0.0.1:{server.port}", told)
    await server.close()


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_session_there_is_no_page(visitor: Visitor, path: str) -> None:
    """S174."""
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}, {"Cookie": "mcp-gateway-1=x"}):
        status, body, reply = await visitor.get(path, **headers)
        wanted = "" if path == "/ui" else f"?{urlencode({'to': path})}"
        assert (status, reply.headers.get("Location"), body) == (303, f"/ui/sign-in{wanted}", "")
    assert visitor.told.asked == []


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_has_the_headers_that_keep_others_out(visitor: Visitor, path: str) -> None:
    await visitor.sign_in()
    status, body, reply = await visitor.get(path)
    assert status == 200
    assert body.startswith("<!doctype html>")
    policy = reply.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Referrer-Policy"] == "same-origin"
    assert reply.headers["X-Frame-Options"] == "DENY"
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert TOKEN not in body


async def test_the_cookie_is_for_pages_of_this_port_alone_and_holds_no_token(visitor: Visitor) -> None:
    _, _, reply = await visitor.post("/ui/sign-in", {"token": TOKEN})
    cookie = reply.headers["Set-Cookie"]
    port = visitor.url.rpartition(":")[2]
    assert cookie.startswith(f"mcp-gateway-{port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/ui"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert TOKEN not in cookie
    assert visitor.told.asked == [("signed", Act("alice", "127.0.0.1"), "in")]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("/ui/approvals/one?id=e1", "/ui/approvals/one?id=e1"),
        ("/ui/audit?server=a%26b&live=1", "/ui/audit?server=a%26b&live=1"),
        ("https://evil.example/ui/audit", "/ui"),
        ("//evil.example", "/ui"),
        ("/ui/../../evil", "/ui"),
        ("/ui/reload", "/ui"),
        ("/ui/audit?x=" + "y" * 500, "/ui"),
        ("javascript:alert(1)", "/ui"),
        ("/ui/audit?" + "&".join(["a=1"] * 40), "/ui"),
    ],
)
async def test_after_the_sign_in_comes_the_page_that_was_wanted(visitor: Visitor, wanted: str, shown: str) -> None:
    _, body, _ = await visitor.get("/ui/sign-in?" + urlencode({"to": wanted}))
    assert f'<a href="{escape(shown)}">Signed in already?' in body
    _, _, reply = await visitor.post("/ui/sign-in", {"token": TOKEN, "to": wanted})
    assert reply.headers["Location"] == shown


async def test_behind_tls_the_cookie_never_leaves_it(visitor: Visitor) -> None:
    secure = {"Origin": visitor.url.replace("http:", "https:")}
    _, _, reply = await visitor.post("/ui/sign-in", {"token": TOKEN}, secure)
    cookie = reply.headers["Set-Cookie"]
    assert cookie.startswith("__Host-mcp-gateway-")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    visitor.cookie = cookie.partition(";")[0]
    assert (await visitor.get("/ui"))[0] == 200


async def test_a_wrong_token_opens_nothing_and_is_recorded_and_many_are_slowed_down(visitor: Visitor) -> None:
    statuses = [(await visitor.post("/ui/sign-in", {"token": "x"}))[0] for _ in range(FAILURES.count + 1)]
    assert statuses == [401] * FAILURES.count + [429]
    assert visitor.told.asked == [("refused", "unknown_token")] * len(statuses)
    status, body, _ = await visitor.post("/ui/sign-in", {})
    assert status == 429
    assert "<nav" not in body
    await visitor.sign_in()


async def test_nobody_signs_in_unrecorded(visitor: Visitor) -> None:
    visitor.told.fails = AuditUnavailable()
    status, _, reply = await visitor.post("/ui/sign-in", {"token": TOKEN})
    assert status == 503
    assert "Set-Cookie" not in reply.headers


@pytest.mark.parametrize("path", ACTS)
async def test_a_form_without_the_sessions_mark_does_nothing(visitor: Visitor, path: str) -> None:
    await visitor.sign_in()
    mine, visitor.cookie = visitor.cookie, ""
    await visitor.sign_in()
    other = await visitor.mark()
    visitor.cookie = mine
    visitor.told.asked.clear()
    for form in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": other}):
        assert (await visitor.post(path, form))[0] == 403
    assert visitor.told.asked == []
    assert (await visitor.get("/ui"))[0] == 200


@pytest.mark.parametrize("path", ACTS)
async def test_a_form_from_elsewhere_does_nothing_even_with_the_mark(visitor: Visitor, path: str) -> None:
    await visitor.sign_in()
    form = {"csrf": await visitor.mark(), "id": "e1"}
    visitor.told.asked.clear()
    for headers in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Origin": "http://127.0.0.1:1"}):
        assert (await visitor.post(path, form, headers))[0] == 403
    assert (await visitor.get(path))[0] == 405 or path == "/ui/sign-out"
    assert visitor.told.asked == []


async def test_a_form_with_the_mark_acts_as_its_user(visitor: Visitor) -> None:
    await visitor.sign_in()
    mark = await visitor.mark()
    visitor.told.asked.clear()
    status, _, reply = await visitor.post("/ui/approvals/deny", {"csrf": mark, "id": "e1", "reason": "größer & <b>"})
    assert (status, reply.headers["Location"]) == (303, "/ui/approvals?done=denied")
    assert visitor.told.asked == [("approval", Act("alice", "127.0.0.1"), "deny", "e1", "größer & <b>")]


async def test_roles_hold_on_pages_too(visitor: Visitor) -> None:
    await visitor.sign_in("looker-token")
    mark = await visitor.mark()
    visitor.told.asked.clear()
    for path in ACTS[:-1]:
        status, body, _ = await visitor.post(path, {"csrf": mark, "id": "e1", "digests": "{}"})
        assert status == 403
        assert "is needed" in body
    assert (await visitor.get("/ui/approvals"))[0] == 403
    assert visitor.told.asked == []


async def test_who_signs_out_is_out_and_the_cookie_is_worth_nothing_any_more(visitor: Visitor) -> None:
    await visitor.sign_in()
    status, _, reply = await visitor.post("/ui/sign-out", {"csrf": await visitor.mark()})
    assert (status, reply.headers["Location"]) == (303, "/ui/sign-in")
    assert ("signed", Act("alice", "127.0.0.1"), "out") in visitor.told.asked
    assert (await visitor.get("/ui"))[0] == 303
    assert (await visitor.post("/ui/reload", {"csrf": "x"}))[0] == 401


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"a=%ff", {}, 400),
        (b"a=\xff", {}, 400),
        (b"&".join([b"a=1"] * (MAX_FIELDS + 1)), {}, 400),
        (b"a=" + b"x" * MAX_FORM, {}, 413),
        (b"{}", {"Content-Type": "application/json"}, 415),
    ],
)
async def test_a_body_that_is_no_small_form_is_refused(
    visitor: Visitor, body: bytes, headers: dict[str, str], status: int
) -> None:
    sent = {"Content-Type": "application/x-www-form-urlencoded", **visitor.origin, **headers}
    assert (await visitor.post("/ui/sign-in", body, sent))[0] == status


async def test_host_and_method_are_those_of_the_admin_listener(visitor: Visitor) -> None:
    """S174."""
    await visitor.sign_in()
    assert (await visitor.get("/ui", Host="evil.example"))[0] == 421
    async with visitor.session.put(visitor.url + "/ui", headers={"Cookie": visitor.cookie}) as reply:
        assert reply.status == 405
    assert (await visitor.get("/ui/nope"))[0] == 404
    assert (await visitor.get("/ui/../metrics"))[0] != 500
    assert (await visitor.get("/"))[0] == 200


async def test_styles_are_files_of_ours_and_need_no_session(visitor: Visitor) -> None:
    status, style, reply = await visitor.get("/ui/style.css")
    assert (status, reply.headers["Content-Type"].partition(";")[0]) == (200, "text/css")
    assert "prefers-color-scheme: dark" in style
    assert "url(" not in style
    assert "@import" not in style
    assert (await visitor.get("/ui/icon.svg"))[2].headers["Content-Type"] == "image/svg+xml"


async def test_a_page_is_had_again_only_where_that_was_asked(visitor: Visitor) -> None:
    await visitor.sign_in()
    assert (await visitor.get("/ui/calls?live=1"))[2].headers["Refresh"] == "5"
    assert "Refresh" not in (await visitor.get("/ui/calls"))[2].headers
    assert "Refresh" not in (await visitor.get("/ui/policies?live=1"))[2].headers


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "query", ["%ff", "%ed%a0%80", "%00%0a", "%F0%9F%98%80", "x" * 4000, "%3Cscript%3E", "9" * 30, "-1"]
)
async def test_odd_queries_break_no_page(visitor: Visitor, path: str, query: str) -> None:
    await visitor.sign_in()
    keys = ("server", "id", "page", "live", "done", "window", "by", "client", "tool", "row", "column", "text", "before")
    more = ("principal", "target", "arguments", "groups", "scopes", "view", "event", "outcome", "call", "since")
    bare = path.partition("?")[0]
    status, body, _ = await visitor.get(f"{bare}?live=1&" + "&".join(f"{key}={query[:400]}" for key in (*keys, *more)))
    assert status in (200, 400, 404)
    assert "<script" not in body
