"""``clients``, ``auth`` and ``limits``: who may call at all."""

from __future__ import annotations

from datetime import date

from pydantic import Field, SecretStr

from gateway.config.types import Duration, Model, Network, Rate, RateText, Sha256, Whole


class Client(Model):
    """One configured client and its keys."""

    key: SecretStr | None = None
    """The key itself, by reference (`${NAME}`); at least 32 characters."""
    key_sha256: list[Sha256] = []
    """SHA-256 of each key in hex; several for rotation."""
    expires: date | None = None
    """Last day (UTC) on which the keys work."""
    groups: list[str] = []
    """Groups the client is in; policies name them as `group:NAME`."""


class Jwt(Model):
    """Tokens of an authorization server."""

    issuer: str
    """Issuer the tokens must name."""
    audience: str
    """Audience the tokens must name: the URL of this endpoint as clients know it."""
    jwks_url: str = ""
    """Where the issuer's keys are; default: what its metadata says."""
    algorithms: list[str] = ["RS256", "ES256", "EdDSA"]
    """Signature algorithms accepted."""
    required_scopes: list[str] = []
    """Scopes every token needs."""
    scope_prefix: str = ""
    """What clients have to put before a scope when they ask for it, where tokens carry it without (Entra ID)."""
    groups_claim: str = "groups"
    """Claim, or dotted path of one, that lists the caller's groups."""
    max_lifetime: Duration = 86400.0
    """Tokens that live longer than this are refused."""
    max_stale: Duration = 3600.0
    """How long known keys are used while the issuer cannot be reached."""
    require_at_jwt: bool = False
    """Refuse tokens that are not typed as access tokens."""
    allow_networks: list[Network] = []
    """Private ranges in which addresses learned from the issuer may lie."""
    ca: str = ""
    """PEM file of the authorities to trust for the issuer instead of the system's."""


class Throttle(Model):
    """Failed authentications per source address."""

    failures: RateText = Rate(20, 60.0)
    """How many failed authentications one source may have before it is told to wait."""


class Auth(Model):
    """How callers prove who they are, besides keys."""

    jwt: Jwt | None = None
    """Accept access tokens of an authorization server."""
    throttle: Throttle = Throttle()
    """What repeated failures lead to."""


class Limits(Model):
    """Caps per principal; ``connections`` is for the whole gateway."""

    requests: RateText = Rate(6000, 60.0)
    """Requests of one principal."""
    in_flight: Whole = Field(default=64, ge=1)
    """Calls of one principal at once; an answer that it has not read yet counts like a call."""
    sessions: Whole = Field(default=100, ge=1)
    """Legacy sessions of one principal; streams may be 16 more."""
    connections: Whole = Field(default=4096, ge=1)
    """Connections from clients at once, all together."""
