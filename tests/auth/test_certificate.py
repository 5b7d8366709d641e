"""S53: one exact name of a verified certificate, or nobody."""

from __future__ import annotations

import base64
import hashlib

import pytest

from gateway.auth.certificate import BadCertificate, Certificate, principal_of

NOW = 1000.0


def certificate(*names: tuple[str, str], expires: float = 2000.0) -> Certificate:
    return Certificate(names, expires, b"der")


@pytest.mark.parametrize(
    ("names", "identifier"),
    [
        ([("URI", "spiffe://example.org/ci"), ("DNS", "ci.example.org")], "cert:spiffe://example.org/ci"),
        ([("DNS", "CI.Example.org"), ("email", "ci@example.org")], "cert:ci.example.org"),
        ([("email", "Ci@example.org"), ("IP Address", "10.0.0.1")], "cert:Ci@example.org"),
        ([("DNS", "ci.example.org"), ("DNS", "ci.example.org")], "cert:ci.example.org"),
    ],
)
def test_the_name_of_the_first_kind_that_is_there_counts(names: list[tuple[str, str]], identifier: str) -> None:
    principal = principal_of(certificate(*names), NOW)

    assert (principal.id, principal.kind, principal.label, principal.expires) == (identifier, "cert", "cert", 2000.0)
    assert principal.credential == hashlib.sha256(b"der").hexdigest()[:8]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([], "certificate_names_nobody"),
        ([("IP Address", "10.0.0.1")], "certificate_names_nobody"),
        ([("othername", "<unsupported>")], "certificate_names_nobody"),
        ([("DNS", "a.example.org"), ("DNS", "b.example.org")], "certificate_names_several"),
        ([("URI", "spiffe://a"), ("URI", "spiffe://b"), ("DNS", "one")], "certificate_names_several"),
        ([("DNS", "a b")], "certificate_name"),
        ([("DNS", "a\n")], "certificate_name"),
        ([("URI", "x" * 256)], "certificate_name"),
    ],
)
def test_no_name_or_several_are_nobodys(names: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(BadCertificate, match=f"^{reason}$"):
        principal_of(certificate(*names), NOW)


def test_a_certificate_that_expires_on_an_open_connection_proves_nothing_any_more() -> None:
    with pytest.raises(BadCertificate, match="certificate_expired"):
        principal_of(certificate(("DNS", "ci"), expires=NOW), NOW)


def test_the_thumbprint_is_written_as_tokens_write_it() -> None:
    assert base64.urlsafe_b64decode(certificate().thumbprint + "=") == hashlib.sha256(b"der").digest()
    assert "=" not in certificate().thumbprint
