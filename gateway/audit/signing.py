"""When a journal signs, and with which key: follows the chain record by record and makes its checkpoints.

Also the keys' home on disk: ``audit-signing.key`` in ``state.dir``, its public half in the log's directory. A key that
waits as its successor takes over at the next start, named by a checkpoint that the old one signs.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.audit.chain import Head
from gateway.audit.checkpoint import MAX_RECORDS, Anchor, Mark, Signer, checkpoint
from gateway.errors import ConfigError, Problem
from gateway.protocol.rawjson import Object
from gateway.state.files import PRIVATE_FILE, read_or_create_key, sync_directory, write_atomic
from gateway.telemetry.logs import get_logger

KEY_FILE: Final = "audit-signing.key"
SUCCESSOR_FILE: Final = "audit-signing.next"
KEYS_FILE: Final = "audit-public.pem"
PUBLIC_FILE: Final = "public.pem"
ANCHOR_FILE: Final = "checkpoint.json"
"""A copy of the last checkpoint beside the log, by which a log that lost its end can be told."""
INTERVAL: Final = 60.0
"""Seconds after which records without a checkpoint get one."""
_SEED_BYTES: Final = 32
_log = get_logger("audit")


@dataclass(slots=True)
class SigningKeys:
    """The keys of one ``state.dir``: the one that signs, and the one that waits."""

    directory: Path
    current: Signer
    successor: Signer | None = None

    @classmethod
    def load(cls, directory: Path) -> SigningKeys:
        """Read the keys, made at first use.

        Raises:
            ConfigError: a file is readable by others, damaged, or cannot be made.
        """
        current = Signer(read_or_create_key(directory / KEY_FILE, _SEED_BYTES))
        waiting = directory / SUCCESSOR_FILE
        successor = Signer(read_or_create_key(waiting, _SEED_BYTES)) if waiting.exists() else None
        keys = cls(directory, current, successor)
        keys._list(current)
        return keys

    def promote(self) -> None:
        """Let the successor sign from now on; may be done again after a crash.

        Raises:
            OSError: the files cannot be changed.
        """
        if self.successor is None:
            return
        self._list(self.successor)
        (self.directory / SUCCESSOR_FILE).replace(self.directory / KEY_FILE)
        sync_directory(self.directory)
        self.current, self.successor = self.successor, None

    def pem(self) -> bytes:
        """Return every public key that ever signed, oldest first."""
        path = self.directory / KEYS_FILE
        return path.read_bytes() if path.exists() else b""

    def _list(self, signer: Signer) -> None:
        known = self.pem()
        if signer.pem() not in known:
            write_atomic(self.directory / KEYS_FILE, known + signer.pem())


def prepare_successor(directory: Path) -> Signer:
    """Make the key that takes over at the gateway's next start.

    Raises:
        ConfigError: it cannot be made.
    """
    return Signer(read_or_create_key(directory / SUCCESSOR_FILE, _SEED_BYTES))


class Signing:
    """Follows one chain. Without keys it only follows."""

    def __init__(self, keys: SigningKeys | None, interval: float = INTERVAL) -> None:
        self._keys = keys
        self._interval = interval
        self._since: float | None = None
        self.anchor = Anchor()
        self._durable = self.anchor.mark()
        self._line = b""
        self.last_at = 0.0
        """Wall-clock seconds of the last checkpoint made."""

    @property
    def is_full(self) -> bool:
        """Whether so many records wait that a checkpoint is due now."""
        return self._keys is not None and len(self.anchor.leaves) >= MAX_RECORDS

    def wait(self, now: float) -> float | None:
        """Return seconds until a checkpoint is due, None where nothing waits for one; ``now`` is monotonic."""
        if self._keys is None or not self.anchor.leaves or self._since is None:
            return None
        return max(self._since + self._interval - now, 0.0)

    def begin(self, anchor: Anchor, directory: Path) -> None:
        """Go on where a log stands.

        Raises:
            ConfigError: it was signed with a key that is not here.
            OSError: the public keys cannot be written.
        """
        self.anchor, self._durable = anchor, anchor.mark()
        keys = self._keys
        if keys is None:
            return
        if keys.successor is not None and anchor.key == keys.successor.id:
            keys.promote()
        if anchor.key not in ("", keys.current.id):
            raise ConfigError(
                [
                    Problem(
                        f"audit log is signed with key {anchor.key}, which is not in state.dir",
                        file=str(directory),
                        hint="bring back state.dir, or move the whole directory away to begin a new log",
                    )
                ]
            )
        write_atomic(directory / PUBLIC_FILE, keys.pem())

    def settle(self, directory: Path) -> None:
        """Promote a successor whose checkpoint is durable.

        Raises:
            OSError: the files cannot be changed.
        """
        keys = self._keys
        if keys is not None and keys.successor is not None and self.anchor.key == keys.successor.id:
            keys.promote()
            write_atomic(directory / PUBLIC_FILE, keys.pem())

    def passed(self, record: Object, line: bytes, head: Head) -> None:
        """Take note of a record that was added to the chain as this line."""
        self.anchor.passed(record, head.hash)
        if not self.anchor.leaves:
            self.last_at = time.time()
            self._since = None
            self._line = line
        elif self._since is None:
            self._since = time.monotonic()

    def checkpoint(self, head: Head, stamp: Object) -> list[Object]:
        """Return the checkpoint to write next, none without keys."""
        if self._keys is None:
            return []
        return [checkpoint(self._keys.current, head, self.anchor, stamp, self._keys.successor)]

    def sign(self, event: str, facts: Object, chain: str, stamp: Object) -> Object | None:
        """Return another signed record, None without keys."""
        return None if self._keys is None else self._keys.current.sign(event, facts, chain, stamp)

    def keep(self, directory: Path) -> None:
        """Everything so far is durable: show the last checkpoint beside the log."""
        self._durable = self.anchor.mark()
        line, self._line = self._line, b""
        if not line:
            return
        beside = directory / f".{ANCHOR_FILE}"
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
            with open(descriptor, "wb") as file:
                file.write(line)
            beside.replace(directory / ANCHOR_FILE)
        except OSError as error:
            # The log itself has it; the copy is there for whoever checks, and comes back with the next one.
            _log.warning("audit_anchor_not_written", reason=error.strerror)

    def revert(self, mark: Mark | None = None) -> None:
        """Go back to where things stood, or to what is durable."""
        self.anchor.go_back(self._durable if mark is None else mark)
        self._line = b""
        self._since = time.monotonic() if self.anchor.leaves else None
