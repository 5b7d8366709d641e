from __future__ import annotations

import time

import pytest

from gateway.config.servers import Server
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer
from gateway.downstream.oauth.token import MAX_LIFETIME, MAX_TOKEN, SKEW, Grant, Token, request
from gateway.protocol.rawjson import Object
from tests.kit.http_server import Exchange, HttpServer, serving

GRANT = Grant({"grant_type": "client_credentials"}, ("a", "b"))
FINE: Object = {"access_token": "t", "token_type": "bearer"}


async def ask(http: HttpServer, grant: Grant = GRANT) -> Token:
    server = Server.model_validate({"url": http.url, "auth": {"authorization_code": {}}})
    found = Discovered("https://mcp.example/mcp", AuthorizationServer("https://idp.example", http.url))
    return await request("a", Fetcher("a", server), found, Client("me"), grant)


async def answered(document: object, status: int = 200, grant: Grant = GRANT) -> Token:
    async def script(exchange: Exchange) -> None:
        await exchange.json(document, status)

    async with serving(script) as http:
        return await ask(http, grant)


async def test_a_request_names_the_resource_and_the_scopes() -> None:
    """RFC 8707: in every token request."""

    async def script(exchange: Exchange) -> None:
        await exchange.json(FINE)

    async with serving(script) as http:
        await ask(http)
        await ask(http, Grant({"grant_type": "refresh_token"}, ("a",), sends_scope=False))
        first, second = (seen.body.decode() for seen in http.seen)
    assert "resource=https%3A%2F%2Fmcp.example%2Fmcp" in first
    assert "scope=a+b" in first
    assert "client_id=me" in first
    assert "resource=" in second
    assert "scope=" not in second


async def test_a_token_lasts_as_long_as_it_was_said_less_some_skew() -> None:
    token = await answered({**FINE, "expires_in": 3600, "scope": "a"})
    now = time.time()
    assert token.expires_at is not None
    assert token.is_fresh(now)
    assert not token.is_fresh(token.expires_at - SKEW)
    assert (token.asked, token.granted) == (("a", "b"), ("a",))
    assert (token.issuer, token.resource) == ("https://idp.example", "https://mcp.example/mcp")


@pytest.mark.parametrize(
    ("said", "lasts"), [("60", True), (None, False), ("soon", False), (True, False), (1e300, True), (-5, True)]
)
async def test_odd_lifetimes_are_read_or_not_there(said: object, lasts: bool) -> None:
    token = await answered({**FINE, "expires_in": said})
    assert (token.expires_at is not None) is lasts
    assert token.expires_at is None or token.expires_at <= time.time() + MAX_LIFETIME


async def test_a_refresh_token_that_is_not_replaced_stays() -> None:
    kept = Grant({"grant_type": "refresh_token"}, refresh="old")
    assert (await answered(FINE, grant=kept)).refresh == "old"
    assert (await answered({**FINE, "refresh_token": "new"}, grant=kept)).refresh == "new"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {**FINE, "token_type": "DPoP"},
        {**FINE, "token_type": None},
        {**FINE, "access_token": ""},
        {**FINE, "access_token": "a b"},
        {**FINE, "access_token": "a\r\nX: y"},
        {**FINE, "access_token": "t" * (MAX_TOKEN + 1)},
        {**FINE, "access_token": 7},
    ],
)
async def test_what_is_no_bearer_token_is_not_taken(document: object) -> None:
    with pytest.raises(NoToken, match="something else"):
        await answered(document)


@pytest.mark.parametrize(
    ("document", "status", "words", "is_final"),
    [
        ({"error": "invalid_grant"}, 400, "(invalid_grant)", True),
        ({"error": "invalid_client"}, 401, "(invalid_client)", True),
        ({"error": "invalid_scope"}, 400, "(invalid_scope)", False),
        ({"error": "canary <script>"}, 400, "(HTTP status 400)", False),
        ({}, 503, "(HTTP status 503)", False),
        ({**FINE}, 302, "(HTTP status 302)", False),
    ],
)
async def test_a_refusal_is_told_in_known_words_alone(
    document: Object, status: int, words: str, is_final: bool
) -> None:
    with pytest.raises(NoToken) as caught:
        await answered({"error_description": "canary", **document}, status)
    assert words in caught.value.message
    assert "canary" not in caught.value.message
    assert caught.value.is_final is is_final


def test_a_token_comes_back_as_it_was_kept_and_is_never_shown() -> None:
    token = Token("canary-a", "i", "r", "canary-r", 12.5, ("a",), ("b",))
    assert Token.of_object(token.as_object()) == token
    assert "canary" not in repr(token)
    for kept in ({}, {**token.as_object(), "access": 1}, {**token.as_object(), "expires_at": "x"}):
        assert Token.of_object(kept) is None
