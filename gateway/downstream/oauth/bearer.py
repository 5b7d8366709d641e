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
from gateway.downstream.oauth.kept import AGAIN, Kept, Owed
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.sources import Source, Wish
from gateway.downstream.oauth.token import Token
from gateway.downstream.oauth.turn import Turn, turn
from gateway.downstream.oauth.vault import Vault
from gateway.tasks import TaskSet, outcome
from gateway.telemetry.logs import get_logger, on_crash

MAX_RENEWALS: Final = 4
RENEWAL_WINDOW: Final = 60.0
"""Renewals because of refusals within so many seconds; a server that refuses every token gets no more of them."""
PATIENCE: Final = 40.0
"""Seconds for a renewal, all documents that lead to it included: less than another replica waits for its turn."""
LEAVE: Final = 5.0
"""Seconds for which the end of a connection waits for a token that was asked for: what was given for it is spent."""
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
        self._kept = Kept(terms.vault, terms.tasks, terms.name, terms.owner)
        # Not those of the terms: they are cut off when the server's connections end.
        self._spending = TaskSet(on_crash(_log))
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
        if terms.vault.shared and self._kept.is_behind:
            # Who renewed now would do so with what others may not know of, and they with what is spent.
            raise NoToken(f'server "{terms.name}": its last token could not be shared with the other replicas yet')
        async with turn(terms.vault, terms.name, "token", terms.owner) as ours:
            kept = await self._kept.load()
            if kept is not None and (old is None or kept.access != old.access):
                # An earlier connection of this server, or another replica, was here before.
                self._token = old = kept
                self.on_found()
                if kept.is_fresh(terms.clock()):
                    return
            try:
                async with asyncio.timeout(PATIENCE):
                    token = await self._get(old, said, is_wider=is_wider)
            except TimeoutError:
                raise NoToken(f'server "{terms.name}": its authorization server takes too long') from None
            if token is not None:
                self._owe(token, kept, ours)

    def _owe(self, token: Token, before: Token | None, ours: Turn) -> None:
        """Keep a token in place of the one before as soon as that works, and let others wait until then."""

        async def then() -> None:
            self._flight.reset()
            await ours.end()

        ours.goes_on = True
        self._kept.save_soon(Owed(token, lambda: self._token is token, lambda other: other != before, then), AGAIN)

    async def _get(self, old: Token | None, said: Challenge, *, is_wider: bool) -> Token | None:
        """Get a token and keep it; returns it where it could not be kept."""
        before = self._token
        found = await self._terms.discovery.discover(said)
        if old is not None and (old.issuer, old.resource) != (found.server.issuer, found.resource):
            # The server has moved: nothing of the old authorization server goes to the new one.
            old = None
        wanted = scopes.first(self._terms.scopes, said.scopes, found.scopes)
        if old is not None:
            wanted = scopes.union(old.asked, said.scopes)
        try:
            return await self._spent(Wish(found, wanted, old, is_wider))
        except NoToken:
            if before is not None and not is_wider and old is None and self._token is before:
                # What is left is another authorization server's; a token that lacks scopes is still good for the rest.
                # One that somebody's consent gave meanwhile stays, and so does one that this replica does not know.
                await self._keep(None)
            elif before is None and self._token is not None:
                # It came while somebody was being offered to consent.
                self.on_found()
            raise

    async def _spent(self, wish: Wish) -> Token | None:
        """Ask for a token, and keep what comes also where nobody waits for it any more; see ``_get``."""
        ended: list[Token | Exception | None] = []

        async def work() -> None:
            ended.append(await outcome(self._received(wish)))

        asking = self._spending.start(work(), f"token {self._terms.name}")
        try:
            await asyncio.wait([asking])
        except asyncio.CancelledError:
            await asyncio.wait([asking], timeout=LEAVE)
            raise
        (end,) = ended
        if isinstance(end, Exception):
            raise end
        return end

    async def _received(self, wish: Wish) -> Token | None:
        token = await self.source.token(wish)
        is_kept = await self._keep(token)
        _log.info("token_received", server=self._terms.name, of_a_principal=bool(self._terms.owner))
        return None if is_kept else token

    async def _load(self) -> None:
        if not self._loaded:
            kept = await self._kept.load() if self.source.is_kept else None
            if not self._loaded:
                self._loaded, self._token = True, self._token or kept

    async def _keep(self, token: Token | None) -> bool:
        self._token = token
        return await self._kept.save(token) if self.source.is_kept else True

    async def reread(self) -> bool:
        """Take what another replica has kept meanwhile; tells whether that is a token where there was none."""
        if not self.source.is_kept or self._kept.is_behind:
            return False
        kept, had = await self._kept.load(), self._token is not None
        if kept is None or kept == self._token or self._kept.is_behind:
            return False
        self._token, self._loaded = kept, True
        self._flight.reset()
        if not had:
            self._renewals.clear()
            self.on_found()
            self.on_granted()
        return not had

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
            self._kept.save_soon(Owed(token, lambda: self._token is token))


def _header(token: Token) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token.access}"}
