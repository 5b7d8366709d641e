"""Only keys that may verify are taken, each for what it was made for (S37, S42)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.auth.jwks import KeySetError, read_key_set
from tests.kit.tokens import ec_key, ed_key, jwk, key_set, rsa_key, segment

ALLOWED = ("RS256", "PS256", "ES256", "EdDSA")


def test_each_kind_of_key_is_for_its_own_algorithms() -> None:
    found = read_key_set(key_set(jwk(rsa_key(), "r"), jwk(ec_key(), "e"), jwk(ed_key(), "o")), ALLOWED)

    assert {key.kid: key.algorithms for key in found.keys} == {
        "r": {"RS256", "PS256"},
        "e": {"ES256"},
        "o": {"EdDSA"},
    }
    assert found.find("e", "ES256") is found.keys[1]
    assert found.find("e", "RS256") is None
    assert found.find("unknown", "RS256") is None


def test_a_key_is_held_to_the_algorithm_it_states_and_to_the_allowed_ones() -> None:
    stated = read_key_set(key_set(jwk(rsa_key(), "r", alg="PS256"), jwk(ec_key(), "e")), ["RS256", "PS256"])

    assert [(key.kid, set(key.algorithms)) for key in stated.keys] == [("r", {"PS256"})]


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": segment(b"s" * 64), "alg": "HS256", "kid": "k1"},
        {"kty": "oct", "k": segment(b"s" * 64), "alg": "RS256", "kid": "k1"},
        jwk(rsa_key("short", 1024)),
        jwk(rsa_key(), use="enc"),
        jwk(rsa_key(), key_ops=["encrypt"]),
        jwk(rsa_key(), key_ops="verify"),
        jwk(rsa_key(), alg="RSA-OAEP"),
        jwk(rsa_key(), alg="none"),
        jwk(rsa_key(), alg=["RS256"]),
        jwk(rsa_key(), d="AQAB"),
        jwk(rsa_key(), 7),
        jwk(rsa_key(), ""),
        jwk(rsa_key(), "k" * 257),
        jwk(rsa_key(), n=None),
        jwk(rsa_key(), e="!"),
        jwk(ec_key(), crv="secp256k1"),
        jwk(ec_key(), crv="P-521"),
        jwk(ec_key(), x="AA"),
        {"kty": "RSA", "kid": "k1"},
        jwk(rsa_key(), kty=["RSA"]),
        jwk(ec_key(), crv={"P-256": 1}),
        {},
        "no key",
        None,
    ],
)
def test_what_may_not_verify_is_left_out(entry: Any) -> None:
    good = jwk(rsa_key(), "good")

    assert [key.kid for key in read_key_set(key_set(entry, good), ALLOWED).keys] == ["good"]


def test_a_name_that_two_keys_claim_is_nobodys() -> None:
    twice = key_set(jwk(rsa_key(), "same"), jwk(rsa_key("other"), "same"), jwk(ec_key(), "one"))

    assert [key.kid for key in read_key_set(twice, ALLOWED).keys] == ["one"]


def test_a_token_without_a_name_finds_the_only_key_that_fits() -> None:
    unnamed = read_key_set(key_set(jwk(rsa_key(), None), jwk(ec_key(), "e")), ALLOWED)
    several = read_key_set(key_set(jwk(rsa_key(), "a"), jwk(rsa_key("other"), "b")), ALLOWED)

    assert unnamed.find(None, "RS256") is not None
    assert unnamed.find(None, "ES256") is not None
    assert several.find(None, "RS256") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": [], "keys": []}',
        b"\xff",
        json.dumps({"keys": [jwk(rsa_key(), str(number)) for number in range(101)]}).encode(),
    ],
)
def test_what_is_no_key_set_is_refused_as_a_whole(data: bytes) -> None:
    with pytest.raises(KeySetError):
        read_key_set(data, ALLOWED)


def test_a_hundred_keys_are_the_most() -> None:
    assert len(read_key_set(key_set(*(jwk(rsa_key(), str(n)) for n in range(100))), ALLOWED).keys) == 100
