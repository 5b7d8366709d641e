"""All of a server's credentials: the gateway's own, and one for each principal where each has its own.

Made with the server's member and gone with it; what has to last is in the vault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.config.server_auth import AuthorizationCode, ClientCredentials, TokenExchange
from gateway.config.servers import Server
from gateway.downstream.authorizer import Authorizer
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.oauth.bearer import Bearer, Terms
from gateway.downstream.oauth.consents import CALLBACK_PATH, Consents
from gateway.downstream.oauth.discovery import Discovery
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.offer import Receiver
from gateway.downstream.oauth.registration import Registry
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.sources import Consented, Exchange, OwnAccount, Source
from gateway.downstream.oauth.vault import MemoryVault, Vault
from gateway.downstream.rotation import Reread, RotatingHeaders, nothing_new
from gateway.model.principal import Principal
from gateway.tasks import TaskSet

MAX_OWNERS: Final = 1024
"""Principals whose tokens are held at once; those of the others are read again when they call."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What all servers share: the vault, the consents, the shelf, the origin at which browsers reach the gateway.

    ``reread`` gives a server as its files have it now.
    """

    vault: Vault = field(default_factory=MemoryVault)
    consents: Consents = field(default_factory=Consents)
    origin: str = "http://127.0.0.1:8080"
    reread: Reread = nothing_new
    shelf: Shelf = field(default_factory=Shelf.alone)


class Credentials:
    """The credentials of one server. ``meters`` hears of each dial that the rules forbid."""

    def __init__(
        self,
        name: str,
        server: Server,
        desk: Desk,
        tasks: TaskSet,
        meters: Meters | None = None,
    ) -> None:
        self._name = name
        self._server = server
        self._desk = desk
        self._tasks = tasks
        self._meters = meters or NoMeters()
        self._bearers: dict[str, Bearer] = {}
        self._subjects: dict[str, str] = {}
        self._static = RotatingHeaders(name, server, desk.reread)
        self.on_granted: Callable[[], None] = lambda: None
        """Called when an operator has consented."""
        self.on_signed_in: Callable[[str], None] = lambda owner: None
        """Called with the id of a principal that has signed in."""

    @property
    def is_per_principal(self) -> bool:
        """Tell whether every caller has a token of its own."""
        return self._server.auth.is_per_principal

    @property
    def asks_principals(self) -> bool:
        """Tell whether callers may have to sign in."""
        return self.is_per_principal and self._server.auth.authorization_code is not None

    def of(self, owner: Principal | None) -> Authorizer:
        """Return what a connection sends along: its owner's own credential where each has one, else the gateway's."""
        if self._server.auth.way is None:
            return self._static
        return self._bearer(owner.id if owner is not None and self.is_per_principal else "")

    def calls(self, principal: Principal) -> None:
        """Take note of who calls: where tokens are exchanged, the newest one of each caller counts."""
        if self._server.auth.token_exchange is not None and principal.token:
            self._bearer(principal.id)
            self._subjects[principal.id] = principal.token

    def lacks(self, principal: Principal) -> bool:
        """Tell whether there is nothing that could be exchanged for a principal: no token of its own was ever here."""
        return self._server.auth.token_exchange is not None and principal.id not in self._subjects

    def bearer(self, principal: Principal) -> Bearer:
        """Return a principal's own bearer."""
        return self._bearer(principal.id)

    def _bearer(self, owner: str) -> Bearer:
        known = self._bearers.pop(owner, None)
        if known is None:
            while len(self._bearers) >= MAX_OWNERS:
                gone = next(iter(self._bearers))
                del self._bearers[gone]
                self._subjects.pop(gone, None)
            known = self._made(owner)
        self._bearers[owner] = known
        return known

    def _made(self, owner: str) -> Bearer:
        way = self._server.auth.way
        assert way is not None
        fetcher = Fetcher(self._name, self._server, lambda: self._meters.blocked(self._name))
        discovery = Discovery(self._name, self._server, fetcher)
        terms = Terms(self._name, owner, tuple(way.scopes), discovery, self._desk.vault, self._tasks)
        bearer = Bearer(replace(terms, shelf=self._desk.shelf))
        bearer.on_granted = lambda: self.on_signed_in(owner) if owner else self.on_granted()
        bearer.on_found = lambda: self._desk.consents.withdraw(self._name, owner)
        bearer.source = self._source(way, owner, fetcher, bearer)
        return bearer

    def _source(
        self, way: ClientCredentials | AuthorizationCode | TokenExchange, owner: str, fetcher: Fetcher, bearer: Bearer
    ) -> Source:
        match way:
            case TokenExchange() if owner:
                return Exchange(self._name, way, fetcher, lambda: self._subjects.get(owner, ""))
            case ClientCredentials() | TokenExchange():
                # There is no caller behind lists: the gateway reads them as itself.
                return OwnAccount(self._name, way, fetcher)
            case AuthorizationCode():
                redirect = way.redirect_uri or self._desk.origin + CALLBACK_PATH
                registry = Registry(self._name, way, redirect, fetcher, self._desk.vault)
                return Consented(self._name, way, registry, self._desk.consents, owner, bearer.receive)

    async def reread(self, changed: Callable[[str], bool]) -> None:
        """Take what other replicas have kept for this server; ``changed`` tells whether a document may be another."""
        for owner, bearer in list(self._bearers.items()):
            if changed(self._desk.vault.name(self._name, "token", owner)):
                await bearer.reread()

    def receiver(self, owner: str) -> Receiver | None:
        """Return how to redeem a consent that was offered elsewhere; None where nobody signs in to this server."""
        if self._server.auth.authorization_code is None or (owner and not self.is_per_principal):
            return None
        bearer = self._bearer(owner)
        source = bearer.source
        assert isinstance(source, Consented)
        assert self._server.url is not None
        redirect, fetcher = source.registry.redirect_uri, source.registry.fetcher
        return Receiver(source.way, self._server.url.get_secret_value(), redirect, fetcher, bearer.receive)

    @property
    def consent_url(self) -> str:
        """Where an operator can consent, "" where that is not needed now."""
        return self._desk.consents.url(self._desk.consents.ticket(self._name))

    def url_of(self, ticket: str) -> str:
        """Return the address to hand out for a ticket."""
        return self._desk.consents.url(ticket)

    def close(self) -> None:
        """Take back what was offered to people."""
        # Only its own: the server may have been configured anew meanwhile.
        self._desk.consents.withdraw_of([bearer.receive for bearer in self._bearers.values()])
        self._bearers.clear()
        self._subjects.clear()
