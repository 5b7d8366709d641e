"""People who consent in a browser: what they are offered, the way there, and what comes back (RFC 6749 §4.1).

A ticket leads to an offer; each time somebody follows it there is a new state, PKCE verifier and cookie, good once and
for ten minutes. What comes back must come in the browser that left, with the issuer that was asked (RFC 9207).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit

from gateway.downstream.oauth import token as tokens
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.metadata import PKCE
from gateway.downstream.oauth.offer import Offer, Reach, Receive, Receiver, offer_of
from gateway.downstream.oauth.shelf import Shelf
from gateway.downstream.oauth.token import Grant
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import get_logger

START_PATH: Final = "/oauth/start"
CALLBACK_PATH: Final = "/oauth/callback"
LIFETIME: Final = 600.0
"""Seconds from leaving for an authorization server to coming back."""
MAX_OFFERS: Final = 1024
MAX_STATES: Final = 256
MAX_PER_OFFER: Final = 4
MAX_CODE: Final = 4096
OFFER_SECONDS: Final = 86400.0
"""How long another replica knows of an offer; the one that made it knows it as long as it stands."""

_log = get_logger("oauth")


@dataclass(frozen=True, slots=True)
class Departure:
    """Where to send a browser, and the cookie it has to bring back."""

    url: str
    cookie: str = field(repr=False)
    is_secure: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """How it ended, for the person in front of the browser. ``code`` is what to confirm it with, "" for nothing."""

    ok: bool
    text: str
    server: str = ""
    code: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class _State:
    ticket: str
    offer: Offer
    verifier: str = field(repr=False)
    cookie: str = field(repr=False)
    until: float = 0.0
    is_shared: bool = True
    """Whether another replica may have used it up."""


_UNKNOWN: Final = Arrival(False, "This sign-in is unknown or too old. Start again from the link you were given.")
_OTHER_BROWSER: Final = Arrival(False, "This sign-in was started in another browser. Start again in this one.")


class Consents:
    """Everything people may consent to now. ``clock`` gives monotonic seconds; ``told`` hears of each end."""

    def __init__(
        self,
        told: Callable[[str, str, str], None] = lambda server, owner, result: None,
        clock: Callable[[], float] = time.monotonic,
        shelf: Shelf | None = None,
    ) -> None:
        self._told = told
        self._clock = clock
        self._shelf = shelf or Shelf.alone()
        self._offers: dict[str, Offer] = {}
        self._states: dict[str, _State] = {}
        self.reach: Reach = _nobody
        """How to redeem what somebody consented to at another replica; set by who knows the servers."""

    def offer(self, offer: Offer) -> str:
        """Make an offer, in place of an earlier one of the same server and owner; returns the ticket to it."""
        ticket = self.ticket(offer.server, offer.owner)
        if ticket and self._offers[ticket].is_like(offer):
            self._offers[ticket] = offer
            return ticket
        self.withdraw(offer.server, offer.owner)
        while len(self._offers) >= MAX_OFFERS:
            del self._offers[next(iter(self._offers))]
        ticket = secrets.token_urlsafe(24)
        self._offers[ticket] = offer
        return ticket

    async def share(self, ticket: str) -> None:
        """Let other replicas know of an offer, so that its address can be opened at any of them."""
        offer = self._offers.get(ticket)
        if offer is not None:
            await self._shelf.put("offer", ticket, offer.as_object(), OFFER_SECONDS)

    def withdraw(self, server: str, owner: str) -> None:
        """Take an offer back: it is no longer needed, or another one is."""
        ticket = self.ticket(server, owner)
        if ticket:
            del self._offers[ticket]
            self._states = {state: each for state, each in self._states.items() if each.ticket != ticket}

    def withdraw_of(self, receivers: Collection[Receive]) -> None:
        """Take back the offers whose tokens nobody would receive any more."""
        for offer in [each for each in self._offers.values() if each.receive in receivers]:
            self.withdraw(offer.server, offer.owner)

    def ticket(self, server: str, owner: str = "") -> str:
        """Return the ticket to an offer, "" where there is none."""
        known = (ticket for ticket, each in self._offers.items() if (each.server, each.owner) == (server, owner))
        return next(known, "")

    def url(self, ticket: str) -> str:
        """Return the address to hand out for a ticket, "" for one that leads nowhere."""
        offer = self._offers.get(ticket)
        return "" if offer is None else f"{_base(offer)}{START_PATH}?{urlencode({'ticket': ticket})}"

    async def begin(self, ticket: str) -> Departure | None:
        """Send somebody off to the authorization server; None for a ticket that leads nowhere."""
        offer = self._offers.get(ticket) or self._read(await self._shelf.get("offer", ticket))
        if offer is None:
            return None
        for gone in self._make_room(ticket):
            await self._shelf.drop("state", gone)
        state, verifier, cookie = (secrets.token_urlsafe(32) for _ in range(3))
        kept: Object = {"ticket": ticket, "offer": offer.as_object(), "verifier": verifier, "cookie": cookie}
        is_shared = await self._shelf.put("state", state, kept, LIFETIME)
        self._states[state] = _State(ticket, offer, verifier, cookie, self._clock() + LIFETIME, is_shared)
        asked = {
            "response_type": "code",
            "client_id": offer.client.id,
            "redirect_uri": offer.redirect_uri,
            "state": state,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": PKCE,
            "resource": offer.found.resource,
        }
        if offer.scopes:
            asked["scope"] = " ".join(offer.scopes)
        endpoint = offer.found.server.authorization_endpoint
        joint = "&" if urlsplit(endpoint).query else "?"
        return Departure(endpoint + joint + urlencode(asked), cookie, _base(offer).startswith("https:"))

    def _make_room(self, ticket: str) -> list[str]:
        """Forget old states, and some of too many; returns those."""
        now = self._clock()
        self._states = {state: each for state, each in self._states.items() if each.until > now}
        own = [state for state, each in self._states.items() if each.ticket == ticket]
        gone = own[: max(0, len(own) - MAX_PER_OFFER + 1)]
        others = [state for state in self._states if state not in gone]
        gone += others[: max(0, len(others) - MAX_STATES + 1)]
        for state in gone:
            del self._states[state]
        return gone

    def _read(self, kept: Object | None) -> Offer | None:
        return offer_of(kept, self.reach) if kept is not None else None

    async def _take(self, name: str) -> _State | None:
        """Use up a state, wherever it was made."""
        own, kept = self._states.pop(name, None), await self._shelf.take("state", name)
        if own is not None and (kept is not None or not own.is_shared):
            return own
        if kept is None:
            return None
        body, ticket, verifier, cookie = (kept.get(word) for word in ("offer", "ticket", "verifier", "cookie"))
        offer = self._read(body if isinstance(body, dict) else None)
        if offer is None or not isinstance(ticket, str) or not isinstance(verifier, str) or not isinstance(cookie, str):
            return None
        return _State(ticket, offer, verifier, cookie, self._clock() + LIFETIME)

    async def complete(self, query: Mapping[str, str], cookies: tuple[str, ...]) -> Arrival:
        """Take what an authorization server sent a browser back with; whatever it is, the state is used up."""
        state = await self._take(query.get("state", ""))
        if state is None or state.until <= self._clock():
            return _UNKNOWN
        if not any(hmac.compare_digest(state.cookie.encode(), cookie.encode()) for cookie in cookies):
            return self._ended(state, "other_browser", _OTHER_BROWSER)
        offer, issuer = state.offer, query.get("iss")
        expected = offer.found.server
        if issuer != expected.issuer and (issuer is not None or expected.names_issuer):
            # Nothing of such an answer may be shown either (basic/authorization §Authorization Response Validation).
            text = "The answer is not from the authorization server that was asked. Nothing was taken from it."
            return self._ended(state, "wrong_issuer", Arrival(False, text, offer.server))
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= MAX_CODE:
            text = "The authorization server did not grant access."
            return self._ended(state, "not_granted", Arrival(False, text, offer.server))
        return await self._redeem(state, code)

    async def _redeem(self, state: _State, code: str) -> Arrival:
        offer = state.offer
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": offer.redirect_uri,
            "code_verifier": state.verifier,
        }
        grant = Grant(form, offer.scopes, sends_scope=False)
        try:
            token = await tokens.request(offer.server, offer.fetcher, offer.found, offer.client, grant)
        except NoToken as error:
            _log.warning("consent_failed", server=offer.server, reason=error.message)
            text = "The authorization server gave no token for this consent. The gateway's log says why."
            return self._ended(state, "no_token", Arrival(False, text, offer.server))
        confirmation = await offer.receive(token)
        await self._shelf.drop("offer", state.ticket)
        self._satisfied(state)
        done = Arrival(True, "Access was granted.", offer.server, confirmation)
        return self._ended(state, "granted", done)

    def _satisfied(self, state: _State) -> None:
        """Take back an offer that is no longer needed: this one, or one of this replica's own that wants no more."""
        ticket = self.ticket(state.offer.server, state.offer.owner)
        own = self._offers.get(ticket)
        wants_no_more = own is not None and own.found == state.offer.found and {*own.scopes} <= {*state.offer.scopes}
        if ticket == state.ticket or wants_no_more:
            self.withdraw(state.offer.server, state.offer.owner)

    def _ended(self, state: _State, result: str, arrival: Arrival) -> Arrival:
        _log.info("consent_ended", server=state.offer.server, result=result)
        self._told(state.offer.server, state.offer.owner, result)
        return arrival


def _nobody(server: str, owner: str) -> Receiver | None:
    """Know no servers."""
    return None


def _base(offer: Offer) -> str:
    return offer.redirect_uri.removesuffix(CALLBACK_PATH)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
