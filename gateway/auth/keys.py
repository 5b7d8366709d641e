"""Configured keys and the clients they stand for; holds digests, never a key.

A key is found by the SHA-256 of what was presented: how long the search takes says nothing about any key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from gateway.config.access import Client
from gateway.model.principal import Principal

_NOBODY: Final = bytes(32)
_CREDENTIAL_LENGTH: Final = 8


@dataclass(frozen=True, slots=True)
class Holder:
    """The client a key stands for. ``expires`` is the last day (UTC) on which the key works."""

    principal: Principal
    digest: bytes
    expires: date | None


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Every configured key by its digest."""

    holders: Mapping[bytes, Holder]

    @classmethod
    def build(cls, clients: Mapping[str, Client]) -> KeyRing:
        """Read the keys of all clients. That each is long enough and belongs to one client, the config has judged."""
        return cls(
            {
                digest: Holder(_principal(name, client, digest), digest, client.expires)
                for name, client in clients.items()
                for digest in _digests(client)
            }
        )

    def find(self, key: str) -> Holder | None:
        """Return whose key it is, expired or not."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        holder = self.holders.get(digest)
        # The comparison also runs for an unknown key, so that both answers take the same way.
        found = hmac.compare_digest(digest, holder.digest if holder else _NOBODY)
        return holder if found else None

    def holds(self, principal: Principal, now: datetime) -> bool:
        """Whether the key a principal came with is still configured and works at ``now``."""
        return any(holder.principal.credential == principal.credential for holder in self._of(principal, now))

    def named(self, principal: Principal, now: datetime) -> Principal | None:
        """Return the same client as it is configured now; None where it has no key that works at ``now``."""
        found = next(self._of(principal, now), None)
        return None if found is None else replace(principal, groups=found.principal.groups)

    def _of(self, principal: Principal, now: datetime) -> Iterator[Holder]:
        return (each for each in self.holders.values() if each.principal.id == principal.id and is_valid(each, now))


def is_valid(holder: Holder, now: datetime) -> bool:
    """Whether a key works at ``now`` (UTC); the day it expires is its last."""
    return holder.expires is None or now.date() <= holder.expires


def credential_of(digest: bytes) -> str:
    """Return a key's short name for logs and records: it begins the ``key_sha256`` that a config shows."""
    return digest.hex()[:_CREDENTIAL_LENGTH]


def _principal(name: str, client: Client, digest: bytes) -> Principal:
    return Principal(f"key:{name}", "key", name, frozenset(client.groups), credential=credential_of(digest))


def _digests(client: Client) -> list[bytes]:
    own = [hashlib.sha256(client.key.get_secret_value().encode()).digest()] if client.key is not None else []
    return own + [bytes.fromhex(text) for text in client.key_sha256]
