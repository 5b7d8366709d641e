"""The ways to come by a token: as ourselves, by somebody's consent, or in exchange for the caller's own token.

Each knows one grant and keeps nothing but what it was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.config.server_auth import AuthorizationCode, ClientCredentials, KeyedClient, TokenExchange
from gateway.downstream.oauth import scopes, token
from gateway.downstream.oauth.client import configured
from gateway.downstream.oauth.consents import Consents
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.offer import Offer, Receive
from gateway.downstream.oauth.registration import Registry
from gateway.downstream.oauth.token import Grant, Token
from gateway.telemetry.logs import get_logger

_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name.
_log = get_logger("oauth")


@dataclass(frozen=True, slots=True)
class Wish:
    """A token that is wanted. ``old`` is the one to be replaced, if it came from the same authorization server.

    ``is_wider``: the old one is good, but not for enough.
    """

    found: Discovered
    scopes: tuple[str, ...]
    old: Token | None = None
    is_wider: bool = False


class Source(Protocol):
    """One way for one owner."""

    @property
    def is_kept(self) -> bool:
        """Tell whether its tokens outlive the process."""

    async def token(self, wish: Wish) -> Token:
        """Get a token.

        Raises:
            NoToken: there is none now.
        """


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """The client credentials grant (RFC 6749 §4.4)."""

    name: str
    way: ClientCredentials | TokenExchange
    fetcher: Fetcher
    is_kept: bool = False

    async def token(self, wish: Wish) -> Token:
        """Get a token for the gateway itself.

        Raises:
            NoToken: there is none now.
        """
        form = {"grant_type": "client_credentials", **_audience(self.way)}
        return await _ask(self.name, self.fetcher, self.way, wish, form)


@dataclass(frozen=True, slots=True)
class Exchange:
    """Token exchange (RFC 8693). ``subject`` returns the caller's token, which goes to the token endpoint alone."""

    name: str
    way: TokenExchange
    fetcher: Fetcher
    subject: Callable[[], str] = field(repr=False)
    is_kept: bool = False

    async def token(self, wish: Wish) -> Token:
        """Get a token for the caller.

        Raises:
            NoToken: there is none now, or the caller has nothing to exchange.
        """
        subject = self.subject()
        if not subject:
            raise NoToken(f'server "{self.name}" serves only callers who signed in with a token of their own')
        form = {
            "grant_type": _EXCHANGE,
            "subject_token": subject,
            "subject_token_type": self.way.subject_token_type,
            "requested_token_type": _ACCESS_TOKEN,
            **_audience(self.way),
        }
        return await _ask(self.name, self.fetcher, self.way, wish, form)


def _audience(way: KeyedClient) -> Mapping[str, str]:
    return {"audience": way.audience} if way.audience else {}


async def _ask(name: str, fetcher: Fetcher, way: KeyedClient, wish: Wish, form: Mapping[str, str]) -> Token:
    client = configured(way, wish.found.server)
    assert client is not None
    return await token.request(name, fetcher, wish.found, client, Grant(form, wish.scopes))


@dataclass(frozen=True, slots=True)
class Consented:
    """The authorization code grant, and refreshing what it gave; ``owner`` is a principal, "" for the gateway."""

    name: str
    way: AuthorizationCode
    registry: Registry
    consents: Consents
    owner: str
    receive: Receive = field(repr=False)
    is_kept: bool = True

    async def token(self, wish: Wish) -> Token:
        """Refresh a token, or make an offer to somebody who can give one.

        Raises:
            ConsentNeeded: nobody has consented yet, or not to this.
            NoToken: there is none now.
        """
        if wish.old is not None and wish.old.refresh and not wish.is_wider:
            client = await self.registry.client(wish.found.server, wish.scopes)
            form = {"grant_type": "refresh_token", "refresh_token": wish.old.refresh}
            grant = Grant(form, wish.old.asked, wish.old.refresh, sends_scope=False)
            try:
                return await token.request(self.name, self.registry.fetcher, wish.found, client, grant)
            except NoToken as error:
                if not error.is_final:
                    raise
                await self.registry.forget(wish.found.server.issuer)
        raise await self._offered(wish)

    async def _offered(self, wish: Wish) -> NoToken:
        server = wish.found.server
        if not server.authorization_endpoint:
            return NoToken(f'server "{self.name}": its authorization server has no page for people')
        if not server.has_pkce:
            return NoToken(f'server "{self.name}": its authorization server does not support PKCE with S256')
        wanted = scopes.with_offline(wish.scopes, server.scopes)
        client = await self.registry.client(server, wanted)
        ticket = self.consents.offer(
            Offer(
                self.name,
                self.owner,
                wish.found,
                client,
                wanted,
                self.registry.redirect_uri,
                self.registry.fetcher,
                self.receive,
            )
        )
        await self.consents.share(ticket)
        if not self.owner:
            # For operators, who may not look at the status first; a principal is asked in its own client.
            _log.warning("consent_needed", server=self.name, url=self.consents.url(ticket))
        who = "its user" if self.owner else "an operator of the gateway"
        return ConsentNeeded(f'server "{self.name}" waits until {who} has signed in to it', ticket)
