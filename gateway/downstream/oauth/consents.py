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
from typing import Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from gateway.downstream.oauth import token as tokens
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetcher
from gateway.downstream.oauth.metadata import PKCE
from gateway.downstream.oauth.token import Grant, Token
from gateway.telemetry.logs import get_logger

START_PATH: Final = "/oauth/start"
CALLBACK_PATH: Final = "/oauth/callback"
LIFETIME: Final = 600.0
"""Seconds from leaving for an authorization server to coming back."""
MAX_OFFERS: Final = 1024
MAX_STATES: Final = 256
MAX_PER_OFFER: Final = 4
MAX_CODE: Final = 4096
Receive: TypeAlias = Callable[[Token], str]
"""Takes a token; returns what the person who consented has to confirm it with, "" for nothing."""

_log = get_logger("oauth")


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


_UNKNOWN: Final = Arrival(False, "This sign-in is unknown or too old. Start again from the link you were given.")
_OTHER_BROWSER: Final = Arrival(False, "This sign-in was started in another browser. Start again in this one.")


class Consents:
    """Everything people may consent to now. ``clock`` gives monotonic seconds; ``told`` hears of each end."""

    def __init__(
        self,
        told: Callable[[str, str, str], None] = lambda server, owner, result: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._told = told
        self._clock = clock
        self._offers: dict[str, Offer] = {}
        self._states: dict[str, _State] = {}

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

    def begin(self, ticket: str) -> Departure | None:
        """Send somebody off to the authorization server; None for a ticket that leads nowhere."""
        offer = self._offers.get(ticket)
        if offer is None:
            return None
        self._make_room(ticket)
        state, verifier, cookie = (secrets.token_urlsafe(32) for _ in range(3))
        self._states[state] = _State(ticket, offer, verifier, cookie, self._clock() + LIFETIME)
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

    def _make_room(self, ticket: str) -> None:
        now = self._clock()
        self._states = {state: each for state, each in self._states.items() if each.until > now}
        own = [state for state, each in self._states.items() if each.ticket == ticket]
        for state in own[: max(0, len(own) - MAX_PER_OFFER + 1)]:
            del self._states[state]
        while len(self._states) >= MAX_STATES:
            del self._states[next(iter(self._states))]

    async def complete(self, query: Mapping[str, str], cookies: tuple[str, ...]) -> Arrival:
        """Take what an authorization server sent a browser back with; whatever it is, the state is used up."""
        state = self._states.pop(query.get("state", ""), None)
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
        confirmation = offer.receive(token)
        if self.ticket(offer.server, offer.owner) == state.ticket:
            self.withdraw(offer.server, offer.owner)
        done = Arrival(True, "Access was granted.", offer.server, confirmation)
        return self._ended(state, "granted", done)

    def _ended(self, state: _State, result: str, arrival: Arrival) -> Arrival:
        _log.info("consent_ended", server=state.offer.server, result=result)
        self._told(state.offer.server, state.offer.owner, result)
        return arrival


def _base(offer: Offer) -> str:
    return offer.redirect_uri.removesuffix(CALLBACK_PATH)


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
