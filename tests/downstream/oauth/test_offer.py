"""An offer goes to another replica and comes back as the same one, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.config.server_auth import AuthorizationCode
from gateway.config.servers import Server
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer
from gateway.downstream.oauth.offer import Offer, Receiver, offer_of
from gateway.downstream.oauth.token import Token
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value

CALLBACK = "https://gw.example/oauth/callback"
URL = "https://mcp.example/mcp"
SERVER = Server.model_validate({"url": URL, "auth": {"authorization_code": {}}})
IDP = AuthorizationServer(
    "https://idp", "https://idp/t", "https://idp/a", "https://idp/r", ("x",), True, ("none",), True, True
)


async def receive(token: Token) -> str:
    return ""


OFFER = Offer(
    "a",
    "key:alice",
    Discovered(URL, IDP, ("x", "y")),
    Client("me", "client_secret_basic", "pw"),
    ("x",),
    CALLBACK,
    Fetcher("a", SERVER),
    receive,
)
HERE = Receiver(AuthorizationCode(), URL, CALLBACK, Fetcher("a", SERVER), receive)


def sent(offer: Offer) -> Object:
    value = rawjson.decode_value(rawjson.encode(offer.as_object()))
    assert isinstance(value, dict)
    return value


def test_it_is_the_same_offer_with_the_means_of_this_replica() -> None:
    for offer in (OFFER, replace(OFFER, found=Discovered(URL, replace(IDP, auth_methods=None)), scopes=())):
        found = offer_of(sent(offer), lambda server, owner: HERE if (server, owner) == ("a", "key:alice") else None)
        assert found is not None
        assert found.is_like(offer)
        assert (found.server, found.fetcher, found.receive) == ("a", HERE.fetcher, HERE.receive)


@pytest.mark.parametrize(
    "here",
    [
        None,
        replace(HERE, redirect_uri="https://other.example/oauth/callback"),
        replace(HERE, resource="https://other.example/mcp"),
        replace(HERE, way=AuthorizationCode(client_id="another")),
        replace(HERE, way=AuthorizationCode(issuer="https://other-idp")),
    ],
)
def test_what_could_not_be_offered_here_is_not_redeemed_here(here: Receiver | None) -> None:
    """S49."""
    assert offer_of(sent(OFFER), lambda server, owner: here) is None


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("server", 1),
        ("owner", None),
        ("client", ["me", "strange", "pw"]),
        ("client", ["me"]),
        ("authorization", None),
        ("authorization", {"issuer": "i"}),
        ("supported", "x"),
        ("scopes", None),
        ("redirect_uri", 7),
    ],
)
def test_what_is_no_offer_is_none(member: str, value: Value) -> None:
    assert offer_of({**sent(OFFER), member: value}, lambda server, owner: HERE) is None
