"""All pages: who may see one, what every form needs before it acts, and the headers of every answer.

Nothing is shown without a session, and nothing done without the session's own mark in the form, sent from a page of
ours. A client's key opens no session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from gateway.admin.access import Access, Refused
from gateway.admin.operations import Act
from gateway.admin.pages import (
    alerts,
    approvals,
    audit,
    calls,
    layout,
    overview,
    pins,
    policies,
    servers,
    signin,
    traffic,
)
from gateway.admin.pages.markup import PREFIX, Html, Url, document, el, join, link
from gateway.admin.pages.parts import notice
from gateway.admin.pages.visit import Gateway, Handler, Page, Redirect, Visit
from gateway.admin.session import Session, Sessions
from gateway.auth.throttle import Throttle
from gateway.config.types import Rate
from gateway.errors import AuditUnavailable

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Without any referrer a browser would send forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
FAILURES: Final = Rate(10, 60.0)
MAX_FORM: Final = 256 * 1024
MAX_FIELDS: Final = 32
MAX_PLACE: Final = 500
"""Characters of the address of a page that is shown after a sign-in."""
_BODY_SECONDS: Final = 15.0
_COOKIE: Final = "mcp-gateway"
_ASSETS: Final = {"/style.css": "text/css", "/icon.svg": "image/svg+xml"}
_SEEN: Final[Mapping[str, Handler]] = {
    "": overview.overview,
    "/approvals": approvals.waiting,
    "/approvals/one": approvals.one,
    "/pins": pins.servers,
    "/pins/server": pins.server,
    "/pins/whole": pins.whole,
    "/servers": servers.servers,
    "/servers/one": servers.one,
    "/calls": calls.calls,
    "/traffic": traffic.traffic,
    "/policies": policies.policies,
    "/policies/explain": policies.explain,
    "/alerts": alerts.alerts,
    "/audit": audit.audit,
}
_DONE: Final[Mapping[str, Handler]] = {
    "/approvals/approve": approvals.approve,
    "/approvals/deny": approvals.deny,
    "/pins/approve": pins.approve,
    "/pins/reject": pins.reject,
    "/reload": overview.reload,
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, read."""

    request: web.BaseRequest
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    secret: str


class Site:
    """The dashboard over one running gateway."""

    def __init__(self, gateway: Gateway, access: Access, sessions: Sessions | None = None) -> None:
        self._gateway = gateway
        self._access = access
        self._sessions = sessions or Sessions(access.users)
        self._throttle = Throttle(FAILURES)

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer a request for a page; Host and Origin were looked at before."""
        try:
            response = await self._answer(request)
        except Refused as refused:
            response = _shown(layout.bare("Not possible", _problem(refused)), refused.status)
        response.headers.update(HEADERS)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        path = request.path.removeprefix(PREFIX).rstrip("/")
        if path in _ASSETS and request.method in ("GET", "HEAD"):
            return web.Response(body=_asset(path), content_type=_ASSETS[path])
        asked = _Asked(request, path, _once(request.query.items()), await _form(request), _secret(request))
        if path == "/sign-in":
            return await self._sign_in(asked)
        session = await self._sessions.find(asked.secret) if asked.secret else None
        if session is None:
            if request.method == "POST":
                raise Refused(401, "You are not signed in any more")
            wanted = request.path_qs if path and path in _SEEN else ""
            return _redirect(link("/sign-in", to=wanted[:MAX_PLACE]))
        visit = self._visit(asked, session)
        try:
            return await self._visited(asked, visit)
        except Refused as refused:
            return self._framed(Page("Not possible", _problem(refused), refused.status), visit)

    def _visit(self, asked: _Asked, session: Session) -> Visit:
        roles = frozenset(self._access.users[session.user].roles)
        return Visit(asked.path, session, roles, asked.request.remote or "", asked.query, asked.form)

    async def _visited(self, asked: _Asked, visit: Visit) -> web.Response:
        if asked.request.method == "POST":
            if not visit.session.owns(visit.form.get("csrf", "")):
                raise Refused(403, "The form is not one of this session: go back, load the page again, and try again")
            if asked.path == "/sign-out":
                return await self._sign_out(asked, visit)
        handlers = _DONE if asked.request.method == "POST" else _SEEN
        handler = handlers.get(asked.path)
        if handler is None:
            raise Refused(405 if asked.path in _DONE or asked.path in _SEEN else 404, "There is no such page")
        answer = await handler(self._gateway, visit)
        if isinstance(answer, Redirect):
            return _redirect(answer.to)
        return self._framed(answer, visit)

    def _framed(self, page: Page, visit: Visit) -> web.Response:
        response = _shown(layout.frame(page, visit, self._gateway.views.pending()), page.status)
        if page.live and visit.query.get("live") == "1":
            response.headers["Refresh"] = str(layout.LIVE_SECONDS)
        return response

    async def _sign_in(self, asked: _Asked) -> web.Response:
        request, source = asked.request, asked.request.remote or ""
        if request.method != "POST":
            return _shown(layout.bare("Sign in", signin.sign_in(_place(asked.query.get("to", "")))))
        to = _place(asked.form.get("to", ""))
        try:
            user = self._access.user(f"Bearer {asked.form.get('token', '')}", "view")
        except Refused:
            await self._gateway.views.sign_in_refused(source, "unknown_token")
            # A good token always passes, whatever others do from the same address.
            many = self._throttle.failed(source, time.monotonic()) is not None
            problem = signin.MANY if many else signin.WRONG
            return _shown(layout.bare("Sign in", signin.sign_in(to, problem)), 429 if many else 401)
        try:
            await self._gateway.views.signed(Act(user, source), "in")
        except AuditUnavailable:
            return _shown(layout.bare("Sign in", signin.sign_in(to, signin.UNRECORDED)), 503)
        if asked.secret:
            await self._sessions.end(asked.secret)
        response = _redirect(to)
        secure = request.headers.get("Origin", "").startswith("https:")
        name = _cookie(request, secure=secure)
        secret = await self._sessions.start(user)
        response.set_cookie(
            name, secret, path="/" if secure else PREFIX, httponly=True, samesite="Strict", secure=secure
        )
        return response

    async def _sign_out(self, asked: _Asked, visit: Visit) -> web.Response:
        await self._sessions.end(asked.secret)
        response = _redirect(link("/sign-in"))
        for secure in (False, True):
            name = _cookie(asked.request, secure=secure)
            response.del_cookie(name, path="/" if secure else PREFIX, httponly=True, samesite="Strict", secure=secure)
        try:
            await self._gateway.views.signed(visit.act, "out")
        except AuditUnavailable:
            # Nobody is kept signed in for want of a record.
            return response
        return response


def _cookie(request: web.BaseRequest, *, secure: bool) -> str:
    """Name the cookie: browsers keep one jar for all ports of a host, so the port is part of the name."""
    port = request.headers.get("Host", "").rpartition(":")[2]
    name = f"{_COOKIE}-{port}" if port.isascii() and port.isdigit() else _COOKIE
    return f"__Host-{name}" if secure else name


def _secret(request: web.BaseRequest) -> str:
    cookies = request.cookies
    return cookies.get(_cookie(request, secure=True)) or cookies.get(_cookie(request, secure=False)) or ""


def _place(given: str) -> Url:
    """Return the page that was wanted before a sign-in; whatever is none of ours is the first one."""
    path, _, query = given.removeprefix(PREFIX).partition("?")
    if len(given) > MAX_PLACE or path not in _SEEN:
        return link("")
    try:
        return link(path, **_once(parse_qsl(query, max_num_fields=MAX_FIELDS)))
    except ValueError:
        return link("")


async def _form(request: web.BaseRequest) -> Mapping[str, str]:
    """Read the form of a request that acts; one that comes from no page of ours is refused.

    Raises:
        Refused: another method, an origin that is missing, or a body that is no small form.
    """
    if request.method in ("GET", "HEAD"):
        return {}
    if request.method != "POST":
        raise Refused(405, "Method Not Allowed")
    if "Origin" not in request.headers:
        raise Refused(403, "A form must come from a page of the dashboard")
    if request.content_type != "application/x-www-form-urlencoded":
        raise Refused(415, "A form is needed")
    if (request.content_length or 0) > MAX_FORM:
        raise Refused(413, "The form is too long")
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            text = (await request.read()).decode("ascii")
        return _once(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except TimeoutError:
        raise Refused(408, "The form came too slowly") from None
    except ValueError:
        raise Refused(400, "The form cannot be read") from None


def _once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Take each name once, its first value."""
    found: dict[str, str] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _problem(refused: Refused) -> Html:
    return join(notice(refused.message, "bad"), el("p", None, el("a", {"href": link("")}, "To the overview")))


def _shown(html: Html, status: int = 200) -> web.Response:
    return web.Response(body=document(html), status=status, content_type="text/html", charset="utf-8")


def _redirect(to: Url) -> web.Response:
    return web.Response(status=303, headers={"Location": to.text})


@cache
def _asset(path: str) -> bytes:
    return (Path(__file__).parent / path.removeprefix("/")).read_bytes()
