"""Tokens and key sets of an issuer that a test owns, good ones and every kind of bad."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from gateway.auth.authenticate import Authenticator
from gateway.auth.claims import Terms
from gateway.auth.issuer import KeysUnavailable
from gateway.auth.jwks import KeySet, VerifyingKey, read_key_set
from gateway.auth.tokens import Tokens
from gateway.config.access import Auth, Jwt
from gateway.config.root import Config, Listen, LoadedConfig

Json: TypeAlias = dict[str, Any]
PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

ISSUER = "https://idp.example.com"
AUDIENCE = "https://mcp.example.com/mcp"


@cache
def rsa_key(name: str = "", bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return an RSA key, always the same for a name: making one is slow."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(name: str = "") -> ec.EllipticCurvePrivateKey:
    """Return a P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key(name: str = "") -> ed25519.Ed25519PrivateKey:
    """Return an Ed25519 key."""
    return ed25519.Ed25519PrivateKey.generate()


def jwk(key: PrivateKey, kid: object = "k1", **members: Any) -> Json:
    """Return the public half of a key as the issuer publishes it."""
    match key:
        case rsa.RSAPrivateKey():
            found = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case ec.EllipticCurvePrivateKey():
            found = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case _:
            found = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    found.pop("key_ops", None)
    return {**found, **({"kid": kid} if kid is not None else {}), **members}


def key_set(*entries: Json) -> bytes:
    """Return a JWK set; by default of the key that ``token`` signs with."""
    return json.dumps({"keys": list(entries or [jwk(rsa_key())])}).encode()


def claims(**changes: Any) -> Json:
    """Return the claims of a good token, changed; None leaves one out."""
    now = int(time.time())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, "client_id": "app"}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def token(
    changes: Mapping[str, Any] | None = None,
    key: PrivateKey | None = None,
    algorithm: str = "RS256",
    headers: Mapping[str, Any] | None = None,
) -> str:
    """Return a signed token; by default a good one under ``k1``."""
    told = {"kid": "k1", "typ": "at+jwt", **(headers or {})}
    header = {name: value for name, value in told.items() if value is not None}
    return jwt.encode(claims(**(changes or {})), key or rsa_key(), algorithm, headers=header)


def segment(value: object) -> str:
    """Write one part of a token as it is, JSON unless it is bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: object, payload: object, signature: bytes = b"x" * 256) -> str:
    """Return a token of any header and payload, signed by nobody."""
    return ".".join((segment(header), segment(payload), segment(signature)))


def signed(header: Json, payload: bytes, key: rsa.RSAPrivateKey | None = None) -> str:
    """Return a token whose payload is exactly these bytes, well signed."""
    text = f"{segment({'alg': 'RS256', 'kid': 'k1', **header})}.{segment(payload)}"
    signature = RSAAlgorithm(RSAAlgorithm.SHA256).sign(text.encode(), key or rsa_key())
    return f"{text}.{segment(signature)}"


def settings(**fields: Any) -> Jwt:
    """Return ``auth.jwt`` of this issuer."""
    return Jwt(**{"issuer": ISSUER, "audience": AUDIENCE, **fields})


def config(jwt_: Jwt | None = None, **sections: Any) -> Config:
    """Return a config that accepts tokens of this issuer."""
    listen = {"port": 0, "public_url": AUDIENCE, **sections.pop("listen", {})}
    return Config(listen=Listen(**listen), auth=Auth(jwt=jwt_ or settings()), **sections)


@dataclass
class FixedIssuer:
    """Has the keys a test gives it; None: it cannot be reached."""

    keys: KeySet | None = field(default_factory=lambda: read_key_set(key_set(), settings().algorithms))
    asked: list[str | None] = field(default_factory=list)

    def current(self) -> KeySet | None:
        return self.keys

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        self.asked.append(kid)
        if self.keys is None:
            raise KeysUnavailable("none")
        return self.keys.find(kid, algorithm)

    def serves(self, wanted: Jwt) -> bool:
        return wanted.issuer == ISSUER


def tokens(
    config_: Config, issuer: FixedIssuer | None = None, now: Callable[[], float] = time.time, most: int = 100
) -> Tokens:
    """Return what judges tokens under a config, without any network."""
    terms = Terms.of(config_)
    assert terms is not None
    return Tokens(terms, issuer or FixedIssuer(), now, most)  # type: ignore[arg-type]  # reason: the test's own issuer.


def authenticator(config_: Config, issuer: FixedIssuer | None = None) -> Authenticator:
    """Return what judges callers under a config that accepts tokens."""
    return Authenticator(loaded(config_), lambda: datetime.now(UTC), tokens(config_, issuer))


def loaded(config_: Config) -> LoadedConfig:
    """Return a config as if it had been read."""
    return LoadedConfig(config=config_, path=Path("gateway.yaml"), digest="00")
