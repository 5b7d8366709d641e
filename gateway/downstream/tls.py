"""TLS towards servers: verification always on, an own authority or pinned keys on top (S120).

A pinned key is checked inside the handshake, so nothing is sent to a server that has another one.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from typing import Final

from gateway.config.servers import ServerTls
from gateway.errors import DownstreamError, Reason

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_FIELDS_BEFORE_KEY: Final = 5
"""serialNumber, signature, issuer, validity, subject (RFC 5280 §4.1)."""


class NotPinned(ssl.SSLCertVerificationError):
    """The key of the server is not among the pinned ones; ``digest`` is its own."""

    def __init__(self, digest: str) -> None:
        super().__init__(1, "the server's key is not among tls.spki_sha256")
        self.digest = digest


def context(tls: ServerTls, seen: Callable[[str], None]) -> ssl.SSLContext:
    """Build the context for one server; ``seen`` gets the key digest of each server that was reached.

    Raises:
        DownstreamError: the file of authorities cannot be used.
    """
    try:
        made = ssl.create_default_context(cafile=tls.ca or None)
    except (OSError, ssl.SSLError):
        raise DownstreamError(Reason.UNAVAILABLE, "tls.ca cannot be read as certificates") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure:
        # Only ever dialed on loopback, see ``network``.
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    made.sslobject_class = _checking(frozenset(pin.lower() for pin in tls.spki_sha256), seen)
    return made


def _checking(pins: frozenset[str], seen: Callable[[str], None]) -> type[ssl.SSLObject]:
    class Checked(ssl.SSLObject):
        """A TLS connection that is established only with a key that is accepted."""

        def do_handshake(self) -> None:
            super().do_handshake()
            certificate = self.getpeercert(binary_form=True)
            digest = key_digest(certificate) if certificate is not None else None
            if pins and digest not in pins:
                raise NotPinned(digest or "")
            if digest is not None:
                seen(digest)

    return Checked


def key_digest(certificate: bytes) -> str | None:
    """Hex SHA-256 of a DER certificate's SubjectPublicKeyInfo; None where it is no certificate."""
    try:
        body, _ = _open(certificate, 0)
        at, _ = _open(certificate, body)
        if certificate[at] == _VERSION:
            at = _open(certificate, at)[1]
        for _ in range(_FIELDS_BEFORE_KEY):
            at = _open(certificate, at)[1]
        _, end = _open(certificate, at)
    except IndexError:
        return None
    if certificate[at] != _SEQUENCE or end > len(certificate):
        return None
    return hashlib.sha256(certificate[at:end]).hexdigest()


def _open(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the DER element at ``at`` starts and where the element ends (X.690 §8.1)."""
    length, start = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[start : start + size], "big")
        start += size
    return start, start + length
