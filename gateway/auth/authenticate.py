"""The ``Authorization`` header of a request to a principal, or to the challenge of a 401.

Nothing else proves anything: no query, no body, no other header, no ``clientInfo`` (S36, S54, G077).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from gateway.auth.keys import KeyRing, is_valid
from gateway.config.root import LoadedConfig
from gateway.errors import GatewayError
from gateway.model.principal import ANONYMOUS, Principal

_BEARER: Final = re.compile(r"(?i:bearer)[ \t]+([!-~]+)")
_SCHEME: Final = re.compile(r"(?i:bearer)(?:[ \t].*)?", re.DOTALL)

NO_TOKEN: Final = 'Bearer realm="mcp"'  # noqa: S105 - a challenge.
INVALID_TOKEN: Final = 'Bearer realm="mcp", error="invalid_token"'  # noqa: S105 - a challenge.


class Unauthenticated(GatewayError):
    """Nobody we know. ``challenge`` is the ``WWW-Authenticate`` value; ``reason`` and ``kind`` are for the operator.

    Unknown, wrong and expired keys have the same challenge; ``kind`` is ``none`` without a token, else ``key``.
    """

    def __init__(self, reason: str, challenge: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.challenge = challenge
        self.kind = "none" if challenge == NO_TOKEN else "key"


class Authenticator:
    """Knows every credential of one config. ``wall_clock`` gives aware UTC times."""

    def __init__(self, loaded: LoadedConfig, wall_clock: Callable[[], datetime]) -> None:
        self._anonymous = loaded.anonymous
        self._keys = KeyRing.build(loaded.config.clients)
        self._wall_clock = wall_clock

    async def authenticate(self, authorization: Sequence[str]) -> Principal:
        """Return who sent a request with these ``Authorization`` header values.

        Where the config names no way to prove anything, everybody is anonymous and a credential sent along is ignored.

        Raises:
            Unauthenticated: no credential, more than one, or none that is known and valid.
        """
        if self._anonymous:
            return ANONYMOUS
        holder = self._keys.find(_token(authorization))
        if holder is None:
            raise Unauthenticated("unknown_key", INVALID_TOKEN)
        if not is_valid(holder, self._wall_clock()):
            raise Unauthenticated("expired_key", INVALID_TOKEN)
        return holder.principal

    def is_current(self, principal: Principal) -> bool:
        """Whether the credential a principal came with would still be accepted; for streams that outlive a reload."""
        if self._anonymous or principal.is_anonymous:
            return self._anonymous and principal.is_anonymous
        return self._keys.holds(principal, self._wall_clock())

    def fresh(self, principal: Principal) -> Principal | None:
        """Return a principal as it is configured now, for sessions and calls, which are bound to no single credential.

        None where no credential of it is left.
        """
        if self._anonymous or principal.is_anonymous:
            return principal if self._anonymous and principal.is_anonymous else None
        return self._keys.named(principal, self._wall_clock())


def _token(authorization: Sequence[str]) -> str:
    """Return the bearer token (RFC 6750 section 2.1)."""
    if not authorization:
        raise Unauthenticated("missing", NO_TOKEN)
    if len(authorization) > 1:
        raise Unauthenticated("several_headers", INVALID_TOKEN)
    match = _BEARER.fullmatch(authorization[0])
    if match:
        return match[1]
    if not _SCHEME.fullmatch(authorization[0]):
        raise Unauthenticated("other_scheme", NO_TOKEN)
    empty = not authorization[0][len("bearer") :].strip()
    raise Unauthenticated("empty" if empty else "malformed", NO_TOKEN if empty else INVALID_TOKEN)
