"""Access tokens to principals: each is verified once and remembered until it ends, so that requests do not pay again.

What is remembered is a digest and never the token. It is forgotten with the keys it was verified by: a key that left
the issuer's set takes its tokens along.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gateway.auth import claims, jwt
from gateway.auth.claims import Grant, Terms
from gateway.auth.issuer import Issuer, KeysUnavailable
from gateway.auth.jwks import KeySet
from gateway.auth.jwt import BadToken
from gateway.config.access import Jwt
from gateway.config.root import Config
from gateway.telemetry.logs import get_logger

MAX_REMEMBERED: Final = 10_000
_CREDENTIAL_LENGTH: Final = 8
_SALT: Final = secrets.token_bytes(32)
"""Keys the short names of tokens, which say nothing outside of this process (S153)."""

_log = get_logger("auth")


@dataclass(frozen=True, slots=True)
class _Known:
    """A verified token and the keys it was verified by."""

    grant: Grant
    expires: float
    keys: KeySet


class Tokens:
    """Every token of one issuer under one set of terms; ``now`` gives seconds since the epoch."""

    def __init__(self, terms: Terms, issuer: Issuer, now: Callable[[], float], most: int = MAX_REMEMBERED) -> None:
        self.terms = terms
        self.issuer = issuer
        self._now = now
        self._most = most
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    async def grant(self, text: str) -> Grant:
        """Return what a token stands for.

        Raises:
            BadToken: it proves nothing.
            KeysUnavailable: the issuer's keys are not to be had, so nobody can tell.
        """
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        known = self._known.get(digest)
        if known is not None and known.keys is self.issuer.current() and known.expires > self._now():
            self._known.move_to_end(digest)
            return known.grant
        self._known.pop(digest, None)
        return await self._verify(text, digest)

    async def _verify(self, text: str, digest: bytes) -> Grant:
        settings = self.terms.jwt
        token = jwt.read(text, settings.algorithms, require_access_type=settings.require_at_jwt)
        key = await self.issuer.find(token.kid, token.algorithm)
        if key is None:
            raise BadToken("unknown_key", "no_such_key")
        jwt.check_signature(token, key)
        grant = claims.judge(token.claims, self.terms, self._now())
        short = hmac.new(_SALT, digest, hashlib.sha256).hexdigest()[:_CREDENTIAL_LENGTH]
        grant = replace(grant, principal=replace(grant.principal, credential=short))
        self._note_groups(grant)
        keys = self.issuer.current()
        if keys is None:
            raise KeysUnavailable("keys are too old")
        self._known[digest] = _Known(grant, grant.principal.expires or 0.0, keys)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return grant

    def _note_groups(self, grant: Grant) -> None:
        """Say once per token that its groups cannot be read: policies for groups would silently not match."""
        path = self.terms.jwt.groups_claim
        if not grant.principal.groups and claims.has_claim(grant.principal.claims, path):
            _log.info("groups_unreadable", principal=grant.principal.label, claim=path)


def tokens_of(
    config: Config, before: Tokens | None, make: Callable[[Jwt], Issuer], now: Callable[[], float]
) -> Tokens | None:
    """Return what judges tokens under a config: what did so before where nothing about it has changed, else anew.

    The issuer's keys are kept where they come from the same place. None where the config accepts no tokens.
    """
    terms = Terms.of(config)
    if terms is None:
        return None
    if before is not None and before.issuer.serves(terms.jwt):
        return before if before.terms == terms else Tokens(terms, before.issuer, now)
    return Tokens(terms, make(terms.jwt), now)
