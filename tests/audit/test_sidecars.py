"""Full payloads beside the chain: encrypted for each principal, and erasable (S169)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gateway.audit.sidecars import Sidecar, Sidecars, new_sidecar_id

ALICE, BOB = "sub:https://as.example/alice", "key:bob"


def test_payloads_can_be_read_until_their_principals_key_is_erased(tmp_path: Path) -> None:
    sidecars = Sidecars(tmp_path / "a", tmp_path / "s")
    one, two = (Sidecar(new_sidecar_id(), owner, b'{"args":"canary"}') for owner in (ALICE, BOB))
    sidecars.write([one, two])
    sidecars.sync()
    wanted, today = frozenset({one.id, two.id}), datetime.now(UTC)

    (file,) = (tmp_path / "a" / "payloads").iterdir()
    assert b"canary" not in file.read_bytes()
    assert b"alice" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert sidecars.read(wanted, today) == {one.id: one.text, two.id: two.text}
    assert Sidecars(tmp_path / "a", tmp_path / "s").erase(ALICE)
    assert not sidecars.erase(ALICE)
    assert sidecars.read(wanted, today) == {two.id: two.text}


def test_what_is_written_after_an_erasure_has_a_new_key(tmp_path: Path) -> None:
    sidecars = Sidecars(tmp_path / "a", tmp_path / "s")
    old, new = Sidecar("old", ALICE, b"1"), Sidecar("new", ALICE, b"2")
    sidecars.write([old])
    sidecars.erase(ALICE)
    sidecars.write([new])

    assert sidecars.read(frozenset({"old", "new"}), datetime.now(UTC)) == {"new": b"2"}


def test_damaged_and_moved_payloads_are_absent(tmp_path: Path) -> None:
    """A payload is bound to its id: another one's cannot be shown in its place."""
    sidecars = Sidecars(tmp_path / "a", tmp_path / "s")
    sidecars.write([Sidecar("11", ALICE, b"1"), Sidecar("22", ALICE, b"2")])
    (file,) = (tmp_path / "a" / "payloads").iterdir()
    text = file.read_bytes()
    file.write_bytes(text.replace(b'"11"', b'"xx"').replace(b'"22"', b'"11"') + b"no json\n{}\n")

    assert sidecars.read(frozenset({"11", "22"}), datetime.now(UTC)) == {}
    assert Sidecars(tmp_path / "none", tmp_path / "s").read(frozenset({"11"}), datetime.now(UTC)) == {}


def test_many_principals_keep_few_keys_in_memory(tmp_path: Path) -> None:
    sidecars = Sidecars(tmp_path / "a", tmp_path / "s")
    sidecars.write([Sidecar(str(number), f"key:{number}", b"x") for number in range(300)])
    found = sidecars.read(frozenset(str(number) for number in range(300)), datetime.now(UTC))
    assert len(found) == 300
