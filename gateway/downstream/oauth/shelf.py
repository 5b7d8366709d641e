"""What a sign-in that is under way needs at whichever replica its browser or its client comes to next.

Sealed, since the store may be on another machine: what is put there opens here, under the same kind and id, alone.
Everything ends by itself. What the store has lost is as good as unknown: people start again.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.state.memory import MemoryStore
from gateway.state.sealing import MIN_KEY_BYTES, Sealer, SealError
from gateway.state.store import Store, StoreRefused
from gateway.telemetry.logs import get_logger

Kind: TypeAlias = Literal["offer", "state", "token"]
_PURPOSE = "sign-in"
_log = get_logger("oauth")


@dataclass(frozen=True, slots=True)
class Shelf:
    """A place in a store for small objects."""

    store: Store
    sealer: Sealer

    @classmethod
    def alone(cls) -> Shelf:
        """Return one that nobody else has."""
        return cls(MemoryStore(), Sealer([secrets.token_bytes(MIN_KEY_BYTES)]))

    async def put(self, kind: Kind, name: str, value: Object, seconds: float) -> bool:
        """Keep an object in place of an earlier one; tells whether the store takes it, and logs it if not."""
        token = self.sealer.seal(_PURPOSE, rawjson.encode(value), _context(kind, name), seconds)
        try:
            await self.store.put(_key(kind, name), token.encode("ascii"), seconds)
        except StoreRefused:
            _log.warning("sign_in_not_shared", kind=kind)
            return False
        return True

    async def get(self, kind: Kind, name: str) -> Object | None:
        """Return an object, None where there is none."""
        return self._opened(kind, name, await self.store.get(_key(kind, name)))

    async def take(self, kind: Kind, name: str) -> Object | None:
        """Return an object and forget it: one caller alone gets it."""
        return self._opened(kind, name, await self.store.take(_key(kind, name)))

    async def put_back(self, kind: Kind, name: str, value: Object, seconds: float) -> None:
        """Keep an object that was taken, unless there is another one by now."""
        token = self.sealer.seal(_PURPOSE, rawjson.encode(value), _context(kind, name), seconds)
        await self.store.claim(_key(kind, name), token.encode("ascii"), seconds)

    async def drop(self, kind: Kind, name: str) -> None:
        """Forget an object."""
        await self.store.delete(_key(kind, name))

    def _opened(self, kind: Kind, name: str, data: bytes | None) -> Object | None:
        if data is None:
            return None
        try:
            value = rawjson.decode_strict(self.sealer.open(_PURPOSE, data.decode("ascii"), _context(kind, name)))
        except (SealError, UnicodeDecodeError, JsonError):
            return None
        return value if isinstance(value, dict) else None


def _key(kind: Kind, name: str) -> str:
    # A digest, since the name is what its bearer proves itself with.
    return f"sign-in:{kind}:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _context(kind: Kind, name: str) -> bytes:
    return rawjson.canonical([kind, name])
