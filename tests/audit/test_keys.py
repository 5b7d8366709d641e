"""Keyed digests: comparable, not guessable, and named after their key (S168)."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.audit.keys import KEY_FILE, AuditKey, load_key
from gateway.errors import ConfigError


def test_equal_values_have_equal_digests_and_nothing_else_does() -> None:
    key, other = AuditKey.of(b"a" * 32), AuditKey.of(b"b" * 32)

    assert key.digest("arguments", b"{}") == AuditKey.of(b"a" * 32).digest("arguments", b"{}")
    assert len({key.digest("arguments", b"{}"), key.digest("result", b"{}"), other.digest("arguments", b"{}")}) == 3


def test_a_digest_names_the_key_that_made_it() -> None:
    key = AuditKey.of(b"a" * 32)
    name, _, digits = key.digest("arguments", b"{}").partition(":")

    assert name == key.id
    assert len(bytes.fromhex(digits)) == 32
    assert len(key.digest("session", b"s", 8)) == len(key.id) + 9
    assert key.id != AuditKey.of(b"b" * 32).id


def test_a_key_does_not_show_itself() -> None:
    assert repr(AuditKey.of(b"a" * 32)) == f"AuditKey({AuditKey.of(b'a' * 32).id})"


def test_the_key_is_kept_in_the_state_directory(tmp_path: Path) -> None:
    first = load_key(tmp_path)

    assert load_key(tmp_path) == first
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_key(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)

    with pytest.raises(ConfigError):
        load_key(tmp_path)
