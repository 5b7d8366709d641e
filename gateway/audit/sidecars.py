"""What ``payload: full`` keeps beside the chain: encrypted arguments and results, under one key for each principal.

``payloads/YYYYMMDD.jsonl`` in the log's directory holds one sealed payload a line (AES-256-GCM); the keys are in
``state.dir``. The chain has only ids and keyed digests, so that payloads, or a principal's key, can be erased while it
stays whole (S169). Blocking; used by the log's thread, and by commands.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.errors import ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.state.files import PRIVATE_FILE, read_or_create_key, secure_directory, sync_directory

FOLDER: Final = "payloads"
KEYS_FOLDER: Final = "audit-subjects"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MAX_KEYS: Final = 256
_NAME: Final = re.compile(r"[0-9]{8}\.jsonl")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A payload to keep: its id, whose it is, and the JSON text."""

    id: str
    owner: str
    text: bytes


def new_sidecar_id() -> str:
    """Return an id that tells nothing."""
    return secrets.token_hex(12)


class Sidecars:
    """The payloads of one log. Methods raise OSError where the disk refuses, or a key cannot be used."""

    def __init__(self, directory: Path, state_dir: Path) -> None:
        self._directory = directory / FOLDER
        self._keys = state_dir / KEYS_FOLDER
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._touched: set[Path] = set()

    @staticmethod
    def name_of(owner: str) -> str:
        """Return the name that a principal's key has: what may be said of it after its erasure."""
        return _digest(owner)

    def write(self, sidecars: Sequence[Sidecar]) -> None:
        """Append payloads; they are durable after the next ``sync``."""
        _make(self._directory)
        path = self._directory / f"{datetime.now(UTC):%Y%m%d}.jsonl"
        is_new = not path.exists()
        data = b"".join(self._sealed(each) for each in sidecars)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        with open(descriptor, "ab", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        self._touched.add(path)
        if is_new:
            sync_directory(self._directory)

    def sync(self) -> None:
        """Make everything written durable."""
        for path in [*self._touched]:
            if path.exists():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            self._touched.discard(path)

    def read(self, wanted: frozenset[str], day: datetime) -> dict[str, bytes]:
        """Return the texts of those payloads, written on a day or the next, that are still there and can be opened."""
        found: dict[str, bytes] = {}
        for each in (day, day + timedelta(days=1)):
            for line in self._lines(self._directory / f"{each.astimezone(UTC):%Y%m%d}.jsonl", wanted):
                text = self._opened(line)
                if text is not None:
                    found[str(line["id"])] = text
        return found

    def erase(self, owner: str) -> bool:
        """Destroy a principal's key, so that nothing of it can be read any more; False where there is none."""
        path = self._key_path(_digest(owner))
        self._known.pop(_digest(owner), None)
        if not path.exists():
            return False
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.write(b"\0" * size)
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
        sync_directory(self._keys)
        return True

    def expire(self, before: float) -> None:
        """Delete the payloads of whole days before a time (wall-clock seconds)."""
        limit = f"{datetime.fromtimestamp(before, UTC):%Y%m%d}"
        if not self._directory.exists():
            return
        for path in self._directory.iterdir():
            if _NAME.fullmatch(path.name) and path.name[:8] < limit:
                path.unlink(missing_ok=True)

    def _sealed(self, sidecar: Sidecar) -> bytes:
        owner = _digest(sidecar.owner)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        body = AESGCM(self._key(owner)).encrypt(nonce, sidecar.text, sidecar.id.encode())
        sealed: Object = {"id": sidecar.id, "owner": owner, "sealed": base64.b64encode(nonce + body).decode()}
        return rawjson.canonical_plain(sealed) + b"\n"

    def _opened(self, line: Object) -> bytes | None:
        path = self._key_path(str(line.get("owner")))
        try:
            sealed = base64.b64decode(str(line.get("sealed")), validate=True)
            cipher = AESGCM(path.read_bytes())
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], str(line.get("id")).encode())
        except (FileNotFoundError, binascii.Error, InvalidTag, ValueError):
            return None

    def _key(self, owner: str) -> bytes:
        # Another process may have erased it: what is written from now on needs a key that exists.
        path = self._key_path(owner)
        known = self._known.get(owner) if path.exists() else None
        if known is None:
            _make(self._keys)
            try:
                known = read_or_create_key(path, _KEY_BYTES)
            except ConfigError as error:
                raise OSError(errno.EACCES, str(error)) from None
        self._known[owner] = known
        self._known.move_to_end(owner)
        if len(self._known) > _MAX_KEYS:
            self._known.popitem(last=False)
        return known

    def _key_path(self, owner: str) -> Path:
        return self._keys / f"{owner}.key"

    def _lines(self, path: Path, wanted: frozenset[str]) -> Iterator[Object]:
        if not path.exists():
            return
        with path.open("rb") as file:
            for data in file:
                try:
                    line = rawjson.decode_value(data)
                except JsonError:
                    continue
                if isinstance(line, dict) and line.get("id") in wanted and _is_digest(str(line.get("owner"))):
                    yield line


def _make(directory: Path) -> None:
    """Make a directory; what is wrong with it while the gateway runs is a failure of the disk."""
    try:
        secure_directory(directory)
    except ConfigError as error:
        raise OSError(errno.EACCES, str(error)) from None


def _digest(owner: str) -> str:
    return hashlib.sha256(b"mcp-gateway-audit-subject\n" + owner.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_digest(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{32}", text) is not None
