"""Tokens and the requests that give them (RFC 6749 §4 to §6, RFC 8693, RFC 8707). No token is ever in a text."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.downstream.oauth.challenge import scopes
from gateway.downstream.oauth.client import Client
from gateway.downstream.oauth.discovery import Discovered
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.fetch import Fetched, Fetcher
from gateway.protocol.rawjson import Object, Value

SKEW: Final = 30.0
"""Seconds before its end at which a token is no longer used (S48)."""
MAX_TOKEN: Final = 16 * 1024
MAX_LIFETIME: Final = 365 * 86400.0
_PRINTABLE: Final = frozenset(map(chr, range(0x21, 0x7F)))
_ERRORS: Final = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"}
    | {"invalid_scope", "invalid_target", "access_denied", "slow_down", "temporarily_unavailable", "server_error"}
)
"""Words of authorization servers that may be shown; any other text of theirs is not."""
_FINAL: Final = frozenset({"invalid_client", "invalid_grant", "unauthorized_client"})


@dataclass(frozen=True, slots=True)
class Token:
    """What a token endpoint gave. ``expires_at`` is in seconds of the wall clock, None where it was not said.

    ``asked`` are the scopes that were asked for, ``granted`` those that were given.
    """

    access: str = field(repr=False)
    issuer: str
    resource: str
    refresh: str = field(default="", repr=False)
    expires_at: float | None = None
    asked: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()

    def is_valid(self, now: float) -> bool:
        """Tell whether it has not ended."""
        return self.expires_at is None or now < self.expires_at

    def is_fresh(self, now: float) -> bool:
        """Tell whether it is worth sending."""
        return self.expires_at is None or now < self.expires_at - SKEW

    def as_object(self) -> Object:
        """Return what is kept of it."""
        return {
            "access": self.access,
            "issuer": self.issuer,
            "resource": self.resource,
            "refresh": self.refresh,
            "expires_at": self.expires_at,
            "asked": " ".join(self.asked),
            "granted": " ".join(self.granted),
        }

    @classmethod
    def of_object(cls, kept: Object) -> Token | None:
        """Read what was kept; None where it is not that."""
        texts = {name: kept.get(name) for name in ("access", "issuer", "resource", "refresh", "asked", "granted")}
        expires = kept.get("expires_at")
        known = {name: text for name, text in texts.items() if isinstance(text, str)}
        if len(known) < len(texts) or not (expires is None or isinstance(expires, (int, float))):
            return None
        return cls(
            known["access"],
            known["issuer"],
            known["resource"],
            known["refresh"],
            None if expires is None else float(expires),
            scopes(known["asked"]),
            scopes(known["granted"]),
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """One way to ask. ``form`` are its own members; ``refresh`` is what holds where the answer has no new one."""

    form: Mapping[str, str] = field(repr=False)
    asked: tuple[str, ...] = ()
    refresh: str = field(default="", repr=False)
    sends_scope: bool = True


async def request(name: str, fetcher: Fetcher, found: Discovered, client: Client, grant: Grant) -> Token:
    """Ask for a token.

    Raises:
        NoToken: there is none; ``is_final`` where what was presented is good for nothing.
    """
    proof, headers = client.prove(found.server)
    form = {**grant.form, **proof, "resource": found.resource}
    if grant.asked and grant.sends_scope:
        form["scope"] = " ".join(grant.asked)
    answer = await fetcher.post_form(found.server.token_endpoint, form, headers)
    if answer.status not in (200, 201):
        raise _refused(name, answer)
    return _read(name, answer.document, found, grant)


def _refused(name: str, answer: Fetched) -> NoToken:
    said = answer.document.get("error")
    word = said if isinstance(said, str) and said in _ERRORS else f"HTTP status {answer.status}"
    text = f'server "{name}": its authorization server gives no token ({word})'
    return NoToken(text, is_final=isinstance(said, str) and said in _FINAL)


def _read(name: str, document: Object, found: Discovered, grant: Grant) -> Token:
    access, kind, refresh = document.get("access_token"), document.get("token_type"), document.get("refresh_token")
    if not _is_token(access) or not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a"):
        raise NoToken(f'server "{name}": its authorization server gave something else than a bearer token')
    assert isinstance(access, str)
    scope = document.get("scope")
    return Token(
        access,
        found.server.issuer,
        found.resource,
        refresh if isinstance(refresh, str) and _is_token(refresh) else grant.refresh,
        _expiry(document.get("expires_in")),
        grant.asked,
        scopes(scope) if isinstance(scope, str) else grant.asked,
    )


def _is_token(value: Value) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TOKEN and _PRINTABLE.issuperset(value)


def _expiry(seconds: Value) -> float | None:
    if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) < 12:
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        return None
    return time.time() + min(max(float(seconds), 0.0), MAX_LIFETIME)
