from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.config.server_auth import AuthorizationCode, ClientCredentials, TokenExchange
from gateway.config.servers import Server
from gateway.downstream.oauth.consents import Consents
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer
from gateway.downstream.oauth.registration import Registry
from gateway.downstream.oauth.sources import Consented, Exchange, OwnAccount, Wish
from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.vault import MemoryVault
from tests.kit.http_server import serving
from tests.kit.oauth import Idp, Protected

SECRET = {"client_id": "me", "client_secret": "pw"}
CALLBACK = "http://127.0.0.1:8080/oauth/callback"


async def _taken(token: Token) -> str:
    return ""


class Setting:
    """A server, its authorization server, and what is needed to ask it."""

    def __init__(self, server: Protected) -> None:
        self.idp = server.idp
        config = Server.model_validate({"url": server.url, "auth": {"authorization_code": {}}})
        self.fetcher = Fetcher("a", config)
        self.consents = Consents()
        url = server.idp.url
        self.as_ = AuthorizationServer(url, f"{url}/token", f"{url}/authorize", f"{url}/register", has_pkce=True)
        self.found = Discovered(server.url, self.as_)
        self.old = Token("old", url, server.url, "refresh-0", 0.0, ("x",))

    def consented(self, owner: str = "") -> Consented:
        way = AuthorizationCode()
        registry = Registry("a", way, CALLBACK, self.fetcher, MemoryVault())
        return Consented("a", way, registry, self.consents, owner, _taken)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    server = Protected(Idp())
    async with serving(server.script) as http:
        server.url, server.idp.url = http.url, http.url.removesuffix("/mcp")
        yield Setting(server)


async def test_the_gateway_asks_as_itself(setting: Setting) -> None:
    way = ClientCredentials.model_validate({**SECRET, "audience": "mcp"})
    token = await OwnAccount("a", way, setting.fetcher).token(Wish(setting.found, ("x",)))
    form = setting.idp.forms[0]
    assert token.access == "access-1"
    assert (form["grant_type"], form["scope"], form["audience"]) == ("client_credentials", "x", "mcp")
    assert form["resource"] == setting.found.resource


async def test_a_callers_token_is_exchanged_for_one_for_this_server(setting: Setting) -> None:
    """S48: the subject is the caller's, the resource the server's."""
    way = TokenExchange.model_validate({**SECRET, "token_url": setting.as_.token_endpoint})
    await Exchange("a", way, setting.fetcher, lambda: "callers-own").token(Wish(setting.found, ("x",)))
    form = setting.idp.forms[0]
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert (form["subject_token"], form["resource"]) == ("callers-own", setting.found.resource)
    assert form["subject_token_type"] == "urn:ietf:params:oauth:token-type:access_token"


async def test_a_caller_without_a_token_gets_none(setting: Setting) -> None:
    way = TokenExchange.model_validate({**SECRET, "token_url": setting.as_.token_endpoint})
    with pytest.raises(NoToken, match="signed in with a token"):
        await Exchange("a", way, setting.fetcher, lambda: "").token(Wish(setting.found, ()))
    assert setting.idp.forms == []


async def test_a_token_is_refreshed_without_asking_for_other_scopes(setting: Setting) -> None:
    token = await setting.consented().token(Wish(setting.found, ("x",), setting.old))
    form = setting.idp.forms[0]
    assert (form["grant_type"], form["refresh_token"]) == ("refresh_token", "refresh-0")
    assert "scope" not in form
    assert (token.refresh, token.asked) == ("refresh-1", ("x",))


@pytest.mark.parametrize("owner", ["", "key:alice"])
async def test_without_a_refresh_token_somebody_has_to_consent(setting: Setting, owner: str) -> None:
    for old in (None, replace(setting.old, refresh="")):
        with pytest.raises(ConsentNeeded) as caught:
            await setting.consented(owner).token(Wish(setting.found, ("x",), old))
        assert setting.consents.ticket("a", owner) == caught.value.ticket
    assert setting.idp.forms == []


async def test_more_scopes_need_a_consent_also_with_a_refresh_token(setting: Setting) -> None:
    with pytest.raises(ConsentNeeded):
        await setting.consented().token(Wish(setting.found, ("x", "y"), setting.old, is_wider=True))
    assert setting.idp.forms == []


async def test_a_refresh_token_that_is_good_for_nothing_is_given_up(setting: Setting) -> None:
    setting.idp.refuses = "invalid_grant"
    with pytest.raises(ConsentNeeded):
        await setting.consented().token(Wish(setting.found, ("x",), setting.old))


async def test_an_authorization_server_in_trouble_costs_no_consent(setting: Setting) -> None:
    """G099: what may be over in a moment does not send people to sign in."""
    setting.idp.refuses = "temporarily_unavailable"
    with pytest.raises(NoToken) as caught:
        await setting.consented().token(Wish(setting.found, ("x",), setting.old))
    assert not isinstance(caught.value, ConsentNeeded)


@pytest.mark.parametrize(
    ("words", "reason"), [({"has_pkce": False}, "PKCE"), ({"authorization_endpoint": ""}, "no page for people")]
)
async def test_an_authorization_server_without_pkce_is_not_used(
    setting: Setting, words: dict[str, object], reason: str
) -> None:
    lacking = replace(setting.found, server=replace(setting.as_, **words))  # type: ignore[arg-type] # fields of it
    with pytest.raises(NoToken, match=reason):
        await setting.consented().token(Wish(lacking, ("x",)))
    assert setting.idp.registered == []


async def test_a_refresh_token_is_asked_for_where_there_is_a_scope_for_it(setting: Setting) -> None:
    offering = replace(setting.found, server=replace(setting.as_, scopes=("offline_access",)))
    with pytest.raises(ConsentNeeded):
        await setting.consented().token(Wish(offering, ("x",)))
    assert setting.idp.registered[0]["scope"] == "x offline_access"
