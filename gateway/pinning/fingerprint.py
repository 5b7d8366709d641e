"""What was observed of a server, reduced to digests: its own words about itself, and every definition. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.model.catalog import Kind, Listing
from gateway.protocol import rawjson

_TAG: Final = b"mcp-gateway-pin-v1\n"
_PINNED: Final = (Kind.TOOL, Kind.PROMPT, Kind.TEMPLATE)
"""Resources come and go by their nature; what a model is told to call does not."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Digests in hex. ``config`` is the keyed digest of the server's config; ``definitions`` has ``kind:name`` keys."""

    config: str
    version: str
    server_info: str
    capabilities: str
    instructions: str
    definitions: Mapping[str, str] = field(default_factory=dict)


def observe(listing: Listing, config: str) -> Fingerprint:
    """Reduce a complete listing to its fingerprint."""
    return Fingerprint(
        config=config,
        version=listing.version,
        server_info=_digest(listing.server_info),
        capabilities=_digest(listing.capabilities),
        instructions=_digest(listing.instructions),
        definitions=dict(_definitions(listing)),
    )


def _definitions(listing: Listing) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for definition in listing.definitions:
        name = f"{definition.kind}:{definition.name}"
        # Of two with one name the first is exposed, so it is the one that counts.
        if definition.kind in _PINNED and name not in seen:
            seen.add(name)
            yield name, definition.digest


def _digest(value: object) -> str:
    return hashlib.sha256(_TAG + rawjson.canonical(value)).hexdigest()
