"""Verified claims to a principal, or to the reason why they do not make one. Pure; times in seconds since the epoch.

Clocks may differ by a minute where a token begins, never where it ends: a token that has expired here has expired.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.auth.jwt import BadToken
from gateway.config.access import Jwt
from gateway.config.root import Config
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object, Value

SKEW: Final = 60.0
"""Seconds by which the issuer's clock may be ahead of ours (S38)."""
MAX_SUBJECT: Final = 255
MAX_AUDIENCES: Final = 64
_MAX_TIME: Final = 1e11
_NOT_A_REQUIREMENT: Final = frozenset({"offline_access"})
"""Never asked for: refresh tokens are the client's business (2026-07-28 basic/authorization §Refresh Tokens)."""
CERTIFICATE_PROOF: Final = "x5t#S256"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a token must say. ``audiences`` maps each accepted one to the view it opens, "" being everything.

    ``digest`` names the terms, so that what was accepted under others can be told.
    """

    jwt: Jwt
    audiences: Mapping[str, str]
    digest: str

    @classmethod
    def of(cls, config: Config) -> Terms | None:
        """Read the terms of a config; None where it accepts no tokens.

        A view is a resource of its own at ``public_url/NAME``: a token for it opens nothing else.
        """
        settings = config.auth.jwt
        if settings is None:
            return None
        audiences = {normal_audience(settings.audience): ""}
        if normal_audience(config.listen.public_url) == normal_audience(settings.audience):
            base = config.listen.public_url.rstrip("/")
            audiences |= {normal_audience(f"{base}/{name}"): name for name in config.views}
        told = settings.model_dump_json(exclude={"max_stale", "allow_networks", "ca"})
        digest = hashlib.sha256(f"{told}\n{sorted(audiences.items())}".encode()).hexdigest()
        return cls(settings, audiences, digest)

    @property
    def label(self) -> str:
        """What callers with tokens of this issuer are called in metrics and logs; never a subject."""
        return f"jwt:{urlsplit(self.jwt.issuer).hostname or 'issuer'}"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token stands for: who, through which views ("" being all), and the certificate it is bound to, if any.

    ``bound`` is the base64url SHA-256 of that certificate (RFC 8705 §3.1), "" without one.
    """

    principal: Principal
    views: frozenset[str]
    bound: str = ""

    def opens(self, view: str) -> bool:
        """Whether the token is meant for this view."""
        return "" in self.views or view in self.views


def judge(claims: Object, terms: Terms, now: float) -> Grant:
    """Judge the claims of a token whose signature was checked.

    Raises:
        BadToken: another issuer, another audience, not valid now, or nobody that could be named.
    """
    if claims.get("iss") != terms.jwt.issuer:
        raise BadToken("claims", "issuer")
    views = _views(claims.get("aud"), terms.audiences)
    if not views:
        raise BadToken("claims", "audience")
    expires = _time(claims, "exp")
    if expires is None:
        raise BadToken("claims", "no_expiry")
    if expires <= now:
        raise BadToken("expired_token", "expired")
    _check_beginning(claims, expires, now, terms.jwt.max_lifetime)
    return Grant(_principal(claims, terms, expires), views, _bound(claims))


def _check_beginning(claims: Object, expires: float, now: float, most: float) -> None:
    issued, begins = _time(claims, "iat"), _time(claims, "nbf")
    if any(moment is not None and moment > now + SKEW for moment in (issued, begins)):
        raise BadToken("claims", "not_yet_valid")
    if expires - now > most + SKEW or (issued is not None and expires - issued > most):
        raise BadToken("claims", "lives_too_long")


def _time(claims: Object, name: str) -> float | None:
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX_TIME:
        raise BadToken("claims", f"{name}_is_no_time")
    return float(value)


def _views(value: Value, audiences: Mapping[str, str]) -> frozenset[str]:
    """Return which views the token is meant for; only whole, equal audiences count (RFC 7519 §4.1.3, S39)."""
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list) or len(named) > MAX_AUDIENCES:
        return frozenset()
    texts = [normal_audience(item) for item in named if isinstance(item, str)]
    if len(texts) != len(named):
        return frozenset()
    return frozenset(audiences[text] for text in texts if text in audiences)


def normal_audience(text: str) -> str:
    """Return an audience as it is compared: scheme and host of a URL in lower case, one slash at its end ignored."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return text
    if parts.scheme in ("http", "https") and parts.netloc:
        start = len(parts.scheme) + len("://") + len(parts.netloc)
        text = text[:start].lower() + text[start:].removesuffix("/")
    return text


def _principal(claims: Object, terms: Terms, expires: float) -> Principal:
    """Name the caller: the subject, or the client where a token is the client's own (RFC 9068 §2.2)."""
    issuer = terms.jwt.issuer
    client = _name(claims, "client_id") or _name(claims, "azp")
    subject = _name(claims, "sub")
    if not subject and not client:
        raise BadToken("claims", "nobody")
    own = bool(client) and subject in ("", client)
    kind, who = ("client", client) if own else ("sub", subject)
    return Principal(
        id=f"{kind}:{issuer}/{who}",
        kind=kind,
        label=terms.label,
        groups=groups_of(claims, terms.jwt.groups_claim),
        scopes=scopes_of(claims),
        claims=claims,
        expires=expires,
        terms=terms.digest,
    )


def _name(claims: Object, claim: str) -> str:
    """Return a claim that names somebody, "" where it is absent."""
    value = claims.get(claim, "")
    if not isinstance(value, str) or len(value) > MAX_SUBJECT or not value.isprintable():
        raise BadToken("claims", f"{claim}_is_no_name")
    return value


def scopes_of(claims: Object) -> frozenset[str]:
    """Return the scopes of ``scope``, else ``scp``: words of a text, or a list of texts; anything else is none."""
    value = claims["scope"] if "scope" in claims else claims.get("scp")
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(_texts(value))


def groups_of(claims: Mapping[str, Value], path: str) -> frozenset[str]:
    """Return the groups a claim names: a text or a list of texts, anything else is none.

    ``path`` is a claim's name, or names separated by dots; some issuers have claims with dots in their name.
    """
    value = _claim(claims, path)
    return frozenset([value] if isinstance(value, str) and value else _texts(value))


def has_claim(claims: Mapping[str, Value], path: str) -> bool:
    """Whether a claim is there and says something, whatever its form."""
    return _claim(claims, path) not in (None, "", [])


def _claim(claims: Mapping[str, Value], path: str) -> Value:
    if path in claims:
        return claims[path]
    value: Value = dict(claims)
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _texts(value: Value) -> list[str]:
    if not isinstance(value, list):
        return []
    texts = [item for item in value if isinstance(item, str) and item]
    return texts if len(texts) == len(value) else []


def lacking(principal: Principal, required: list[str]) -> bool:
    """Whether a principal's token is short of scopes that every token needs."""
    return not principal.scopes.issuperset(requirements(required))


def requirements(scopes: list[str]) -> list[str]:
    """Return the scopes that clients are told to ask for, in a stable order."""
    return [scope for scope in dict.fromkeys(scopes) if scope not in _NOT_A_REQUIREMENT]


def _bound(claims: Object) -> str:
    """Return the certificate a token is bound to; a binding that cannot be checked makes it useless here."""
    proof = claims.get("cnf")
    if proof is None:
        return ""
    digest = proof.get(CERTIFICATE_PROOF) if isinstance(proof, dict) and len(proof) == 1 else None
    if not isinstance(digest, str) or not digest:
        raise BadToken("claims", "bound_to_another_proof")
    return digest
