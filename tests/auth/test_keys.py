"""Keys are digests, several per client, each with a last day (S33, S34)."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, date, datetime

import pytest
from pydantic import SecretStr

from gateway.auth.keys import KeyRing, credential_of, is_valid
from gateway.config.access import Client

NOON = datetime(2026, 12, 31, 12, tzinfo=UTC)
KEY_A = "mcpgw_abcd1234_" + "A" * 43
KEY_B = "mcpgw_efgh5678_" + "B" * 43


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def test_a_key_and_its_digest_stand_for_the_same_client() -> None:
    given_key = KeyRing.build({"ci-bot": Client(key=SecretStr(KEY_A), groups=["automation"])})
    given_digest = KeyRing.build({"ci-bot": Client(key_sha256=[sha256(KEY_A)], groups=["automation"])})
    assert given_key == given_digest
    holder = given_key.find(KEY_A)
    assert holder is not None
    assert holder.principal.id == "key:ci-bot"
    assert holder.principal.kind == "key"
    assert holder.principal.label == "ci-bot"
    assert holder.principal.groups == {"automation"}
    assert holder.principal.credential == sha256(KEY_A)[:8]


def test_several_keys_work_at_once_and_a_removed_one_does_not() -> None:
    """S34: rotation by adding the new key, moving over, removing the old one."""
    both = KeyRing.build({"ci-bot": Client(key_sha256=[sha256(KEY_A), sha256(KEY_B)])})
    a, b = both.find(KEY_A), both.find(KEY_B)
    assert a is not None
    assert b is not None
    assert a.principal.id == b.principal.id
    assert a.principal.credential != b.principal.credential
    after = KeyRing.build({"ci-bot": Client(key_sha256=[sha256(KEY_B)])})
    assert after.find(KEY_A) is None
    assert after.find(KEY_B) == b
    assert not after.holds(a.principal, NOON)
    assert after.holds(b.principal, NOON)


@pytest.mark.parametrize(
    "wrong",
    ["", KEY_A[:-1], KEY_A + "A", KEY_A.lower(), KEY_A[:15] + "C" * 43, " " + KEY_A, KEY_A + "\n", "\udcff" * 40, "é"],
)
def test_only_the_exact_key_is_found(wrong: str) -> None:
    ring = KeyRing.build({"ci-bot": Client(key=SecretStr(KEY_A))})
    assert ring.find(wrong) is None


def test_a_key_works_through_its_last_day_in_utc() -> None:
    ring = KeyRing.build({"ci-bot": Client(key=SecretStr(KEY_A), expires=date(2026, 12, 31))})
    holder = ring.find(KEY_A)
    assert holder is not None
    assert is_valid(holder, datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
    assert not is_valid(holder, datetime(2027, 1, 1, tzinfo=UTC))
    assert ring.holds(holder.principal, NOON)
    assert not ring.holds(holder.principal, datetime(2027, 1, 1, tzinfo=UTC))


def test_a_key_written_twice_for_one_client_is_one_key() -> None:
    twice = Client(key=SecretStr(KEY_A), key_sha256=[sha256(KEY_A)])
    assert len(KeyRing.build({"a": twice}).holders) == 1


def test_no_key_can_be_read_from_the_ring() -> None:
    """S33, S156."""
    key = f"canary_{secrets.token_hex(32)}"
    assert "canary" not in repr(KeyRing.build({"bot": Client(key=SecretStr(key))}))
    assert len(credential_of(hashlib.sha256(key.encode()).digest())) == 8
