"""What other replicas have to know of a session to serve it, sealed: a few facts, and nothing of what is under way.

Whoever can write to the shared store can neither read them nor make them up, nor give one session those of another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from gateway.endpoint.updates import Claims
from gateway.protocol import rawjson, versions
from gateway.protocol.rawjson import JsonError, Object, Raw
from gateway.state.sealing import Sealer, SealError

MAX_CLAIMS: Final = 96 * 1024
"""Bytes of the resources a session subscribed to that others learn of, as written; the rest stays with its replica."""

_PURPOSE: Final = "legacy-session"
_ENDED: Final = "legacy-session-end"


@dataclass(frozen=True, slots=True)
class Facts:
    """A session as it is kept. ``principal`` is an id; ``uris`` are subscriptions; ``revision`` counts changes."""

    principal: str
    view: str | None
    version: str
    capabilities: Raw
    info: Raw
    log_level: str | None
    uris: dict[str, tuple[str, str]]
    revision: int

    def declared(self) -> tuple[Object, Object] | None:
        """Return the client's capabilities and what it says of itself."""
        capabilities, info = rawjson.peek(self.capabilities), rawjson.peek(self.info)
        return (capabilities, info) if isinstance(capabilities, dict) and isinstance(info, dict) else None


@dataclass(frozen=True, slots=True)
class Agreed:
    """What may change of a session, as all replicas can know it since ``revision``."""

    revision: int = 0
    log_level: str | None = None
    uris: Claims = field(default_factory=dict)


def key_of(identifier: str) -> str:
    """Return the store's key for a session, from which its id cannot be told."""
    return f"session:{_digest(identifier)}"


def turn_of(identifier: str) -> str:
    """Return the key that whoever changes a session holds meanwhile."""
    return f"session-turn:{_digest(identifier)}"


def _digest(identifier: str) -> str:
    return hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()


def within(claims: Claims) -> Claims:
    """Return as many subscriptions as fit, the oldest first."""
    kept: Claims = {}
    size = 0
    for form, claim in claims.items():
        size += len(rawjson.encode([form, *claim]))
        if size > MAX_CLAIMS:
            break
        kept[form] = claim
    return kept


def changed(before: Claims, after: Claims) -> tuple[Claims, frozenset[str]]:
    """Return what was subscribed to, and what was given up."""
    added = {form: claim for form, claim in after.items() if form not in before}
    return added, frozenset(before.keys() - after.keys())


def merged(known: Agreed, found: Facts, own: Agreed) -> Agreed:
    """Return what a session is like, of which ``found`` is what another replica wrote and ``own`` what it is like here.

    ``known`` is what both knew before: what differs from that here is not written yet. Of two that were written at
    once, as ``found`` with the same revision, neither loses a subscription.
    """
    added, given_up = changed(known.uris, own.uris)
    base = found.uris if found.revision > known.revision else known.uris | found.uris
    uris = {form: claim for form, claim in (base | added).items() if form not in given_up}
    level = own.log_level if own.log_level != known.log_level else found.log_level
    return Agreed(found.revision, level, uris)


def seal(sealer: Sealer, identifier: str, facts: Facts, ttl: float) -> bytes:
    """Write facts out, for one session and for ``ttl`` seconds."""
    return sealer.seal(_PURPOSE, rawjson.encode(facts), identifier.encode(), ttl).encode()


def seal_end(sealer: Sealer, identifier: str, ttl: float) -> bytes:
    """Write out that a session has ended, for ``ttl`` seconds."""
    return sealer.seal(_ENDED, b"", identifier.encode(), ttl).encode()


def tells_end(sealer: Sealer, identifier: str, value: bytes) -> bool:
    """Tell whether this session has ended."""
    try:
        sealer.open(_ENDED, value.decode("ascii", "replace"), identifier.encode())
    except SealError:
        return False
    return True


def opened(sealer: Sealer, identifier: str, value: bytes) -> Facts | None:
    """Read them; None for what is not ours, not of this session, or of a form or version that is not known here."""
    try:
        plain = sealer.open(_PURPOSE, value.decode("ascii", "replace"), identifier.encode())
        facts = rawjson.decode_as(Facts, plain)
    except (SealError, JsonError):
        return None
    return facts if facts.version in versions.CLIENT_LEGACY and facts.declared() is not None else None
