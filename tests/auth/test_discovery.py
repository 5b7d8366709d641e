from __future__ import annotations

import json

import pytest

from gateway.auth.discovery import DiscoveryError, is_usable, keys_url, places, same_origin

ISSUER = "https://idp.example.com"


def test_an_issuers_metadata_is_looked_for_in_the_order_of_the_specification() -> None:
    assert places("https://idp.example.com") == [
        "https://idp.example.com/.well-known/oauth-authorization-server",
        "https://idp.example.com/.well-known/openid-configuration",
    ]
    assert places("https://idp.example.com/tenant1/") == [
        "https://idp.example.com/.well-known/oauth-authorization-server/tenant1",
        "https://idp.example.com/.well-known/openid-configuration/tenant1",
        "https://idp.example.com/tenant1/.well-known/openid-configuration",
    ]
    assert places("https://idp.example.com/") == places("https://idp.example.com")


def test_the_metadata_says_where_the_keys_are() -> None:
    document = json.dumps({"issuer": ISSUER, "jwks_uri": "https://keys.example.net/jwks"}).encode()

    assert keys_url(document, ISSUER) == "https://keys.example.net/jwks"


@pytest.mark.parametrize(
    "document",
    [
        b"<html>",
        b"[]",
        json.dumps({"jwks_uri": f"{ISSUER}/jwks"}).encode(),
        json.dumps({"issuer": f"{ISSUER}/", "jwks_uri": f"{ISSUER}/jwks"}).encode(),
        json.dumps({"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/jwks"}).encode(),
        json.dumps({"issuer": ISSUER}).encode(),
        json.dumps({"issuer": ISSUER, "jwks_uri": ["x"]}).encode(),
        json.dumps({"issuer": ISSUER, "jwks_uri": "http://idp.example.com/jwks"}).encode(),
        json.dumps({"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"}).encode(),
        json.dumps({"issuer": ISSUER, "jwks_uri": "https://user:pw@idp.example.com/jwks"}).encode(),
        json.dumps({"issuer": ISSUER, "jwks_uri": "https://[::1/jwks"}).encode(),
        b'{"issuer": "https://evil.example", "issuer": "https://idp.example.com", "jwks_uri": "https://x"}',
    ],
)
def test_metadata_of_another_issuer_or_without_a_safe_address_is_of_no_use(document: bytes) -> None:
    with pytest.raises(DiscoveryError):
        keys_url(document, ISSUER)


def test_plain_http_is_for_an_issuer_on_this_machine_and_its_own_origin() -> None:
    """S42."""
    local = "http://127.0.0.1:8081"

    assert is_usable(f"{local}/jwks", local)
    assert not is_usable("http://127.0.0.1:9999/jwks", local)
    assert not is_usable("http://idp.example.com/jwks", "http://idp.example.com")


def test_an_origin_is_scheme_host_and_port() -> None:
    assert same_origin("https://IDP.example.com:443/x", ISSUER)
    assert not same_origin("https://idp.example.com:8443/x", ISSUER)
    assert not same_origin("http://idp.example.com/x", ISSUER)
    assert not same_origin("https://idp.example.com@evil.example/x", ISSUER)
