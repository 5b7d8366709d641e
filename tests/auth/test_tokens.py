"""A token is verified once and remembered until it, its key or its terms end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.auth import jwt
from gateway.auth.issuer import Issuer, KeysUnavailable
from gateway.auth.jwks import KeySet, VerifyingKey, read_key_set
from gateway.auth.jwt import BadToken, Token
from gateway.auth.tokens import Tokens, tokens_of
from gateway.config.access import Jwt
from gateway.config.root import Config, View
from tests.kit.tokens import FixedIssuer, config, jwk, key_set, rsa_key, settings, token
from tests.kit.tokens import tokens as fresh_tokens


def keys(*entries: dict[str, Any]) -> KeySet:
    return read_key_set(key_set(*entries), settings().algorithms)


@dataclass
class Clock:
    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


def tokens(issuer: FixedIssuer, clock: Clock | None = None, most: int = 100) -> Tokens:
    return fresh_tokens(config(), issuer, clock or Clock(), most)


async def test_a_token_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    check = jwt.check_signature

    def counted(read: Token, key: VerifyingKey) -> None:
        checks.append(read.text)
        check(read, key)

    monkeypatch.setattr(jwt, "check_signature", counted)
    known, text = tokens(FixedIssuer()), token()

    first = await known.grant(text)
    assert all([await known.grant(text) is first for _ in range(5)])
    assert checks == [text]


async def test_two_tokens_of_one_subject_have_names_of_their_own_that_show_nothing() -> None:
    known = tokens(FixedIssuer())
    one, other = [await known.grant(token({"jti": number})) for number in "12"]

    assert one.principal.id == other.principal.id
    assert one.principal.credential != other.principal.credential
    assert len(one.principal.credential) == 8
    assert one.principal.credential not in token({"jti": "1"})


async def test_a_remembered_token_ends_when_it_says() -> None:
    clock = Clock()
    known, text = tokens(FixedIssuer(), clock), token()
    await known.grant(text)
    clock.now += 299
    await known.grant(text)
    clock.now += 2
    with pytest.raises(BadToken, match="expired"):
        await known.grant(text)
    assert len(known) == 0


async def test_a_key_that_leaves_the_set_takes_its_tokens_along() -> None:
    """S43."""
    issuer = FixedIssuer(keys(jwk(rsa_key()), jwk(rsa_key("other"), "k2")))
    known, old, new = tokens(issuer), token(), token(key=rsa_key("other"), headers={"kid": "k2"})
    await known.grant(old)
    await known.grant(new)
    issuer.keys = keys(jwk(rsa_key("other"), "k2"))

    assert (await known.grant(new)).principal.id
    with pytest.raises(BadToken, match="no_such_key"):
        await known.grant(old)


async def test_without_keys_nothing_is_remembered() -> None:
    issuer = FixedIssuer()
    known, text = tokens(issuer), token()
    await known.grant(text)
    issuer.keys = None
    with pytest.raises(KeysUnavailable):
        await known.grant(text)


async def test_the_memory_is_bounded_and_keeps_what_is_used() -> None:
    issuer = FixedIssuer()
    known = tokens(issuer, most=3)
    texts = [token({"jti": str(number)}) for number in range(4)]
    for text in (texts[0], texts[1], texts[2], texts[0], texts[3]):
        await known.grant(text)
    assert len(known) == 3
    before = len(issuer.asked)
    await known.grant(texts[0])
    assert len(issuer.asked) == before
    await known.grant(texts[1])
    assert len(issuer.asked) == before + 1


async def test_what_is_refused_is_not_remembered() -> None:
    known = tokens(FixedIssuer())
    for bad in (token({"aud": "https://x"}), token(key=rsa_key("attacker")), token(headers={"kid": "k9"}), "a.b.c"):
        with pytest.raises(BadToken):
            await known.grant(bad)
    assert len(known) == 0


async def test_garbage_never_reaches_the_issuer() -> None:
    """S42: only a token whose form is right asks for a key."""
    issuer = FixedIssuer()
    for bad in ("a.b.c", token(headers={"typ": "logout+jwt"}), "x" * 9000):
        with pytest.raises(BadToken):
            await tokens(issuer).grant(bad)
    assert issuer.asked == []


async def test_groups_that_cannot_be_read_are_none() -> None:
    grant = await tokens(FixedIssuer()).grant(token({"groups": {"a": 1}}))

    assert grant.principal.groups == frozenset()


async def test_a_config_with_the_same_terms_keeps_what_is_known_and_another_one_keeps_the_keys() -> None:
    clock, made = Clock(), []

    def make(wanted: Jwt) -> Issuer:
        made.append(wanted.issuer)
        return FixedIssuer()  # type: ignore[return-value]  # reason: an issuer of the test's own.

    first = tokens_of(config(), None, make, clock)
    assert first is not None
    await first.grant(token())
    assert tokens_of(config(), first, make, clock) is first

    changed = tokens_of(config(views={"v": View(include=[])}), first, make, clock)
    assert changed is not None
    assert (len(changed), changed.issuer) == (0, first.issuer)
    moved = tokens_of(config(settings(issuer="https://other.example")), first, make, clock)
    assert moved is not None
    assert moved.issuer is not first.issuer
    assert made == ["https://idp.example.com", "https://other.example"]
    assert tokens_of(Config(), first, make, clock) is None
