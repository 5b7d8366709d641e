"""The hash chain: each record holds its predecessor's hash, so that no record can change, go or move unnoticed.

``hash = SHA-256("mcp-gateway-audit-v1\\n" ‖ canonical(record without hash))``, ``prev`` is the hash before, the first
record's is 64 zeros. Pure; knows no files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object

VERSION: Final = 1
GENESIS: Final = "0" * 64
MAX_RECORD: Final = 16 * 1024
"""Bytes of one record with its line end."""
_TAG: Final = hashlib.sha256(b"mcp-gateway-audit-v1\n")
_HASH: Final = b',"hash":"'


class ChainError(ValueError):
    """A line that does not continue the chain; ``seq`` is the sequence number that was due there."""

    def __init__(self, reason: str, seq: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain stands: the last record's number and hash."""

    chain: str
    seq: int = 0
    hash: str = GENESIS


def seal(record: Object, head: Head) -> tuple[bytes, Head]:
    """Return a record's line, with its line end, as the next one after ``head``, and the head after it.

    Raises:
        JsonError: a lone surrogate in it.
    """
    body: Object = {**record, "v": VERSION, "chain": head.chain, "seq": head.seq + 1, "prev": head.hash}
    digest = _digest(rawjson.canonical_plain(body))
    body["hash"] = digest
    return rawjson.canonical_plain(body) + b"\n", Head(head.chain, head.seq + 1, digest)


def check(line: bytes, head: Head | None) -> tuple[Object, Head]:
    """Read one line, without its line end, as the next record after ``head``.

    Without a head the record's own claims about what came before are taken, as for the first line that is read.

    Raises:
        ChainError: anything but exactly the line that ``seal`` wrote there.
    """
    due = 0 if head is None else head.seq + 1
    record = read(line, due)
    chain, seq, prev, digest = record.get("chain"), record.get("seq"), record.get("prev"), record.get("hash")
    if record.get("v") != VERSION or record.get("v") is True:
        raise ChainError("unknown record version", due)
    if not isinstance(digest, str) or digest != _digest(_without_hash(line, record, digest)):
        raise ChainError("hash does not match the record", due)
    if not isinstance(seq, int) or isinstance(seq, bool) or not isinstance(chain, str) or not isinstance(prev, str):
        raise ChainError("no place in a chain", due)
    if head is not None:
        if chain != head.chain:
            raise ChainError("belongs to another chain", due)
        if seq != due:
            raise ChainError(f"sequence number is {seq}, {due} is due", due)
        if prev != head.hash:
            raise ChainError("does not continue the record before", due)
    return record, Head(chain, seq, digest)


def read(line: bytes, due: int) -> Object:
    """Read one line as a record in canonical form, whatever its place.

    Raises:
        ChainError: no JSON object, or another spelling of it than the canonical one.
    """
    try:
        record = rawjson.decode_value(line)
        canonical = isinstance(record, dict) and rawjson.canonical_plain(record) == line
    except JsonError:
        raise ChainError("not a record", due) from None
    if not isinstance(record, dict):
        raise ChainError("not a record", due)
    if not canonical:
        raise ChainError("not in canonical form", due)
    return record


def _without_hash(line: bytes, record: Object, digest: str) -> bytes:
    """Return the canonical form of a record without its hash, for a line that is known to be canonical."""
    at = line.find(_HASH)
    end = at + len(_HASH) + len(digest)
    # Where such a member occurs once it is the record's own, and cutting it out saves writing the record again.
    if at >= 0 and line[at + len(_HASH) : end + 1] == f'{digest}"'.encode() and line.find(_HASH, end) < 0:
        return line[:at] + line[end + 1 :]
    return rawjson.canonical_plain({key: value for key, value in record.items() if key != "hash"})


def _digest(body: bytes) -> str:
    digest = _TAG.copy()
    digest.update(body)
    return digest.hexdigest()
