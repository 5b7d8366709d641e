"""Sealed tokens: what the gateway hands to a client to keep, and must get back unread and unchanged.

A token is ``version ‖ key id ‖ nonce ‖ AES-256-GCM(expiry ‖ payload)`` in base64url without padding. Each is encrypted
under a key of its own, derived from half of its 24 random bytes (the construction of XAES-256-GCM), so the number of
tokens needs no limit. Purpose and context are authenticated, not carried: a token opens only where it was meant to.
Knows nothing of what is sealed.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MIN_KEY_BYTES: Final = 32
MAX_TOKEN_CHARS: Final = 1_400_000
"""Longest token that is looked at: a payload of about 1 MiB."""

_VERSION: Final = b"\x01"
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 24
_HEAD_BYTES: Final = len(_VERSION) + _ID_BYTES + _NONCE_BYTES
_TAG_BYTES: Final = 16
_EXPIRY_BYTES: Final = 8
_NEVER: Final = 0
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]+")


class SealError(Exception):
    """A token that is not ours, not for this use, or too old; which of them, nobody is told."""

    def __init__(self) -> None:
        super().__init__("token cannot be opened")


@dataclass(frozen=True, slots=True)
class _Key:
    """What is derived from one configured key."""

    id: bytes
    sealing: bytes
    hashing: bytes

    @classmethod
    def of(cls, secret: bytes) -> _Key:
        if len(secret) < MIN_KEY_BYTES:
            raise ValueError(f"a sealing key needs at least {MIN_KEY_BYTES} bytes")
        parts = HKDF(SHA256(), 68, salt=None, info=b"mcp-gateway-sealing-v1").derive(secret)
        return cls(parts[:_ID_BYTES], parts[4:36], parts[36:68])


class Sealer:
    """Seals with the first key, opens with any: put a new key in front, drop the old one when its tokens expired.

    ``clock`` gives wall-clock seconds, since tokens outlive processes.

    Raises:
        ValueError: no key, or one under 32 bytes.
    """

    def __init__(self, keys: Sequence[bytes], clock: Callable[[], float] = time.time) -> None:
        if not keys:
            raise ValueError("a sealer needs a key")
        derived = [_Key.of(secret) for secret in keys]
        self._first = derived[0]
        self._by_id = {key.id: key for key in reversed(derived)}
        self._clock = clock

    def seal(self, purpose: str, payload: bytes, context: bytes, ttl: float | None = None) -> str:
        """Return a token that opens with the same purpose and context, for ``ttl`` seconds (None: for ever)."""
        expires = _NEVER if ttl is None else max(int((self._clock() + ttl) * 1000), 1)
        return self._sealed(purpose, payload, context, secrets.token_bytes(_NONCE_BYTES), expires)

    def seal_alike(self, purpose: str, payload: bytes, context: bytes) -> str:
        """Return a token without expiry that is the same one for the same payload, purpose and context.

        Its random bytes are a keyed hash of all three, so that no two different payloads share them (as in SIV modes).
        """
        name = purpose.encode("utf-8")
        parts = [len(part).to_bytes(4, "big") + part for part in (b"nonce", name, context, payload)]
        nonce = hmac.digest(self._first.hashing, b"".join(parts), "sha256")[:_NONCE_BYTES]
        return self._sealed(purpose, payload, context, nonce, _NEVER)

    def _sealed(self, purpose: str, payload: bytes, context: bytes, nonce_bytes: bytes, expires: int) -> str:
        head = _VERSION + self._first.id + nonce_bytes
        cipher, nonce = _cipher(self._first, head)
        body = cipher.encrypt(nonce, expires.to_bytes(_EXPIRY_BYTES, "big") + payload, _bound(head, purpose, context))
        return base64.urlsafe_b64encode(head + body).rstrip(b"=").decode("ascii")

    def open(self, purpose: str, token: str, context: bytes) -> bytes:
        """Return the payload of a token.

        Raises:
            SealError: anything is wrong with it.
        """
        data = _decode(token)
        head = data[:_HEAD_BYTES]
        key = self._by_id.get(head[1 : 1 + _ID_BYTES])
        if key is None or not head.startswith(_VERSION):
            raise SealError
        cipher, nonce = _cipher(key, head)
        try:
            plain = cipher.decrypt(nonce, data[_HEAD_BYTES:], _bound(head, purpose, context))
        except InvalidTag:
            raise SealError from None
        expires = int.from_bytes(plain[:_EXPIRY_BYTES], "big")
        if expires != _NEVER and self._clock() * 1000 >= expires:
            raise SealError
        return plain[_EXPIRY_BYTES:]

    def is_newest(self, token: str) -> bool:
        """Tell whether a token was sealed with the first key, and need not be sealed again before an old one goes.

        Raises:
            SealError: it is no token.
        """
        return _decode(token)[len(_VERSION) : len(_VERSION) + _ID_BYTES] == self._first.id

    def keyed_hash(self, purpose: str, text: str, length: int = 8) -> str:
        """Return 8 to 64 hex digits that stand for a secret or an id in logs and cannot be guessed back."""
        if not 8 <= length <= 64:
            raise ValueError("a keyed hash has 8 to 64 digits")
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._first.hashing, message, "sha256").hex()[:length]


def _cipher(key: _Key, head: bytes) -> tuple[AESGCM, bytes]:
    nonce = head[-_NONCE_BYTES:]
    return AESGCM(hmac.digest(key.sealing, nonce[:12], "sha256")), nonce[12:]


def _bound(head: bytes, purpose: str, context: bytes) -> bytes:
    """Join what a token is bound to, so that no two different triples give the same bytes."""
    name = purpose.encode("utf-8")
    return head + len(name).to_bytes(4, "big") + name + context


def _decode(token: str) -> bytes:
    if len(token) > MAX_TOKEN_CHARS or _ALPHABET.fullmatch(token) is None:
        raise SealError
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise SealError from None
    # The unused bits of the last character are no second spelling of the same token.
    if base64.urlsafe_b64encode(data).rstrip(b"=") != token.encode("ascii"):
        raise SealError
    if len(data) < _HEAD_BYTES + _EXPIRY_BYTES + _TAG_BYTES:
        raise SealError
    return data
