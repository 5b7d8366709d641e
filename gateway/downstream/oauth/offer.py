"""What somebody may consent to, and its form for another replica, to which their browser may come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import TypeAlias, cast, get_args

from gateway.config.server_auth import AuthorizationCode
from gateway.downstream.oauth.client import Client, Method, configured
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer, origin
from gateway.downstream.oauth.token import Token
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.shapes import a_text, an_object, texts

Receive: TypeAlias = Callable[[Token], Awaitable[str]]
"""Takes a token; returns what the person who consented has to confirm it with, "" for nothing."""
Reach: TypeAlias = Callable[[str, str], "Receiver | None"]
"""Returns how to redeem a consent for a server and an owner, None where that server has no sign-in here."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """This replica's own means for one server and owner, and what its config says of consents."""

    way: AuthorizationCode
    resource: str
    redirect_uri: str
    fetcher: Fetcher = field(repr=False)
    receive: Receive = field(repr=False)

    def takes(self, found: Discovered, client: Client, redirect_uri: str) -> bool:
        """Tell whether an offer is one that could be made here: the server may have been configured anew meanwhile."""
        own = configured(self.way, found.server)
        return (
            redirect_uri == self.redirect_uri
            and origin(found.resource) == origin(self.resource)
            and (own is None or own == client)
            and self.way.issuer in ("", found.server.issuer)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What somebody may consent to. ``owner`` is the principal whose account it will be, "" for the gateway's.

    ``receive`` takes the token and returns what the person has to confirm it with, "" for nothing.
    """

    server: str
    owner: str
    found: Discovered
    client: Client
    scopes: tuple[str, ...]
    redirect_uri: str
    fetcher: Fetcher = field(repr=False)
    receive: Receive = field(repr=False)

    def is_like(self, other: Offer) -> bool:
        """Tell whether it is the same for the person who consents."""
        return (self.owner, self.found, self.client, self.scopes, self.redirect_uri) == (
            other.owner,
            other.found,
            other.client,
            other.scopes,
            other.redirect_uri,
        )

    def as_object(self) -> Object:
        """Return what another replica needs of it. Secret: it holds the client's."""
        supported = self.found.scopes
        server: Object = {
            name: [*value] if isinstance(value, tuple) else value for name, value in asdict(self.found.server).items()
        }
        return {
            "server": self.server,
            "owner": self.owner,
            "resource": self.found.resource,
            "supported": None if supported is None else [*supported],
            "authorization": server,
            "client": [self.client.id, self.client.method, self.client.secret],
            "scopes": [*self.scopes],
            "redirect_uri": self.redirect_uri,
        }


def offer_of(kept: Object, reach: Reach) -> Offer | None:
    """Read an offer that another replica made; None where it is none, or its server is not served here."""
    try:
        server, owner = a_text(kept.get("server")), a_text(kept.get("owner"))
        identifier, method, secret = texts(kept.get("client"), 3)
        if method not in get_args(Method):
            return None
        found = Discovered(a_text(kept.get("resource")), _server(kept), _optional(kept.get("supported")))
        scopes, redirect = tuple(texts(kept.get("scopes"))), a_text(kept.get("redirect_uri"))
    except ValueError:
        return None
    receiver = reach(server, owner)
    client = Client(identifier, cast("Method", method), secret)
    if receiver is None or not receiver.takes(found, client, redirect):
        return None
    return Offer(server, owner, found, client, scopes, redirect, receiver.fetcher, receiver.receive)


def _server(kept: Object) -> AuthorizationServer:
    said = an_object(kept.get("authorization"))
    return AuthorizationServer(
        issuer=a_text(said.get("issuer")),
        token_endpoint=a_text(said.get("token_endpoint")),
        authorization_endpoint=a_text(said.get("authorization_endpoint")),
        registration_endpoint=a_text(said.get("registration_endpoint")),
        scopes=tuple(texts(said.get("scopes"))),
        has_pkce=said.get("has_pkce") is True,
        auth_methods=_optional(said.get("auth_methods")),
        takes_metadata_documents=said.get("takes_metadata_documents") is True,
        names_issuer=said.get("names_issuer") is True,
    )


def _optional(value: Value) -> tuple[str, ...] | None:
    return None if value is None else tuple(texts(value))
