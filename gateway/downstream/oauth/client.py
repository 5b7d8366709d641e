"""Who the gateway is at a token endpoint, and how it proves it there (RFC 6749 §2.3, RFC 7523 §2.2).

Builds forms and headers; sends nothing.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import quote_plus

import jwt

from gateway.config.server_auth import KeyedClient, OAuthClient
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.metadata import AuthorizationServer

ASSERTION_SECONDS: Final = 60
"""How long an assertion of ours is good: it is used at once, and once."""
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Method: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
_CONFIGURED: Final[Mapping[str, Method]] = {
    "basic": "client_secret_basic",
    "post": "client_secret_post",
    "none": "none",
}


@dataclass(frozen=True, slots=True)
class Key:
    """The private key of a client, as PEM, and what is said of it in assertions."""

    pem: str = field(repr=False)
    algorithm: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """One client as one authorization server knows it."""

    id: str
    method: Method = "none"
    secret: str = field(default="", repr=False)
    key: Key | None = field(default=None, repr=False)

    def prove(self, server: AuthorizationServer) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form members and the headers that say who asks.

        Raises:
            NoToken: the private key cannot be used.
        """
        match self.method:
            case "none":
                return {"client_id": self.id}, {}
            case "client_secret_post":
                return {"client_id": self.id, "client_secret": self.secret}, {}
            case "client_secret_basic":
                # Both are form-encoded first (RFC 6749 §2.3.1).
                pair = f"{quote_plus(self.id)}:{quote_plus(self.secret)}".encode()
                return {}, {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}
            case "private_key_jwt":
                return {
                    "client_id": self.id,
                    "client_assertion_type": _ASSERTION_TYPE,
                    "client_assertion": self._assertion(server.issuer),
                }, {}

    def _assertion(self, audience: str) -> str:
        assert self.key is not None
        now = int(time.time())
        claims = {
            "iss": self.id,
            "sub": self.id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": secrets.token_urlsafe(16),
        }
        head = {"kid": self.key.id} if self.key.id else None
        try:
            return jwt.encode(claims, self.key.pem, self.key.algorithm, headers=head)
        except (ValueError, TypeError, jwt.PyJWTError):
            raise NoToken("private_key is no PEM key that fits its algorithm") from None


def configured(way: OAuthClient, server: AuthorizationServer) -> Client | None:
    """Return the client that an operator registered; None where the gateway has to register itself."""
    if not way.client_id:
        return None
    secret = way.client_secret.get_secret_value()
    if isinstance(way, KeyedClient) and (pem := way.private_key.get_secret_value()):
        return Client(way.client_id, "private_key_jwt", key=Key(pem, way.algorithm, way.key_id))
    if way.auth_method != "auto":
        return Client(way.client_id, _CONFIGURED[way.auth_method], secret)
    return Client(way.client_id, supported_method(server) if secret else "none", secret)


def supported_method(server: AuthorizationServer) -> Method:
    """Choose how to send a secret; basic where nothing is said (RFC 8414 §2)."""
    known = server.auth_methods
    return "client_secret_post" if known and "client_secret_basic" not in known else "client_secret_basic"
