"""The audit log's own secret: stands in for values that must not be written but must be comparable."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.state.files import read_or_create_key

KEY_FILE: Final = "audit-hmac.key"
_KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class AuditKey:
    """An HMAC key and the id under which digests name it, so that it can be told which key made them."""

    id: str
    secret: bytes
    _begun: hmac.HMAC = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_begun", hmac.new(self.secret, digestmod="sha256"))

    @classmethod
    def of(cls, secret: bytes) -> AuditKey:
        """Name a key by a digest of itself."""
        return cls("k" + hashlib.sha256(b"mcp-gateway-audit-key-id\n" + secret).hexdigest()[:8], secret)

    def __repr__(self) -> str:
        return f"AuditKey({self.id})"

    def digest(self, purpose: str, data: bytes, length: int = 64) -> str:
        """Return ``ID:HEX``, the HMAC-SHA-256 of data for one purpose, in ``length`` hex digits."""
        # A copy: ``hmac.digest`` lets go of the interpreter for every message, which then waits for other threads.
        mac = self._begun.copy()
        mac.update(purpose.encode() + b"\n" + data)
        return f"{self.id}:{mac.hexdigest()[:length]}"


def load_key(state_dir: Path) -> AuditKey:
    """Read the key of ``state.dir``, made at first use.

    Raises:
        ConfigError: the file is readable by others, damaged, or cannot be made.
    """
    return AuditKey.of(read_or_create_key(state_dir / KEY_FILE, _KEY_BYTES))
