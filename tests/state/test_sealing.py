"""Sealed tokens: open only where they were meant to, while they last, and tell nothing else."""

from __future__ import annotations

import base64
import hashlib

import pytest

from gateway.state.sealing import MAX_TOKEN_CHARS, Sealer, SealError

OLD, NEW = b"o" * 32, b"n" * 32


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def flip(token: str, position: int) -> str:
    """Change one character to another one of the alphabet."""
    other = "A" if token[position] != "A" else "B"
    return token[:position] + other + token[position + 1 :]


def test_a_token_opens_with_the_same_purpose_and_context() -> None:
    sealer = Sealer([NEW])
    token = sealer.seal("request_state", b"payload \x00\xff", b"alice|tools/call")

    assert sealer.open("request_state", token, b"alice|tools/call") == b"payload \x00\xff"
    assert Sealer([NEW]).open("request_state", token, b"alice|tools/call") == b"payload \x00\xff"


def test_an_empty_payload_is_a_payload() -> None:
    sealer = Sealer([NEW])

    assert sealer.open("cursor", sealer.seal("cursor", b"", b""), b"") == b""


def test_two_tokens_for_the_same_are_not_the_same() -> None:
    sealer = Sealer([NEW])

    assert sealer.seal("cursor", b"same", b"") != sealer.seal("cursor", b"same", b"")


def test_a_token_that_is_sealed_alike_is_the_same_for_the_same_and_for_nothing_else() -> None:
    sealer = Sealer([NEW, OLD])
    token = sealer.seal_alike("task", b"same", b"alice")

    assert token == sealer.seal_alike("task", b"same", b"alice")
    assert sealer.open("task", token, b"alice") == b"same"
    others = [("task", b"same", b"bob"), ("task", b"other", b"alice"), ("tas", b"ksame", b"alice")]
    different = {
        token,
        *(sealer.seal_alike(*each) for each in others),
        Sealer([OLD]).seal_alike("task", b"same", b"alice"),
    }
    assert len(different) == 5
    assert len({each[:38] for each in different}) == 5, "no two share their random bytes"
    with pytest.raises(SealError):
        sealer.open("task", token, b"bob")


def test_a_token_shows_nothing_of_its_payload_and_travels_in_a_url() -> None:
    token = Sealer([NEW]).seal("cursor", b"secret-canary", b"context-canary")
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))

    assert b"canary" not in data
    assert token.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    ("purpose", "context"),
    [("ticket", b"alice"), ("cursor", b"bob"), ("cursor", b""), ("cursoral", b"ice"), ("", b"cursoralice")],
)
def test_a_token_for_another_use_does_not_open(purpose: str, context: bytes) -> None:
    sealer = Sealer([NEW])
    token = sealer.seal("cursor", b"payload", b"alice")

    with pytest.raises(SealError):
        sealer.open(purpose, token, context)


def test_every_changed_character_is_noticed() -> None:
    """S75, T44: one edited byte of a cursor is refused."""
    sealer = Sealer([NEW])
    token = sealer.seal("cursor", b"page 2", b"alice")

    for position in range(len(token)):
        with pytest.raises(SealError):
            sealer.open("cursor", flip(token, position), b"alice")


def test_every_other_spelling_of_a_token_is_refused() -> None:
    sealer = Sealer([NEW])
    token = sealer.seal("cursor", b"12", b"")
    spellings = [token + "=", token + "==", token + "\n", " " + token, token[:-1], token + "A", "", "=", "é", "A" * 50]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spellings += [token[:-1] + char for char in alphabet if char != token[-1]]

    for spelling in spellings:
        with pytest.raises(SealError):
            sealer.open("cursor", spelling, b"")


def test_a_token_beyond_any_payload_is_not_even_decoded() -> None:
    with pytest.raises(SealError):
        Sealer([NEW]).open("cursor", "A" * (MAX_TOKEN_CHARS + 1), b"")


def test_all_refusals_look_alike() -> None:
    clock = Clock()
    sealer = Sealer([NEW], clock)
    expired, foreign = sealer.seal("cursor", b"1", b"", ttl=1), Sealer([OLD]).seal("cursor", b"1", b"")
    clock.now += 2
    messages = set()
    for token in (expired, foreign, "rubbish", flip(expired, 60)):
        with pytest.raises(SealError) as refused:
            sealer.open("cursor", token, b"")
        messages.add(str(refused.value))

    assert messages == {"token cannot be opened"}


def test_a_token_lasts_as_long_as_it_was_given() -> None:
    clock = Clock()
    sealer = Sealer([NEW], clock)
    token = sealer.seal("cursor", b"1", b"", ttl=60)
    clock.now += 59.5
    assert sealer.open("cursor", token, b"") == b"1"

    clock.now += 0.5
    with pytest.raises(SealError):
        sealer.open("cursor", token, b"")


def test_a_token_without_an_end_does_not_end() -> None:
    clock = Clock()
    sealer = Sealer([NEW], clock)
    token = sealer.seal("cursor", b"1", b"")
    clock.now += 10 * 365 * 86400

    assert sealer.open("cursor", token, b"") == b"1"


def test_a_token_that_is_over_at_once_is_not_one_for_ever() -> None:
    clock = Clock()
    clock.now = 0.0
    sealer = Sealer([NEW], clock)
    token = sealer.seal("cursor", b"1", b"", ttl=0)
    clock.now = 0.002

    with pytest.raises(SealError):
        sealer.open("cursor", token, b"")


def test_rotation_seals_with_the_new_key_and_opens_both() -> None:
    before, both, after = Sealer([OLD]), Sealer([NEW, OLD]), Sealer([NEW])
    old_token = before.seal("cursor", b"old", b"")
    new_token = both.seal("cursor", b"new", b"")

    assert both.open("cursor", old_token, b"") == b"old"
    assert after.open("cursor", new_token, b"") == b"new"
    for sealer, token in ((after, old_token), (before, new_token)):
        with pytest.raises(SealError):
            sealer.open("cursor", token, b"")


def test_a_sealer_needs_a_key_worth_the_name() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        Sealer([])
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer([b"short"])


def test_a_keyed_hash_is_stable_and_tells_purposes_and_keys_apart() -> None:
    """S153: ids and tokens appear as 8 characters of a keyed hash."""
    sealer = Sealer([NEW, OLD])
    token = sealer.keyed_hash("session", "abc")

    assert token == Sealer([NEW]).keyed_hash("session", "abc")
    assert len(token) == 8
    assert int(token, 16) >= 0
    others = {
        sealer.keyed_hash("session", "abd"),
        sealer.keyed_hash("key", "abc"),
        Sealer([OLD]).keyed_hash("session", "abc"),
        hashlib.sha256(b"abc").hexdigest()[:8],
    }
    assert token not in others
    assert sealer.keyed_hash("session", "abc", 32).startswith(token)
    assert sealer.keyed_hash("session", "\ud800") != token


@pytest.mark.parametrize("length", [0, 7, 65])
def test_a_keyed_hash_is_neither_guessable_nor_endless(length: int) -> None:
    with pytest.raises(ValueError, match="8 to 64"):
        Sealer([NEW]).keyed_hash("session", "abc", length)


def test_what_an_older_key_sealed_is_told_from_what_the_newest_did() -> None:
    old, both = Sealer([b"o" * 32]), Sealer([b"n" * 32, b"o" * 32])
    assert not both.is_newest(old.seal("p", b"", b""))
    assert both.is_newest(both.seal("p", b"", b""))
    with pytest.raises(SealError):
        both.is_newest("nonsense!")
