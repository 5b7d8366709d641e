"""TLS towards clients, and the certificate a client proved with it. Knows sockets, not who a certificate names.

A client may come without a certificate: then its requests have to prove themselves. One that shows a certificate which
does not verify gets no connection (S53).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web
from cryptography import x509

from gateway.auth.certificate import Certificate
from gateway.config.root import Listen
from gateway.errors import ConfigError, Problem

Refused = Callable[[str], None]
"""Takes why a client's certificate was not accepted, a short constant."""

_REASONS: Final = {
    10: "certificate_expired",
    9: "certificate_not_yet_valid",
    18: "certificate_self_signed",
    19: "certificate_self_signed",
    20: "certificate_unknown_issuer",
    21: "certificate_unknown_issuer",
    26: "certificate_purpose",
}
"""OpenSSL's verification results by their meaning here."""


class Renewable(ssl.SSLContext):
    """A context that stands for another one, which may be replaced: connections made from then on are the new one's.

    Nothing of a context in use is changed, so a file that is broken, or was half replaced, harms nothing; and what a
    client proved to the old one, it cannot resume a session with.
    """

    _inner: ssl.SSLContext

    @classmethod
    def of(cls, inner: ssl.SSLContext) -> Renewable:
        """Make one that stands for ``inner``."""
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made._inner = inner
        return made

    def renew(self, inner: ssl.SSLContext) -> None:
        """Stand for another one from now on."""
        self._inner = inner

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection; event loops do so for each that they accept."""
        return self._inner.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def context(listen: Listen, refused: Refused) -> ssl.SSLContext | None:
    """Build the context of the endpoint as its files are now; None where it serves without TLS.

    Raises:
        ConfigError: a certificate, key or authority cannot be used.
    """
    tls = listen.tls
    if tls is None:
        return None
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        made.load_cert_chain(tls.cert, tls.key, password=_no_password)
    except _Encrypted:
        text, hint = "the key is encrypted", "give a key without a password, readable for the gateway alone"
        raise ConfigError([Problem(text, path="listen.tls.key", hint=hint)]) from None
    except (OSError, ValueError) as error:
        raise _unusable("certificate or key", error, "listen.tls") from None
    if tls.client_ca:
        try:
            made.load_verify_locations(cafile=tls.client_ca)
        except (OSError, ValueError) as error:
            raise _unusable("authorities of clients", error, "listen.tls.client_ca") from None
        made.verify_mode = ssl.CERT_OPTIONAL
        made.sslobject_class = _reporting(refused)
    return made


def expires(listen: Listen) -> float:
    """Return when the endpoint's own certificate ends, in Unix time; 0 without TLS, or where that is unclear.

    Meant for a context that was made: files that cannot be used have been reported by then.
    """
    if listen.tls is None:
        return 0.0
    try:
        own, *_ = x509.load_pem_x509_certificates(Path(listen.tls.cert).read_bytes())
    except (OSError, ValueError):
        return 0.0
    return own.not_valid_after_utc.timestamp()


class _Encrypted(ValueError):
    """A key wants a password."""


def _no_password() -> str:
    """Refuse to have one: OpenSSL would ask the terminal by itself, and the event loop would wait for an answer."""
    raise _Encrypted


def _unusable(what: str, error: OSError | ValueError, path: str) -> ConfigError:
    why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
    return ConfigError([Problem(f"{what} cannot be used: {why}", path=path)])


def _reporting(refused: Refused) -> type[ssl.SSLObject]:
    class Reporting(ssl.SSLObject):
        """A TLS connection whose failed verification is told; nobody else would hear of it."""

        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except ssl.SSLCertVerificationError as error:
                refused(_REASONS.get(error.verify_code, "certificate"))
                raise

    return Reporting


def certificate_of(request: web.BaseRequest) -> Certificate | None:
    """Return the verified certificate of a request's connection, None where it came with none."""
    transport = request.get_extra_info("ssl_object")
    found = transport.getpeercert() if isinstance(transport, ssl.SSLObject) else None
    der = transport.getpeercert(binary_form=True) if found else None
    if not found or der is None:
        return None
    names = found.get("subjectAltName", ())
    pairs = tuple((str(name[0]), str(name[1])) for name in names if len(name) == 2)
    return Certificate(pairs, float(ssl.cert_time_to_seconds(str(found["notAfter"]))), der)
