"""The pages for people's browsers, over HTTP: before authentication, static, and of no use to anybody else."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.auth.throttle import Throttle
from gateway.config.servers import Server
from gateway.config.types import Rate
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer
from gateway.downstream.oauth.offer import Offer
from gateway.downstream.oauth.token import Token
from gateway.endpoint.consent import MAX_QUERY
from gateway.protocol import rawjson
from tests.kit import http_server
from tests.kit.clients import Headers, Reply, ask, raw
from tests.kit.endpoint import Site, config, keyed, moment, serving
from tests.kit.http_server import Exchange

METADATA = "https://gw.example/oauth/client.json"


async def get(site: Site, target: str, headers: Headers = (), method: str = "GET") -> Reply:
    return await ask(site.port, raw(f"{method} {target} HTTP/1.1", [("Host", "localhost"), *headers]))


def offer(token_endpoint: str = "http://127.0.0.1:1/token", code: str = "", name: str = "wiki") -> Offer:
    server = Server.model_validate({"url": token_endpoint, "auth": {"authorization_code": {}}})
    idp = AuthorizationServer("https://idp.example", token_endpoint, "https://idp.example/authorize")
    found = Discovered("https://mcp.example/mcp", idp)
    callback = "http://localhost/oauth/callback"

    async def receive(token: Token) -> str:
        return code

    return Offer(name, "", found, Client("me"), (), callback, Fetcher("wiki", server), receive)


async def departed(site: Site, ticket: str) -> tuple[str, str]:
    """Leave for the authorization server; returns the state and the cookie to come back with."""
    reply = await get(site, f"/oauth/start?ticket={ticket}")
    assert reply.status == 302
    query = dict(parse_qsl(urlsplit(reply.headers["location"]).query))
    return query["state"], reply.headers["set-cookie"].partition(";")[0]


async def test_a_ticket_leads_out_with_a_cookie_that_no_page_can_read() -> None:
    async with serving(moment(keyed())) as site:
        ticket = site.services.consents.offer(offer())
        reply = await get(site, f"/oauth/start?ticket={ticket}")
    assert reply.status == 302
    assert reply.headers["location"].startswith("https://idp.example/authorize?")
    for word in ("HttpOnly", "SameSite=Lax", "Path=/oauth/", "Max-Age=600"):
        assert word in reply.headers["set-cookie"]
    assert (reply.headers["referrer-policy"], reply.headers["cache-control"]) == ("no-referrer", "no-store")


@pytest.mark.parametrize(("code", "words"), [("", "You can close this page"), ("ABCD-2345", "<strong>ABCD-2345<")])
async def test_a_consent_ends_on_a_page_that_loads_nothing(code: str, words: str) -> None:
    async def token(exchange: Exchange) -> None:
        await exchange.json({"access_token": "canary", "token_type": "Bearer"})

    async with http_server.serving(token) as idp, serving(moment(keyed())) as site:
        state, cookie = await departed(site, site.services.consents.offer(offer(idp.url, code, "a<b>")))
        reply = await get(site, f"/oauth/callback?code=c&state={state}", [("Cookie", f"other=1; {cookie}")])
        text = reply.body.decode()
        again = await get(site, f"/oauth/callback?code=c&state={state}", [("Cookie", cookie)])
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert words in text
    assert "a&lt;b&gt;" in text
    assert "canary" not in text
    assert reply.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert again.status == 400
    assert len(idp.seen) == 1


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?state=unknown&code=<script>",
        "?error=access_denied&error_description=<script>&state=STATE",
        "?code=c&code=d&state=STATE",
        "?code=c&state=STATE&iss=https://evil.example",
        "?state=STATE",
        "?code=c&state=STATE&x=" + "y" * MAX_QUERY,
    ],
)
async def test_anything_else_ends_on_a_page_that_echoes_nothing(query: str) -> None:
    async with serving(moment(keyed())) as site:
        state, cookie = await departed(site, site.services.consents.offer(offer()))
        target = f"/oauth/callback{query.replace('STATE', state).replace('<', '%3C').replace('>', '%3E')}"
        reply = await get(site, target, [("Cookie", cookie)])
    assert reply.status == 400
    assert b"script" not in reply.body
    assert b"evil" not in reply.body
    assert b"Not signed in" in reply.body


async def test_a_browser_that_did_not_leave_from_here_cannot_come_back() -> None:
    async with serving(moment(keyed())) as site:
        state, _ = await departed(site, site.services.consents.offer(offer()))
        reply = await get(site, f"/oauth/callback?code=c&state={state}", [("Cookie", "mcp_gateway_consent=guess")])
    assert reply.status == 400
    assert b"another browser" in reply.body


@pytest.mark.parametrize("path", ["/oauth/start", "/oauth/callback", "/oauth/client.json"])
async def test_the_pages_can_only_be_looked_at(path: str) -> None:
    async with serving(moment(keyed())) as site:
        reply = await get(site, path, [("Content-Length", "0")], "POST")
        assert (reply.status, reply.headers["allow"]) == (405, "GET")
        assert (await get(site, path, [("Host", "evil.example")])).status == 400
        assert (await get(site, path + "x")).status == 404


async def test_guessing_is_throttled() -> None:
    async with serving(moment(keyed())) as site:
        site.services.throttle = Throttle(Rate(2, 60.0))
        site.endpoint._consents._throttle = site.services.throttle
        statuses = [(await get(site, "/oauth/start?ticket=guess")).status for _ in range(4)]
    assert statuses[0] == 400
    assert statuses[-1] == 429


async def test_the_client_metadata_document_is_there_for_servers_that_use_it() -> None:
    way = {"authorization_code": {"client_metadata_url": METADATA}}
    servers = {"notes": Server.model_validate({"url": "https://mcp.example/mcp", "auth": way})}
    async with serving(moment(config(servers=servers))) as site:
        reply = await get(site, "/oauth/client.json")
    document = rawjson.decode_strict(reply.body)
    assert isinstance(document, dict)
    assert (reply.status, document["client_id"]) == (200, METADATA)
    assert document["redirect_uris"] == ["https://gw.example/oauth/callback"]
    assert document["application_type"] == "web"
    async with serving(moment(keyed())) as site:
        assert (await get(site, "/oauth/client.json")).status == 404
