"""Signed checkpoints: what they cover, and that nobody without the key makes one (S164)."""

from __future__ import annotations

import base64
import hashlib

import pytest

from gateway.audit.chain import GENESIS, Head
from gateway.audit.checkpoint import (
    EVENT,
    TOMBSTONE,
    Anchor,
    PublicKeys,
    SignatureFault,
    Signer,
    check_checkpoint,
    checkpoint,
    merkle_root,
)
from gateway.protocol.rawjson import Object
from tests.kit.audit import STAMP

SIGNER = Signer(b"s" * 32)
OTHER = Signer(b"o" * 32)
HEAD = Head("gw1", 7, "ab" * 32)
ANCHOR = Anchor(GENESIS, [b"a", b"b"])


def merkle(leaves: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + merkle(leaves[:split]) + merkle(leaves[split:])).digest()


def test_the_tree_is_that_of_rfc_9162() -> None:
    leaves: list[bytes] = []
    for number in range(70):
        assert merkle_root(leaves) == merkle(leaves).hex()
        leaves.append(bytes([number]))


def signed(signer: Signer = SIGNER, successor: Signer | None = None) -> Object:
    return {**checkpoint(signer, HEAD, ANCHOR, STAMP, successor), "chain": "gw1"}


def test_a_checkpoint_is_good_in_its_place() -> None:
    record = signed()
    check_checkpoint(record, PublicKeys(SIGNER.pem()), HEAD, ANCHOR)
    after = Anchor(GENESIS, ANCHOR.leaves)
    mark = after.mark()
    after.passed(record, "cd" * 32)
    assert (after.last, after.leaves, after.key) == ("cd" * 32, [], SIGNER.id)
    after.passed({"event": "call.end"}, "ef" * 32)
    after.go_back(mark)
    assert (after.last, after.leaves, after.key) == (GENESIS, ANCHOR.leaves, "")


def without_signature(record: Object, **changed: object) -> Object:
    block = record["checkpoint"]
    assert isinstance(block, dict)
    return {**record, "checkpoint": {**block, **changed}}  # type: ignore[dict-item] # made wrong on purpose


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seq": 8}, "does not match"),
        ({"head": "00" * 32}, "does not match"),
        ({"merkle_root": "00" * 32}, "does not match"),
        ({"records": 3}, "does not match"),
        ({"prev_checkpoint": "11" * 32}, "does not match"),
        ({"signature": base64.b64encode(b"x" * 64).decode()}, "does not match"),
        ({"signature": "?"}, "does not match"),
        ({"signature": None}, "does not match"),
        ({"key": OTHER.id}, "not trusted"),
        ({"next_key": OTHER.public}, "does not match"),
    ],
)
def test_no_part_of_it_can_be_changed(change: dict[str, object], reason: str) -> None:
    with pytest.raises(SignatureFault, match=reason):
        check_checkpoint(without_signature(signed(), **change), PublicKeys(SIGNER.pem()), HEAD, ANCHOR)


@pytest.mark.parametrize(
    ("record", "before", "anchor", "reason"),
    [
        (signed(), Head("gw1", 8, HEAD.hash), ANCHOR, "another place"),
        (signed(), HEAD, Anchor("11" * 32, ANCHOR.leaves), "the checkpoint before"),
        (signed(), HEAD, Anchor(GENESIS, [*ANCHOR.leaves, b"c"]), "Merkle"),
        (signed(), HEAD, Anchor(GENESIS, ANCHOR.leaves, OTHER.id), "is due"),
        ({**signed(), "ts": "2026-08-23T10:00:00.123457Z"}, HEAD, ANCHOR, "does not match"),
        ({**signed(), "chain": "gw2"}, HEAD, ANCHOR, "does not match"),
        ({"event": EVENT}, HEAD, ANCHOR, "says nothing"),
        (signed(OTHER), HEAD, ANCHOR, "not trusted"),
    ],
)
def test_it_is_good_nowhere_else(record: Object, before: Head, anchor: Anchor, reason: str) -> None:
    with pytest.raises(SignatureFault, match=reason):
        check_checkpoint(record, PublicKeys(SIGNER.pem()), before, anchor)


def test_a_key_hands_over_to_its_successor() -> None:
    keys = PublicKeys(SIGNER.pem())
    record = signed(successor=OTHER)
    check_checkpoint(record, keys, HEAD, ANCHOR)
    after = Anchor(GENESIS, ANCHOR.leaves)
    after.passed(record, "cd" * 32)
    assert after.key == OTHER.id
    assert keys.ids == (SIGNER.id, OTHER.id)


def test_what_was_signed_as_a_checkpoint_is_no_tombstone() -> None:
    record = signed()
    moved = {**record, "event": TOMBSTONE, "tombstone": record["checkpoint"]}
    with pytest.raises(SignatureFault, match="does not match"):
        PublicKeys(SIGNER.pem()).check(moved, "")


def test_several_keys_are_read_and_other_texts_refused() -> None:
    assert PublicKeys(b"note\n" + SIGNER.pem() + OTHER.pem()).ids == (SIGNER.id, OTHER.id)
    for text in (b"", b"nothing", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(SignatureFault):
            PublicKeys(text)
