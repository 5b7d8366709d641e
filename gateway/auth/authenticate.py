"""What a request proves about its caller: a principal, or the challenge of a 401 or 403.

An ``Authorization`` header speaks for itself alone; without one the certificate of the connection counts. Nothing else
proves anything: no query, no body, no other header, no ``clientInfo`` (S36, S54, G077).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from gateway.auth import claims
from gateway.auth.certificate import BadCertificate, Certificate, principal_of
from gateway.auth.challenge import Challenges, documents
from gateway.auth.claims import Grant
from gateway.auth.jwt import BadToken, looks_like_jwt
from gateway.auth.keys import KeyRing, is_valid
from gateway.auth.tokens import Tokens
from gateway.config.root import LoadedConfig
from gateway.errors import GatewayError
from gateway.model.principal import ANONYMOUS, Principal

_BEARER: Final = re.compile(r"(?i:bearer)[ \t]+([!-~]+)")
_SCHEME: Final = re.compile(r"(?i:bearer)(?:[ \t].*)?", re.DOTALL)


class Unauthenticated(GatewayError):
    """Nobody we know. ``challenge`` is the ``WWW-Authenticate`` value; the rest is for the operator.

    Unknown, wrong and expired credentials have the same challenge. ``kind`` says what was shown: ``none``, ``key``,
    ``jwt`` or ``cert``; ``reason`` is a metric's label, ``detail`` says more; both are short constants.
    """

    def __init__(self, kind: str, reason: str, challenge: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.kind = kind
        self.reason = reason
        self.challenge = challenge
        self.detail = detail or reason


class InsufficientScope(GatewayError):
    """A known caller whose token lacks scopes that every token needs; ``challenge`` names them all."""

    def __init__(self, principal: Principal, challenge: str) -> None:
        super().__init__("insufficient_scope")
        self.principal = principal
        self.challenge = challenge


class Authenticator:
    """Knows every credential of one config. ``wall_clock`` gives aware UTC times; ``tokens`` where it accepts any."""

    def __init__(self, loaded: LoadedConfig, wall_clock: Callable[[], datetime], tokens: Tokens | None = None) -> None:
        listen = loaded.config.listen
        self._anonymous = loaded.anonymous
        self._keys = KeyRing.build(loaded.config.clients)
        self._tokens = tokens
        self._certificates = listen.tls is not None and bool(listen.tls.client_ca)
        self._wall_clock = wall_clock
        # A token is kept beside its principal only where a server needs another one in exchange for it.
        self._exchanges = any(server.auth.token_exchange for server in loaded.config.servers.values())
        self.challenges = Challenges.of(loaded.config)
        self.documents: Mapping[str, bytes] = documents(loaded.config)
        """Protected resource metadata by path, served to everybody."""

    async def authenticate(
        self, authorization: Sequence[str], view: str = "", certificate: Certificate | None = None
    ) -> Principal:
        """Return who sent a request with these ``Authorization`` header values over this connection to a view.

        Where the config names no way to prove anything, everybody is anonymous and a credential sent along is ignored.

        Raises:
            Unauthenticated: no credential, more than one, or none that is known and valid.
            InsufficientScope: a token without the scopes that every token needs.
            KeysUnavailable: a token that nobody can judge now.
        """
        if self._anonymous:
            return ANONYMOUS
        if not authorization and certificate is not None and self._certificates:
            return self._by_certificate(certificate, view)
        token = self._token(authorization, view)
        holder = self._keys.find(token)
        if holder is not None:
            if not is_valid(holder, self._wall_clock()):
                raise self._invalid("key", "expired_key", view)
            return holder.principal
        if self._tokens is None or not looks_like_jwt(token):
            raise self._invalid("key", "unknown_key", view)
        return await self._by_token(self._tokens, token, view, certificate)

    async def _by_token(self, tokens: Tokens, token: str, view: str, certificate: Certificate | None) -> Principal:
        try:
            grant = await tokens.grant(token)
            _check_use(grant, view, certificate)
        except BadToken as error:
            raise self._invalid("jwt", error.reason, view, error.detail) from None
        if claims.lacking(grant.principal, tokens.terms.jwt.required_scopes):
            raise InsufficientScope(grant.principal, self.challenges.insufficient(view))
        return replace(grant.principal, token=token) if self._exchanges else grant.principal

    def _by_certificate(self, certificate: Certificate, view: str) -> Principal:
        try:
            return principal_of(certificate, self._wall_clock().timestamp())
        except BadCertificate as error:
            raise Unauthenticated("cert", "certificate", self.challenges.missing(view), str(error)) from None

    def is_current(self, principal: Principal) -> bool:
        """Whether the credential a principal came with would still be accepted; for streams that outlive a reload."""
        now = self._wall_clock()
        if self._anonymous or principal.is_anonymous:
            return self._anonymous and principal.is_anonymous
        if principal.expires is not None and principal.expires <= now.timestamp():
            return False
        match principal.kind:
            case "sub" | "client":
                return self._tokens is not None and principal.terms == self._tokens.terms.digest
            case "cert":
                return self._certificates
            case _:
                return self._keys.holds(principal, now)

    def fresh(self, principal: Principal) -> Principal | None:
        """Return a principal as it is configured now, for sessions and calls, which are bound to no single credential.

        None where no credential of it could be accepted any more.
        """
        if self._anonymous or principal.is_anonymous:
            return principal if self._anonymous and principal.is_anonymous else None
        match principal.kind:
            case "sub" | "client":
                issuer = "" if self._tokens is None else self._tokens.terms.jwt.issuer
                return principal if issuer and principal.claims.get("iss") == issuer else None
            case "cert":
                return principal if self._certificates else None
            case _:
                return self._keys.named(principal, self._wall_clock())

    def _invalid(self, kind: str, reason: str, view: str, detail: str = "") -> Unauthenticated:
        return Unauthenticated(kind, reason, self.challenges.invalid(view), detail)

    def _token(self, authorization: Sequence[str], view: str) -> str:
        """Return the bearer token (RFC 6750 section 2.1)."""
        nothing = self.challenges.missing(view)
        if not authorization:
            raise Unauthenticated("none", "missing", nothing)
        if len(authorization) > 1:
            raise self._invalid("key", "several_headers", view)
        match = _BEARER.fullmatch(authorization[0])
        if match:
            return match[1]
        if not _SCHEME.fullmatch(authorization[0]):
            raise Unauthenticated("none", "other_scheme", nothing)
        if not authorization[0][len("bearer") :].strip():
            raise Unauthenticated("none", "empty", nothing)
        raise self._invalid("key", "malformed", view)


def _check_use(grant: Grant, view: str, certificate: Certificate | None) -> None:
    """Judge where and over which connection a good token is used.

    Raises:
        BadToken: it is meant for another view, or for whoever holds another certificate.
    """
    if not grant.opens(view):
        raise BadToken("claims", "audience")
    if grant.bound and (certificate is None or certificate.thumbprint != grant.bound):
        raise BadToken("certificate", "bound_to_another_certificate")
