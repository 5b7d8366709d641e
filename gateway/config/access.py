"""``clients``, ``auth`` and ``limits``: who may call at all."""

from __future__ import annotations

from datetime import date

from pydantic import Field, SecretStr

from gateway.config.types import Duration, Model, Rate, RateText


class Client(Model):
    """One configured client and its keys."""

    key: SecretStr | None = None
    """The key itself, by reference (`${NAME}`); at least 32 characters."""
    key_sha256: list[str] = []
    """SHA-256 of each key in hex; several for rotation."""
    expires: date | None = None
    """Last day (UTC) on which the keys work."""
    groups: list[str] = []


class Jwt(Model):
    """Tokens of an authorization server."""

    issuer: str
    audience: str
    jwks_url: str = ""
    algorithms: list[str] = ["RS256", "ES256", "EdDSA"]
    required_scopes: list[str] = []
    groups_claim: str = "groups"
    max_lifetime: Duration = 86400.0
    max_stale: Duration = 3600.0
    require_at_jwt: bool = False
    allow_networks: list[str] = []
    ca: str = ""


class Throttle(Model):
    """Failed authentications per source address."""

    failures: RateText = Rate(20, 60.0)


class Auth(Model):
    """How callers prove who they are, besides keys."""

    jwt: Jwt | None = None
    throttle: Throttle = Throttle()


class Limits(Model):
    """Caps per principal; ``connections`` is for the whole gateway."""

    requests: RateText = Rate(6000, 60.0)
    in_flight: int = Field(default=64, ge=1)
    sessions: int = Field(default=100, ge=1)
    connections: int = Field(default=4096, ge=1)
