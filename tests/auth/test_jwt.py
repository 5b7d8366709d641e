"""A token is read once, strictly, and believed only after its signature (S37, S40, S41)."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from gateway.auth.jwks import KeySet, VerifyingKey, read_key_set
from gateway.auth.jwt import MAX_TOKEN, BadToken, check_signature, looks_like_jwt, read
from tests.kit.tokens import claims, ec_key, ed_key, forged, jwk, key_set, rsa_key, segment, signed, token

ALLOWED = ("RS256", "ES256", "EdDSA")
KEYS = read_key_set(key_set(jwk(rsa_key()), jwk(ec_key(), "e"), jwk(ed_key(), "o")), ALLOWED)


def key(kid: str = "k1", keys: KeySet = KEYS) -> VerifyingKey:
    return next(key for key in keys.keys if key.kid == kid)


def why(text: str, *, require_access_type: bool = False) -> str:
    with pytest.raises(BadToken) as caught:
        check_signature(read(text, ALLOWED, require_access_type=require_access_type), key())
    return caught.value.detail


@pytest.mark.parametrize(
    ("text", "kid"),
    [
        (token(), "k1"),
        (token(key=ec_key(), algorithm="ES256", headers={"kid": "e"}), "e"),
        (token(key=ed_key(), algorithm="EdDSA", headers={"kid": "o"}), "o"),
    ],
)
def test_a_good_signature_vouches_for_the_claims(text: str, kid: str) -> None:
    found = read(text, ALLOWED, require_access_type=True)

    check_signature(found, key(kid))
    assert (found.kid, found.claims["sub"]) == (kid, "alice")


@pytest.mark.parametrize(
    "algorithm", ["none", "nOnE", "NONE", "", "HS256", "HS512", "RS512", "PS256", "ES256K", "rs256"]
)
def test_an_algorithm_that_is_not_allowed_is_not_tried(algorithm: str) -> None:
    """S37: also with nothing as the signature."""
    assert why(forged({"alg": algorithm, "kid": "k1"}, claims())) == "algorithm"
    assert why(forged({"alg": algorithm, "kid": "k1"}, claims(), b"\0")) == "algorithm"


@pytest.mark.parametrize("algorithm", [None, ["RS256"], {"a": 1}, 1, True])
def test_an_algorithm_that_is_no_text_is_refused(algorithm: Any) -> None:
    assert why(forged({"alg": algorithm}, claims())) == "algorithm"
    assert why(forged({"kid": "k1"}, claims())) == "algorithm"


def test_the_public_key_is_no_shared_secret() -> None:
    """S37: HS256 with the public key as its secret, in the form that the issuer publishes and as PEM."""
    pem = (
        rsa_key().public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    for secret in (pem, json.dumps(jwk(rsa_key())).encode()):
        header = segment({"alg": "HS256", "kid": "k1", "typ": "at+jwt"})
        text = f"{header}.{segment(claims())}"
        from_hmac = hmac.new(secret, text.encode(), "sha256").digest()
        assert why(f"{text}.{segment(from_hmac)}") == "algorithm"


def test_a_key_verifies_nothing_of_another_algorithm() -> None:
    text = token(key=ec_key(), algorithm="ES256", headers={"kid": "k1"})

    assert why(text) == "algorithm"
    assert why(forged({"alg": "ES256", "kid": "k1"}, claims(), b"\0" * 64)) == "algorithm"


def test_keys_that_a_token_brings_along_are_never_looked_at() -> None:
    """S37: ``jwk``, ``jku``, ``x5u`` and ``x5c``."""
    own = rsa_key("attacker")
    brought = {"jwk": jwk(own), "jku": "https://evil.example/jwks", "x5u": "https://evil.example/x", "x5c": ["AA=="]}

    assert why(token(key=own, headers=brought)) == "signature"
    check_signature(read(token(headers=brought), ALLOWED, require_access_type=True), key())


@pytest.mark.parametrize(
    "headers", [{"crit": ["b64"], "b64": False}, {"crit": ["exp"]}, {"crit": []}, {"b64": False}, {"b64": True}]
)
def test_extensions_that_must_be_understood_are_not(headers: dict[str, Any]) -> None:
    assert why(signed(headers, json.dumps(claims()).encode())) == "critical_extension"


@pytest.mark.parametrize("kid", ["", 7, ["k1"], {"a": 1}, "k" * 257, True])
def test_the_name_of_a_key_is_a_short_text(kid: Any) -> None:
    assert why(forged({"alg": "RS256", "kid": kid}, claims())) == "kid"


def test_a_changed_claim_or_another_signature_breaks_the_seal() -> None:
    head, _, seal = token().split(".")

    assert why(f"{head}.{segment(claims(sub='mallory'))}.{seal}") == "signature"
    assert why(f"{head}.{token({'sub': 'bob'}).split('.')[1]}.{seal}") == "signature"
    assert why(token(key=rsa_key("attacker"))) == "signature"
    assert why(f"{token()[:-6]}AAAAAA") == "signature"


@pytest.mark.parametrize(
    ("payload", "detail"),
    [
        (b'{"sub":"alice","sub":"root"}', "duplicate_key"),
        (b'{"sub":"alice","s\\u0075b":"root"}', "duplicate_key"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, "too_deep"),
        (b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", "too_deep"),
        (b'{"exp":NaN}', "not_a_number"),
        (b'{"exp":1e999}', "number_out_of_range"),
        (b"[]", "not_an_object"),
        (b'"alice"', "not_an_object"),
        (b"\xff\xfe", "byte_order_mark"),
        (b"{", "syntax"),
    ],
)
def test_claims_that_could_be_read_in_two_ways_are_refused_although_well_signed(payload: bytes, detail: str) -> None:
    """S41: before any cryptography."""
    assert why(signed({}, payload)) == detail


def test_the_same_goes_for_the_header() -> None:
    twice = segment(b'{"alg":"RS256","kid":"k1","alg":"none"}')

    assert why(f"{twice}.{segment(claims())}.{segment(b'x')}") == "duplicate_key"


def test_nesting_up_to_the_bound_is_fine() -> None:
    check_signature(read(signed({}, b'{"a":' * 16 + b"1" + b"}" * 16), ALLOWED, require_access_type=False), key())


def test_a_token_may_be_eight_kibibytes_and_no_longer() -> None:
    start = len(signed({}, b'{"pad":""}'))
    fitting = signed({}, b'{"pad":"%s"}' % (b"x" * ((MAX_TOKEN - start) * 3 // 4)))
    longer = signed({}, b'{"pad":"%s"}' % (b"x" * ((MAX_TOKEN - start) * 3 // 4 + 4)))

    assert MAX_TOKEN - 2 <= len(fitting) <= MAX_TOKEN < len(longer)
    assert read(fitting, ALLOWED, require_access_type=False).claims["pad"]
    assert why(longer) == "too_long"


@pytest.mark.parametrize(
    "text", ["", "a", "a.b", "a.b.c.d", "a..c", ".b.c", "a.b.", "a.b.c\n", "a b.c.d", "a.b.c=", "é.b.c"]
)
def test_anything_else_does_not_look_like_a_token(text: str) -> None:
    assert not looks_like_jwt(text)
    assert why(text) == "not_compact"


def test_a_token_is_known_by_its_form_alone() -> None:
    assert looks_like_jwt("a.b.c")
    assert why("a.b.c") in ("base64", "not_utf8", "syntax")


@pytest.mark.parametrize(
    ("kind", "accepted", "required"),
    [
        ("at+jwt", True, True),
        ("AT+JWT", True, True),
        ("application/at+jwt", True, True),
        ("JWT", True, False),
        (None, True, False),
        ("logout+jwt", False, False),
        ("dpop+jwt", False, False),
        ("secevent+jwt", False, False),
        ("", False, False),
        (7, False, False),
    ],
)
def test_only_access_tokens_are_access_tokens(kind: Any, accepted: bool, required: bool) -> None:
    """S40: with ``require_at_jwt`` an ID token of the same issuer opens nothing."""
    header = {} if kind is None else {"typ": kind}
    text = signed(header, json.dumps(claims(nonce="n", at_hash="h")).encode())
    for required_type, expected in ((False, accepted), (True, required)):
        if expected:
            check_signature(read(text, ALLOWED, require_access_type=required_type), key())
        else:
            assert why(text, require_access_type=required_type) == "type"
