"""Configured keys and the clients they stand for; holds digests, never a key.

A key is found by the SHA-256 of what was presented: how long the search takes says nothing about any key.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from gateway.config.access import Client
from gateway.errors import ConfigError, Problem
from gateway.model.principal import ANONYMOUS_ID, Principal

MIN_KEY_LENGTH: Final = 32
_PRESENTABLE: Final = re.compile(r"[!-~]+")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_EMPTY: Final = hashlib.sha256(b"").digest()
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
        """Read the keys of all clients.

        Raises:
            ConfigError: a client without a key, a key that is too short or cannot be sent in a header, a digest that
                is none, one key for two clients, or a client named ``anonymous``.
        """
        holders: dict[bytes, Holder] = {}
        problems: list[Problem] = []
        for name, client in clients.items():
            path = f"clients.{name}"
            if name == ANONYMOUS_ID:
                problems.append(Problem("is a reserved name", path=path))
            for digest in _digests(client, path, problems):
                other = holders.get(digest)
                if other is not None and other.principal.label != name:
                    problems.append(Problem(f"has the same key as client {other.principal.label!r}", path=path))
                holders[digest] = Holder(_principal(name, client, digest), digest, client.expires)
        if problems:
            raise ConfigError(problems)
        return cls(holders)

    def find(self, key: str) -> Holder | None:
        """Return whose key it is, expired or not."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        holder = self.holders.get(digest)
        # The comparison also runs for an unknown key, so that both answers take the same way.
        found = hmac.compare_digest(digest, holder.digest if holder else _EMPTY)
        return holder if found else None

    def holds(self, principal: Principal, now: datetime) -> bool:
        """Whether the key a principal came with is still configured and works at ``now``."""
        return any(
            holder.principal.id == principal.id
            and holder.principal.credential == principal.credential
            and is_valid(holder, now)
            for holder in self.holders.values()
        )


def is_valid(holder: Holder, now: datetime) -> bool:
    """Whether a key works at ``now`` (UTC); the day it expires is its last."""
    return holder.expires is None or now.date() <= holder.expires


def credential_of(digest: bytes) -> str:
    """Return a key's short name for logs and records: it begins the ``key_sha256`` that a config shows."""
    return digest.hex()[:_CREDENTIAL_LENGTH]


def _principal(name: str, client: Client, digest: bytes) -> Principal:
    return Principal(f"key:{name}", "key", name, frozenset(client.groups), credential=credential_of(digest))


def _digests(client: Client, path: str, problems: list[Problem]) -> list[bytes]:
    found: list[bytes] = []
    if client.key is not None:
        key = client.key.get_secret_value()
        if len(key) < MIN_KEY_LENGTH:
            problems.append(Problem(f"must have at least {MIN_KEY_LENGTH} characters", path=f"{path}.key"))
        elif not _PRESENTABLE.fullmatch(key):
            problems.append(Problem("must be visible ASCII without spaces to fit in a header", path=f"{path}.key"))
        found.append(hashlib.sha256(key.encode()).digest())
    for index, text in enumerate(client.key_sha256):
        digest = bytes.fromhex(text) if _DIGEST.fullmatch(text) else _EMPTY
        if digest == _EMPTY:
            problems.append(Problem("must be the SHA-256 of a key: 64 hex digits", path=f"{path}.key_sha256[{index}]"))
        found.append(digest)
    if not found:
        problems.append(Problem("has neither key nor key_sha256", path=path, hint="make one with keys new"))
    return [digest for digest in found if digest != _EMPTY]
