"""One owner's token for one server: sent along, renewed once for all who wait, never shown to anybody else."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.downstream.authorizer import NOTHING, Refusal
from gateway.downstream.oauth import challenge, scopes
from gateway.downstream.oauth.challenge import Challenge
from gateway.downstream.oauth.confirmation import Confirmation
from gateway.downstream.oauth.discovery import NO_CHALLENGE, Discovery
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.flight import Flight
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.sources import Source, Wish
from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.turn import turn
from gateway.downstream.oauth.vault import Vault
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

MAX_RENEWALS: Final = 4
RENEWAL_WINDOW: Final = 60.0
"""Renewals because of refusals within so many seconds; a server that refuses every token gets no more of them."""
_log = get_logger("oauth")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a bearer is made of. ``owner`` is a principal's id, "" for the gateway itself."""

    name: str
    owner: str
    scopes: tuple[str, ...]
    discovery: Discovery
    vault: Vault
    tasks: TaskSet
    clock: Callable[[], float] = time.time
    shelf: Shelf = field(default_factory=Shelf.alone)


class Bearer:
    """The authorizer of one server for one owner. ``source`` is set by who makes it, since it may point back here."""

    source: Source

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._token: Token | None = None
        self._loaded = False
        self._renewals: deque[float] = deque(maxlen=MAX_RENEWALS)
        self._confirmation = Confirmation(terms.name, terms.owner, terms.shelf, terms.clock)
        self._unsaved = 0
        self._flight = Flight(f"token {terms.name}", terms.tasks)
        self.on_granted: Callable[[], None] = lambda: None
        """Called when a consent has given a token."""
        self.on_found: Callable[[], None] = lambda: None
        """Called when there is a token that somebody's consent gave elsewhere, so that nobody need be asked here."""

    @property
    def has_token(self) -> bool:
        """Tell whether there is anything to send."""
        return self._token is not None

    async def headers(self) -> Mapping[str, str]:
        """Return the token; renewed first where it is about to end, got first where an operator said from where.

        Raises:
            NoToken: there is none, although there should be.
        """
        await self._load()
        if self._token is None and self._terms.vault.shared:
            # Whoever is about to be asked to sign in may have done so at another replica a moment ago.
            await self.reread()
        token = self._token
        fresh = token is not None and token.is_fresh(self._terms.clock())
        if not fresh and (token is not None or self._terms.discovery.is_configured):
            try:
                await self._flight.run(lambda: self._renew(token, NO_CHALLENGE, is_wider=False))
            except NoToken:
                if token is None or not token.is_valid(self._terms.clock()):
                    raise
            token = self._token
        return NOTHING if token is None else _header(token)

    async def refused(self, refusal: Refusal) -> bool:
        """Get a better token, if there can be one; tell whether it is worth another try.

        Raises:
            NoToken: there is none now.
        """
        token = self._token
        if token is not None and _header(token) != {key: refusal.sent.get(key) for key in _header(token)}:
            return True
        said = challenge.parse(refusal.challenges)
        is_wider = refusal.status == 403
        if is_wider and (
            said.error != challenge.INSUFFICIENT_SCOPE
            or token is None
            or scopes.stepped_up(token.asked, said.scopes) is None
        ):
            # The same again would be refused again (basic/authorization §Step-Up Authorization Flow, 4).
            return False
        if len(self._renewals) == MAX_RENEWALS and time.monotonic() - self._renewals[0] < RENEWAL_WINDOW:
            _log.warning("token_refused_again", server=self._terms.name)
            return False
        await self._flight.run(lambda: self._replace(token, said, is_wider=is_wider), about=(said, is_wider))
        return True

    async def _replace(self, old: Token | None, said: Challenge, *, is_wider: bool) -> None:
        await self._renew(old, said, is_wider=is_wider)
        self._renewals.append(time.monotonic())

    async def _renew(self, old: Token | None, said: Challenge, *, is_wider: bool) -> None:
        """Get a token in place of ``old``, unless somebody else just did."""
        if self._token is not old:
            return
        if not self.source.is_kept:
            await self._get(old, said, is_wider=is_wider)
            return
        terms = self._terms
        async with turn(terms.vault, terms.name, "token", terms.owner):
            kept = await asyncio.to_thread(self._kept)
            if kept is not None and (old is None or kept.access != old.access):
                # An earlier connection of this server, or another replica, was here before.
                self._token = old = kept
                self.on_found()
                if kept.is_fresh(terms.clock()):
                    return
            await self._get(old, said, is_wider=is_wider)

    async def _get(self, old: Token | None, said: Challenge, *, is_wider: bool) -> None:
        before = self._token
        found = await self._terms.discovery.discover(said)
        if old is not None and (old.issuer, old.resource) != (found.server.issuer, found.resource):
            # The server has moved: nothing of the old authorization server goes to the new one.
            old = None
        wanted = scopes.first(self._terms.scopes, said.scopes, found.scopes)
        if old is not None:
            wanted = scopes.union(old.asked, said.scopes)
        try:
            token = await self.source.token(Wish(found, wanted, old, is_wider))
        except NoToken:
            if before is not None and not is_wider and old is None and self._token is before:
                # What is left is another authorization server's; a token that lacks scopes is still good for the rest.
                # One that somebody's consent gave meanwhile stays, and so does one that this replica does not know.
                await self._keep(None)
            elif before is None and self._token is not None:
                # It came while somebody was being offered to consent.
                self.on_found()
            raise
        await self._keep(token)
        _log.info("token_received", server=self._terms.name, of_a_principal=bool(self._terms.owner))

    async def _load(self) -> None:
        if not self._loaded:
            kept = await asyncio.to_thread(self._kept) if self.source.is_kept else None
            if not self._loaded:
                self._loaded, self._token = True, self._token or kept

    def _kept(self) -> Token | None:
        return Token.of_object(self._terms.vault.load(self._terms.name, "token", self._terms.owner))

    async def _keep(self, token: Token | None) -> None:
        self._token = token
        if self.source.is_kept:
            await self._save(token)

    async def _save(self, token: Token | None) -> None:
        self._unsaved += 1
        try:
            await asyncio.to_thread(self._write, token)
        finally:
            self._unsaved -= 1

    async def reread(self) -> bool:
        """Take what another replica has kept meanwhile; tells whether that is a token where there was none."""
        if not self.source.is_kept or self._unsaved:
            return False
        kept, had = await asyncio.to_thread(self._kept), self._token is not None
        if kept is None or kept == self._token or self._unsaved:
            return False
        self._token, self._loaded = kept, True
        self._flight.reset()
        if not had:
            self._renewals.clear()
            self.on_found()
            self.on_granted()
        return not had

    def _write(self, token: Token | None) -> None:
        value = token.as_object() if token is not None else {}
        self._terms.vault.store(value, self._terms.name, "token", self._terms.owner)

    # Consents.

    async def receive(self, token: Token) -> str:
        """Take what a consent gave: at once for the gateway's account, else once its principal has confirmed it."""
        if not self._terms.owner:
            self._take(token)
            return ""
        return await self._confirmation.put(token)

    async def is_waiting(self) -> bool:
        """Tell whether a token waits to be confirmed."""
        return await self._confirmation.is_waiting()

    async def confirm(self, code: str) -> bool:
        """Take the token that waits, if this is its code."""
        token = await self._confirmation.confirm(code)
        if token is not None:
            self._take(token)
        return token is not None

    def _take(self, token: Token) -> None:
        self._token, self._loaded = token, True
        self._renewals.clear()
        self._flight.reset()
        self.on_granted()
        if self.source.is_kept:
            self._terms.tasks.start(self._save(token), f"keep token {self._terms.name}")


def _header(token: Token) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token.access}"}
