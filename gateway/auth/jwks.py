"""A JWK set of an issuer to keys that may verify, each with the algorithms it may be used for. Pure.

The key decides what it is good for, never the token: a symmetric key, a short one, one made for something else or one
that two entries claim is not taken at all (RFC 8725 §3.1 and §3.2, S37, S42).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

import jwt
from jwt.algorithms import AllowedPublicKeys

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object

MAX_KEYS: Final = 100
MAX_KID: Final = 256
MIN_RSA_BITS: Final = 2048

_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_FITTING: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}
"""Key type and curve to algorithms (RFC 7518 §3.1, RFC 8037 §3.1)."""

PublicKey: TypeAlias = AllowedPublicKeys


class KeySetError(ValueError):
    """No key set that can be read; the text is safe to log."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """One public key. ``kid`` is None where the issuer gave it no name."""

    kid: str | None
    key: PublicKey
    algorithms: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """The usable keys of one document; ``digest`` is that of its bytes."""

    keys: tuple[VerifyingKey, ...]
    digest: bytes

    def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """Return the key that a token names; without a name the only one that fits its algorithm."""
        fitting = [key for key in self.keys if algorithm in key.algorithms and (kid is None or key.kid == kid)]
        return fitting[0] if len(fitting) == 1 else None


def read_key_set(data: bytes, allowed: Collection[str]) -> KeySet:
    """Read a JWK set (RFC 7517 §5); entries that may not verify are left out.

    Raises:
        KeySetError: no JSON, no key set, or more than 100 keys.
    """
    try:
        document = rawjson.decode_strict(data)
    except JsonError as error:
        raise KeySetError(f"the key set is no JSON: {error.reason}") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise KeySetError("the key set has no list of keys")
    if len(entries) > MAX_KEYS:
        raise KeySetError(f"the key set has more than {MAX_KEYS} keys")
    found = [key for entry in entries if isinstance(entry, dict) and (key := _read(entry, allowed)) is not None]
    names = Counter(key.kid for key in found if key.kid is not None)
    usable = tuple(key for key in found if key.kid is None or names[key.kid] == 1)
    return KeySet(usable, hashlib.sha256(data).digest())


def _read(entry: Object, allowed: Collection[str]) -> VerifyingKey | None:
    kid = entry.get("kid")
    if "d" in entry or "k" in entry or not _is_for_signatures(entry) or not _is_name(kid):
        return None
    algorithms = _FITTING.get((_word(entry, "kty"), _word(entry, "crv")), frozenset()) & frozenset(allowed)
    stated = entry.get("alg")
    if stated is not None:
        algorithms &= {stated if isinstance(stated, str) else ""}
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK(dict(entry), min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if entry.get("kty") == "RSA" and key.key_size < MIN_RSA_BITS:
        return None
    return VerifyingKey(kid if isinstance(kid, str) else None, key, algorithms)


def _is_for_signatures(entry: Object) -> bool:
    """Tell whether an entry may verify at all (RFC 7517 §4.2 and §4.3)."""
    operations = entry.get("key_ops", ["verify"])
    return entry.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _word(entry: Object, member: str) -> str:
    value = entry.get(member, "")
    return value if isinstance(value, str) else "?"


def _is_name(kid: object) -> bool:
    return kid is None or (isinstance(kid, str) and 0 < len(kid) <= MAX_KID)
