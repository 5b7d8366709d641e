"""A compact JWT to the claims that its signature vouches for. Pure; the signature itself is checked by PyJWT.

Everything that costs nothing is judged before any cryptography, and what is read is what was signed, byte for byte.
Where to find a key, a token may not say: ``jku``, ``x5u`` and ``jwk`` in it are never looked at (S37, S41).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import jwt

from gateway.auth.jwks import MAX_KID, VerifyingKey
from gateway.config.token_rules import ALGORITHMS
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

MAX_TOKEN: Final = 8192
MAX_DEPTH: Final = 16
_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_ACCESS_TYPE: Final = "at+jwt"
_TYPES: Final = (_ACCESS_TYPE, "jwt")
_JWS: Final = jwt.PyJWS(algorithms=ALGORITHMS)


class BadToken(ValueError):
    """A token that proves nothing. ``reason`` is a metric's label, ``detail`` says more; both are short constants."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it was read; ``claims`` are nobody's word until ``check_signature`` has passed."""

    text: str
    algorithm: str
    kid: str | None
    claims: Object
    payload: bytes


def looks_like_jwt(text: str) -> bool:
    """Tell a JWT from other credentials, without reading it."""
    return _COMPACT.fullmatch(text) is not None


def read(text: str, algorithms: Collection[str], *, require_access_type: bool) -> Token:
    """Read a token without believing it.

    Raises:
        BadToken: not in the compact form, too long, JSON that two readers could read differently, an algorithm that
            is not allowed, extensions that must be understood, or a type that is not an access token's.
    """
    if len(text) > MAX_TOKEN:
        raise BadToken("malformed", "too_long")
    match = _COMPACT.fullmatch(text)
    if match is None:
        raise BadToken("malformed", "not_compact")
    header, (claims, payload) = _object(match[1])[0], _object(match[2])
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise BadToken("signature", "algorithm")
    if "crit" in header or "b64" in header:
        raise BadToken("malformed", "critical_extension")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= MAX_KID):
        raise BadToken("malformed", "kid")
    _check_type(header.get("typ"), require_access_type)
    return Token(text, algorithm, kid if isinstance(kid, str) else None, claims, payload)


def check_signature(token: Token, key: VerifyingKey) -> None:
    """Have PyJWT check a token's signature with a key of the issuer.

    Raises:
        BadToken: the key is for another algorithm, or the signature is not by it.
    """
    if token.algorithm not in key.algorithms:
        raise BadToken("signature", "algorithm")
    try:
        verified = _JWS.decode_complete(token.text, key=key.key, algorithms=[token.algorithm])
    except jwt.PyJWTError:
        raise BadToken("signature", "signature") from None
    if verified["payload"] != token.payload:
        raise BadToken("signature", "payload")


def _check_type(stated: Value, require_access_type: bool) -> None:
    """Judge ``typ``: other kinds of JWTs of the same issuer are no access tokens (RFC 8725 §3.11, RFC 9068 §4)."""
    if stated is None and not require_access_type:
        return
    kind = stated.lower().removeprefix("application/") if isinstance(stated, str) else ""
    if kind not in _TYPES or (require_access_type and kind != _ACCESS_TYPE):
        raise BadToken("claims", "type")


def _object(segment: str) -> tuple[Object, bytes]:
    """Read one segment as the JSON object it must be."""
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
        value = rawjson.decode_strict(data)
    except JsonError as error:
        raise BadToken("malformed", error.reason) from None
    except ValueError:
        raise BadToken("malformed", "base64") from None
    if not isinstance(value, dict):
        raise BadToken("malformed", "not_an_object")
    if _deeper_than(value, MAX_DEPTH):
        raise BadToken("malformed", "too_deep")
    return value, data


def _deeper_than(value: Value, depth: int) -> bool:
    """Tell whether values are nested over a depth; the reader has bounded what this walks."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return False
    return depth == 0 or any(_deeper_than(item, depth - 1) for item in inner)
