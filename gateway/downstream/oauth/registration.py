"""Who the gateway is to an authorization server in a browser's flow (basic/authorization/client-registration).

In this order: as an operator registered it, by its metadata document, by registering itself. What was registered is
kept by issuer and never shown to another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast, get_args
from urllib.parse import urlsplit

from gateway.config.server_auth import AuthorizationCode
from gateway.config.types import is_loopback
from gateway.downstream.oauth.client import Client, Method, configured
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import AuthorizationServer
from gateway.downstream.oauth.turn import turn
from gateway.downstream.oauth.vault import Vault, stored
from gateway.protocol.rawjson import Object, Value

CLIENT_NAME: Final = "MCP gateway"
MAX_ID: Final = 2048
_BOOK: Final = "registrations"
MAX_ISSUERS: Final = 16
"""Registrations kept for one server; the oldest goes first."""
_PREFERRED: Final[tuple[Method, ...]] = ("client_secret_basic", "client_secret_post", "none")


@dataclass(frozen=True, slots=True)
class Registry:
    """Registrations of one server. ``clock`` gives wall-clock seconds."""

    name: str
    way: AuthorizationCode
    redirect_uri: str
    fetcher: Fetcher
    vault: Vault
    clock: Callable[[], float] = time.time

    async def client(self, server: AuthorizationServer, scopes: tuple[str, ...]) -> Client:
        """Return who the gateway is to this authorization server; registers where that is needed.

        Raises:
            NoToken: it cannot be told, or another authorization server than the registration's asks.
        """
        known = configured(self.way, server)
        if known is not None:
            await self._bind(server, known)
            return known
        if self.way.client_metadata_url and server.takes_metadata_documents:
            return Client(self.way.client_metadata_url)
        kept = await self._kept(server)
        if kept is not None:
            return kept
        # Replicas that registered at once would each refresh with another client than the one that got the token.
        async with turn(self.vault, self.name, _BOOK):
            return await self._kept(server) or await self._register(server, scopes)

    async def _bind(self, server: AuthorizationServer, client: Client) -> None:
        """Hold a pre-registered client to the first authorization server it was used with, or the configured one."""
        if self.way.issuer:
            return
        book = await self._load()
        bound = book.get("bound")
        if isinstance(bound, dict) and bound.get("client_id") == client.id:
            if bound.get("issuer") != server.issuer:
                raise NoToken(
                    f'server "{self.name}" names another authorization server than the one its client_id was used '
                    "with; set issuer if that is right"
                )
            return
        await self._store(book | {"bound": {"client_id": client.id, "issuer": server.issuer}})

    async def _kept(self, server: AuthorizationServer) -> Client | None:
        entry = _entries(await self._load()).get(server.issuer)
        if not isinstance(entry, dict) or entry.get("redirect_uri") != self.redirect_uri:
            return None
        identifier, secret, method = entry.get("client_id"), entry.get("client_secret"), entry.get("method")
        expires = entry.get("expires_at")
        if isinstance(expires, (int, float)) and 0 < expires <= self.clock():
            return None
        if not isinstance(identifier, str) or not isinstance(secret, str) or method not in get_args(Method):
            return None
        return Client(identifier, cast("Method", method), secret)

    async def forget(self, issuer: str) -> None:
        """Drop a registration that its authorization server no longer knows."""
        book = await self._load()
        entries = _entries(book)
        if entries.pop(issuer, None) is not None:
            await self._store(book | {"registered": entries})

    async def _register(self, server: AuthorizationServer, scopes: tuple[str, ...]) -> Client:
        """Register dynamically (RFC 7591)."""
        if not server.registration_endpoint:
            raise NoToken(
                f'server "{self.name}": its authorization server takes no registrations; '
                "register the gateway there and set client_id"
            )
        answer = await self.fetcher.post_json(server.registration_endpoint, self._metadata(server, scopes))
        identifier = answer.document.get("client_id")
        if answer.status not in (200, 201) or not isinstance(identifier, str) or not 0 < len(identifier) <= MAX_ID:
            raise NoToken(
                f'server "{self.name}": its authorization server refused the registration (HTTP status '
                f"{answer.status}); register the gateway there and set client_id"
            )
        secret = answer.document.get("client_secret")
        secret = secret if isinstance(secret, str) else ""
        client = Client(identifier, _method(answer.document, secret), secret)
        is_kept = await self._keep(server, client, answer.document.get("client_secret_expires_at"))
        if self.vault.shared and not is_kept:
            # What is granted to a client that the other replicas do not know cannot be renewed by them.
            raise NoToken(f'server "{self.name}": the registration at its authorization server cannot be kept now')
        return client

    def _metadata(self, server: AuthorizationServer, scopes: tuple[str, ...]) -> Object:
        document: Object = client_metadata(self.redirect_uri)
        known = server.auth_methods
        method = next((each for each in _PREFERRED if known is None or each in known), "none")
        document["token_endpoint_auth_method"] = method
        if scopes:
            document["scope"] = " ".join(scopes)
        return document

    async def _keep(self, server: AuthorizationServer, client: Client, expires: Value) -> bool:
        book = await self._load()
        entries = {issuer: entry for issuer, entry in _entries(book).items() if issuer != server.issuer}
        for issuer in list(entries)[: max(0, len(entries) - MAX_ISSUERS + 1)]:
            del entries[issuer]
        entries[server.issuer] = {
            "client_id": client.id,
            "client_secret": client.secret,
            "method": client.method,
            "redirect_uri": self.redirect_uri,
            "expires_at": expires if isinstance(expires, (int, float)) else 0,
        }
        return await self._store(book | {"registered": entries})

    async def _load(self) -> Object:
        try:
            return await self.vault.beside(self.vault.read, self.name, _BOOK)
        except OSError:
            # Taken for none it would let another authorization server in, or be replaced by less.
            text = "what the gateway is to its authorization server cannot be read now"
            raise NoToken(f'server "{self.name}": {text}') from None

    async def _store(self, book: Object) -> bool:
        return await stored(self.vault, book, self.name, _BOOK)


def _entries(book: Object) -> Object:
    found = book.get("registered")
    return dict(found) if isinstance(found, dict) else {}


def client_metadata(redirect_uri: str) -> Object:
    """Return what the gateway says of itself, in registrations and in its metadata document."""
    host = urlsplit(redirect_uri).hostname or ""
    return {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native" if is_loopback(host) else "web",
    }


def _method(document: Object, secret: str) -> Method:
    said = document.get("token_endpoint_auth_method")
    if not secret:
        return "none"
    return cast("Method", said) if said in _PREFERRED and said != "none" else "client_secret_basic"
