"""The pages on which people give a server's authorization server their consent, and come back from there.

Before authentication, since browsers have no credential of ours: a ticket leads out, a state that is good once leads
back (``downstream.oauth.consents``). Static pages, nothing loads, nothing of the request is echoed.
"""

from __future__ import annotations

import asyncio
import html
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from gateway.auth.throttle import Throttle
from gateway.config.root import Config
from gateway.downstream.oauth.consents import CALLBACK_PATH, LIFETIME, START_PATH, Arrival, Consents
from gateway.downstream.oauth.registration import client_metadata
from gateway.endpoint.connection import BASE_HEADERS
from gateway.endpoint.guards import Head
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.protocol import rawjson
from gateway.tasks import TaskSet

METADATA_PATH: Final = "/oauth/client.json"
COOKIE: Final = "mcp_gateway_consent"
MAX_QUERY: Final = 6144
MAX_COOKIES: Final = 8
_HEADERS: Final = {
    **BASE_HEADERS,
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MCP gateway</title></head>
<body><h1>{title}</h1><p>{text}</p>{more}</body></html>
"""
_CODE: Final = """\
<p>Enter this code in your own MCP client, where it asks for it:</p><p><strong>{code}</strong></p>
<p>Did somebody else send you here? Then close this page and tell nobody the code: with it they would act as you.</p>
"""
_STALE: Final = Arrival(False, "This link is unknown or too old. Ask for a new one.")


class ConsentPages:
    """Serves ``/oauth/start``, ``/oauth/callback`` and ``/oauth/client.json``."""

    def __init__(self, consents: Consents, throttle: Throttle, tasks: TaskSet) -> None:
        self._consents = consents
        self._throttle = throttle
        self._tasks = tasks

    async def answer(self, head: Head, target: str, source: str, config: Config) -> web.Response | None:
        """Answer a request for one of the pages; None for any other path.

        Raises:
            Rejected: another method than GET, or too many attempts from this source.
        """
        if head.path not in (START_PATH, CALLBACK_PATH, METADATA_PATH):
            return None
        if head.method != "GET":
            raise Rejected(Rejection(405, None, "", "method", headers={"Allow": "GET"}))
        if head.path == METADATA_PATH:
            return _metadata(config)
        query = _query(target)
        response = await (self._start(query) if head.path == START_PATH else self._callback(query, head))
        if response.status == 400 and self._throttle.failed(source, time.monotonic()) is not None:
            raise Rejected(Rejection(429, None, "", "auth_throttled", headers={"Retry-After": "60"}))
        return response

    async def _start(self, query: Mapping[str, str]) -> web.Response:
        departure = await self._consents.begin(query.get("ticket", ""))
        if departure is None:
            return _page(_STALE)
        response = web.Response(status=302, headers={**_HEADERS, "Location": departure.url})
        response.set_cookie(
            COOKIE,
            departure.cookie,
            max_age=int(LIFETIME),
            path="/oauth/",
            secure=departure.is_secure,
            httponly=True,
            samesite="Lax",
        )
        return response

    async def _callback(self, query: Mapping[str, str], head: Head) -> web.Response:
        arrivals: list[Arrival] = []

        async def complete() -> None:
            arrivals.append(await self._consents.complete(query, _cookies(head)))

        # In a task of its own: a browser that leaves must not lose a code that is good only once.
        await asyncio.wait([self._tasks.start(complete(), "consent")])
        return _page(arrivals[0] if arrivals else _STALE)


def _query(target: str) -> dict[str, str]:
    """Read a query in which nothing stands twice; empty for any other, since two readers could read it differently."""
    text = target.partition("?")[2]
    pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=None) if len(text) <= MAX_QUERY else []
    found = dict(pairs)
    return found if len(found) == len(pairs) else {}


def _cookies(head: Head) -> tuple[str, ...]:
    """Return every cookie of ours: a page of another path may have set one of the same name."""
    pairs = (part.strip().partition("=") for part in head.headers.get("cookie", "").split(";"))
    return tuple(value for name, _, value in pairs if name == COOKIE)[:MAX_COOKIES]


def _page(arrival: Arrival) -> web.Response:
    title = "Signed in" if arrival.ok else "Not signed in"
    text = f"{arrival.text} Server: {arrival.server}." if arrival.server else arrival.text
    more = _CODE.format(code=html.escape(arrival.code)) if arrival.code else ""
    if arrival.ok and not more:
        more = "<p>You can close this page.</p>"
    body = _PAGE.format(title=title, text=html.escape(text), more=more)
    status = 200 if arrival.ok else 400
    return web.Response(status=status, text=body, content_type="text/html", headers=_HEADERS)


def _metadata(config: Config) -> web.Response:
    """Serve the client metadata document of a server whose ``client_metadata_url`` is here."""
    for server in config.servers.values():
        way = server.auth.authorization_code
        if way is not None and way.client_metadata_url.endswith(METADATA_PATH):
            origin = way.client_metadata_url.removesuffix(METADATA_PATH)
            document = client_metadata(way.redirect_uri or origin + CALLBACK_PATH)
            document["client_id"] = way.client_metadata_url
            document["token_endpoint_auth_method"] = "none"  # noqa: S105 - a method's name.
            return web.Response(body=rawjson.encode(document), content_type="application/json", headers=BASE_HEADERS)
    raise Rejected(Rejection(404, None, "", "path"))
