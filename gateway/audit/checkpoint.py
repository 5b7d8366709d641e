"""Checkpoints: signed statements of where the chain stands, so that nobody without the key can write it anew (S164).

A checkpoint is a record of the chain. Its Ed25519 signature covers the chain's name, number and hash of the record
before it, the root of a Merkle tree (RFC 9162) over the records since the checkpoint before, that one's hash, and the
time. Pure; knows no files.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from gateway.audit.chain import GENESIS, Head
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value

EVENT: Final = "audit.checkpoint"
TOMBSTONE: Final = "audit.tombstone"
MAX_RECORDS: Final = 1_000
"""Records after which a checkpoint is due."""
MAX_UNSIGNED: Final = 2_000
"""Records without a checkpoint that nothing explains: heads of segments come in several parts, but never so many."""
_BLOCK: Final = {EVENT: "checkpoint", TOMBSTONE: "tombstone"}
_TAGS: Final = {EVENT: b"mcp-gateway-audit-checkpoint-v1\n", TOMBSTONE: b"mcp-gateway-audit-tombstone-v1\n"}
_PEM_END: Final = b"-----END PUBLIC KEY-----"


class SignatureFault(ValueError):
    """A signed record that is not what the key's holder wrote there; the text says what is wrong."""


def merkle_root(leaves: Sequence[bytes]) -> str:
    """Return the root of a Merkle tree (RFC 9162, 2.1.1) over these leaves, in hex."""
    sha256 = hashlib.sha256
    if not leaves:
        return sha256(b"").hexdigest()
    level = [sha256(b"\0" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        # What is left over on one level goes up as it is: that is the same tree as the standard's.
        odd = level[-1:] if len(level) & 1 else []
        level = [sha256(b"\1" + level[at] + level[at + 1]).digest() for at in range(0, len(level) - 1, 2)] + odd
    return level[0].hex()


Mark: TypeAlias = tuple[str, list[bytes], int, str]


class Anchor:
    """Where the signatures of a chain stand: hash of the last checkpoint, records since, and whose turn it is to sign.

    ``last`` is empty where the records before are gone, so that nothing can be said of them. Each record is a leaf:
    its hash.
    """

    __slots__ = ("key", "last", "leaves")

    def __init__(self, last: str = GENESIS, leaves: Iterable[bytes] = (), key: str = "") -> None:
        self.last = last
        self.leaves = [*leaves]
        self.key = key

    def passed(self, record: Object, digest: str) -> None:
        """Take note of a record of the chain with this hash."""
        if record.get("event") != EVENT:
            self.leaves.append(bytes.fromhex(digest))
            return
        block = record.get(_BLOCK[EVENT])
        following = block.get("next_key") or block.get("key") if isinstance(block, dict) else ""
        self.last, self.leaves = digest, []
        self.key = key_id(following) if _is_key(following) else str(following)

    def mark(self) -> Mark:
        """Return a mark to go back to."""
        return self.last, self.leaves, len(self.leaves), self.key

    def go_back(self, mark: Mark) -> None:
        """Forget what was passed since."""
        self.last, self.leaves, count, self.key = mark
        del self.leaves[count:]


class Signer:
    """A private key and the id under which signatures name it."""

    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        raw = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = base64.b64encode(raw).decode()
        self.id = key_id(self.public)

    def __repr__(self) -> str:
        return f"Signer({self.id})"

    def pem(self) -> bytes:
        """Return the public key."""
        return self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(self, event: str, facts: Object, chain: str, stamp: Object) -> Object:
        """Return a signed record; ``stamp`` holds its time."""
        block: Object = {**facts, "key": self.id}
        signature = self._key.sign(_signed_bytes(event, block, chain, stamp.get("ts")))
        return {**stamp, "event": event, _BLOCK[event]: {**block, "signature": base64.b64encode(signature).decode()}}


class PublicKeys:
    """The keys that somebody trusts. A key that one of them named as its successor is trusted from there on."""

    def __init__(self, pem: bytes) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        for part in pem.split(_PEM_END)[:-1]:
            try:
                key = load_pem_public_key(part[part.find(b"-----BEGIN") :] + _PEM_END + b"\n")
            except (ValueError, UnsupportedAlgorithm):
                raise SignatureFault("the public key cannot be read") from None
            if isinstance(key, Ed25519PublicKey):
                raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
                self._keys[key_id(base64.b64encode(raw).decode())] = key
        if not self._keys:
            raise SignatureFault("there is no Ed25519 public key")

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._keys)

    def add(self, public: str) -> None:
        """Trust one more key."""
        self._keys[key_id(public)] = Ed25519PublicKey.from_public_bytes(base64.b64decode(public))

    def check(self, record: Object, due: str) -> Object:
        """Return what a signed record says; ``due`` is the key whose turn it is, empty where any will do.

        Raises:
            SignatureFault: it is not signed, by another key, or says something else than what was signed.
        """
        event = str(record.get("event"))
        block = record.get(_BLOCK.get(event, ""))
        if not isinstance(block, dict):
            raise SignatureFault(f"{event} says nothing")
        key, signature = block.get("key"), block.get("signature")
        if due and key != due:
            raise SignatureFault(f"signed by key {key}, {due} is due")
        trusted = self._keys.get(str(key))
        if trusted is None:
            raise SignatureFault(f"signed by key {key}, which is not trusted")
        facts = {name: value for name, value in block.items() if name != "signature"}
        try:
            data = _signed_bytes(event, facts, str(record.get("chain")), record.get("ts"))
            trusted.verify(base64.b64decode(str(signature), validate=True), data)
        except (InvalidSignature, binascii.Error):
            raise SignatureFault("signature does not match") from None
        return facts


def checkpoint(signer: Signer, head: Head, anchor: Anchor, stamp: Object, successor: Signer | None = None) -> Object:
    """Return the checkpoint that stands next after ``head``; with a successor, that one signs from then on."""
    facts: Object = {
        "seq": head.seq,
        "head": head.hash,
        "records": len(anchor.leaves),
        "merkle_root": merkle_root(anchor.leaves),
        "prev_checkpoint": anchor.last,
    }
    if successor is not None:
        facts["next_key"] = successor.public
    return signer.sign(EVENT, facts, head.chain, stamp)


def check_checkpoint(record: Object, keys: PublicKeys, before: Head, anchor: Anchor) -> None:
    """Check a checkpoint that follows ``before``.

    Raises:
        SignatureFault: what is wrong with it.
    """
    facts = keys.check(record, anchor.key)
    if (facts.get("seq"), facts.get("head")) != (before.seq, before.hash):
        raise SignatureFault("checkpoint of another place")
    if anchor.last:
        if facts.get("prev_checkpoint") != anchor.last:
            raise SignatureFault("does not follow the checkpoint before")
        if (facts.get("records"), facts.get("merkle_root")) != (len(anchor.leaves), merkle_root(anchor.leaves)):
            raise SignatureFault("Merkle root does not match the records")
    successor = facts.get("next_key")
    if successor is None:
        return
    if not _is_key(successor):
        raise SignatureFault("names a successor that is no key")
    keys.add(str(successor))


def key_id(public: Value) -> str:
    """Name a public key (base64) by a digest of itself."""
    return "s" + hashlib.sha256(b"mcp-gateway-audit-signing-key\n" + str(public).encode()).hexdigest()[:16]


def _is_key(public: Value) -> bool:
    try:
        return isinstance(public, str) and len(base64.b64decode(public, validate=True)) == 32
    except binascii.Error:
        return False


def _signed_bytes(event: str, facts: Object, chain: str, ts: Value) -> bytes:
    return _TAGS[event] + rawjson.canonical_plain({**facts, "chain": chain, "ts": ts})
