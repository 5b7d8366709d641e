from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from gateway.config.servers import Server
from gateway.downstream.oauth.challenge import Challenge
from gateway.downstream.oauth.discovery import Discovery
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetcher
from tests.kit.http_server import Exchange, HttpServer, serving
from tests.kit.oauth import LOOPBACK, elsewhere

Documents = Mapping[str, Mapping[str, object]]
SECRET = {"client_id": "me", "client_secret": "pw"}


@asynccontextmanager
async def site(documents: Documents) -> AsyncIterator[HttpServer]:
    """Serve JSON documents by path, ``{origin}`` in their texts filled in."""

    async def script(exchange: Exchange) -> None:
        found = documents.get(exchange.target)
        if found is None:
            await exchange.answer(404)
            return
        await exchange.json(filled(found, http.url.removesuffix("/mcp")))

    async with serving(script) as http:
        yield http


def filled(value: object, origin: str) -> object:
    match value:
        case str():
            return value.replace("{origin}", origin)
        case list():
            return [filled(item, origin) for item in value]
        case Mapping():
            return {key: filled(item, origin) for key, item in value.items()}
        case _:
            return value


def discovery(url: str, auth: Mapping[str, object] | None = None) -> Discovery:
    settings = {"url": url, "allow_networks": LOOPBACK, "auth": dict(auth or {"authorization_code": {}})}
    server = Server.model_validate(settings)
    return Discovery("a", server, Fetcher("a", server))


RESOURCE = {"resource": "{origin}/mcp", "authorization_servers": ["{origin}"], "scopes_supported": ["x"]}
IDP = {"issuer": "{origin}", "token_endpoint": "{origin}/token"}
WELL_KNOWN = "/.well-known/oauth-protected-resource"
SERVER_PLACE = "/.well-known/oauth-authorization-server"


@pytest.mark.parametrize("path", [WELL_KNOWN + "/mcp", WELL_KNOWN])
async def test_without_a_challenge_the_well_known_places_are_tried(path: str) -> None:
    async with site({path: RESOURCE, SERVER_PLACE: IDP}) as http:
        found = await discovery(http.url).discover()
    assert (found.resource, found.scopes) == (http.url, ("x",))
    assert found.server.token_endpoint == http.url.removesuffix("/mcp") + "/token"


async def test_the_challenge_says_where() -> None:
    async with site({"/meta": RESOURCE, WELL_KNOWN: {}, "/.well-known/openid-configuration": IDP}) as http:
        challenge = Challenge(http.url.removesuffix("/mcp") + "/meta")
        found = await discovery(http.url).discover(challenge)
        assert http.seen[0].target == "/meta"
        with pytest.raises(NoToken, match="not where it says"):
            await discovery(http.url).discover(Challenge(challenge.resource_metadata + "x"))
    assert found.server.issuer == http.url.removesuffix("/mcp")


async def test_an_old_server_without_metadata_is_its_own_authorization_server() -> None:
    async with site({SERVER_PLACE: IDP}) as http:
        found = await discovery(http.url).discover()
    assert (found.resource, found.scopes) == (http.url, None)


async def test_a_server_with_nothing_leads_nowhere() -> None:
    async with site({}) as http:
        with pytest.raises(NoToken, match="has no metadata"):
            await discovery(http.url).discover()


async def test_metadata_about_another_resource_stops_everything() -> None:
    async with site({WELL_KNOWN: {**RESOURCE, "resource": "https://evil.example/mcp"}, SERVER_PLACE: IDP}) as http:
        with pytest.raises(NoToken, match="another resource"):
            await discovery(http.url).discover()
        assert SERVER_PLACE not in [seen.target for seen in http.seen]


async def test_a_configured_issuer_is_used_and_no_other() -> None:
    async with elsewhere() as (idp, _), site({WELL_KNOWN: RESOURCE, SERVER_PLACE: IDP}) as http:
        own = {"client_credentials": {**SECRET, "issuer": idp.url}}
        with pytest.raises(NoToken, match="another authorization server"):
            await discovery(http.url, own).discover()
        assert idp.seen == []
    async with elsewhere() as (idp, _), site({}) as http:
        own = {"client_credentials": {**SECRET, "issuer": idp.url}}
        assert (await discovery(http.url, own).discover()).server.issuer == idp.url
        assert discovery(http.url, own).is_configured


async def test_a_configured_token_endpoint_needs_no_document() -> None:
    async with site({}) as http:
        own = {"client_credentials": {**SECRET, "token_url": "https://idp.example/token"}}
        found = await discovery(http.url, own).discover()
        assert (found.server.token_endpoint, found.resource, http.seen) == ("https://idp.example/token", http.url, [])
