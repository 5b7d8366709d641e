"""Certificates made for one test: an authority and what it signs."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key, in memory."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def spki(self) -> bytes:
        return self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def write(self, path: Path) -> str:
        """Write the certificate as PEM and return its path."""
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)

    def client_context(self, folder: Path, authority: Certificate) -> ssl.SSLContext:
        """A context that shows this certificate to a server of an authority."""
        context = ssl.create_default_context(cafile=authority.write(folder / "server-ca.pem"))
        context.load_cert_chain(self.write(folder / "client.pem"), self.write_key(folder / "client-key.pem"))
        return context

    def write_key(self, path: Path) -> str:
        """Write the key as PEM and return its path."""
        path.write_bytes(
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return str(path)

    def server_context(self, folder: Path) -> ssl.SSLContext:
        """A context that serves with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.write(folder / "cert.pem"), self.write_key(folder / "key.pem"))
        return context


def make(
    name: str,
    issuer: Certificate | None = None,
    *,
    days: int = 1,
    host: str = "127.0.0.1",
    names: Sequence[x509.GeneralName] = (),
    purpose: x509.ObjectIdentifier | None = None,
) -> Certificate:
    """Make a certificate; without ``issuer`` an authority that signs itself. Negative ``days``: it has expired.

    ``names`` replace the address as subject alternative names; ``purpose`` is all that it may be used for.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    signer = issuer.key if issuer is not None else key
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names or [x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is None:
        # Python 3.13 and later take no authority without it.
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    return Certificate(builder.sign(signer, hashes.SHA256()), key)
