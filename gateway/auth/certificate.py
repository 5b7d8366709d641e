"""A verified client certificate to a principal. Pure: the chain was verified by TLS, before any byte of HTTP.

The identity is the one name of the first kind that is there: URI (SPIFFE), then DNS, then email. A certificate with
two names of that kind names nobody, for which one was meant is anybody's guess; common names and addresses never
count (S53).
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Final

from gateway.model.principal import Principal

KINDS: Final = ("URI", "DNS", "email")
MAX_NAME: Final = 255
LABEL: Final = "cert"
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_CREDENTIAL_LENGTH: Final = 8


class BadCertificate(ValueError):
    """A certificate that is valid and still names nobody; the text is a short constant."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A peer's certificate: subject alternative names as kind and text, its end in seconds since the epoch, its DER."""

    names: tuple[tuple[str, str], ...]
    expires: float
    der: bytes

    @property
    def thumbprint(self) -> str:
        """Base64url SHA-256 of the certificate, as ``x5t#S256`` writes it (RFC 8705 §3.1)."""
        return base64.urlsafe_b64encode(hashlib.sha256(self.der).digest()).rstrip(b"=").decode()


def principal_of(certificate: Certificate, now: float) -> Principal:
    """Return whom a certificate names; ``now`` in seconds since the epoch.

    Raises:
        BadCertificate: it has expired since the connection was made, or names nobody or more than one.
    """
    if certificate.expires <= now:
        raise BadCertificate("certificate_expired")
    kinds = [kind for kind in KINDS if any(kind == found for found, _ in certificate.names)]
    names = {name for kind, name in certificate.names if kinds and kind == kinds[0]}
    if len(names) != 1:
        raise BadCertificate("certificate_names_nobody" if not names else "certificate_names_several")
    (name,) = names
    if len(name) > MAX_NAME or not _VISIBLE.fullmatch(name):
        raise BadCertificate("certificate_name")
    return Principal(
        id=f"cert:{name.lower() if kinds[0] == 'DNS' else name}",
        kind="cert",
        label=LABEL,
        credential=hashlib.sha256(certificate.der).hexdigest()[:_CREDENTIAL_LENGTH],
        expires=certificate.expires,
    )
