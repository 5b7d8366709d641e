"""Protocol versions and the two eras they belong to (2026-07-28 basic/versioning §Terminology)."""

from __future__ import annotations

from enum import StrEnum


class Era(StrEnum):
    """``modern``: everything a request needs travels with it. ``legacy``: a handshake comes first."""

    MODERN = "modern"
    LEGACY = "legacy"


MODERN = "2026-07-28"
"""The modern version we speak on both sides."""

LATEST_LEGACY = "2025-11-25"
"""What ``initialize`` is answered with when it asks for a version we do not know."""

OLDEST_LEGACY = "2025-03-26"
"""What a request without a version header is taken for; also the only version with JSON-RPC arrays."""

SUPPORTED = (MODERN, LATEST_LEGACY, "2025-06-18", OLDEST_LEGACY)
"""Versions a client may speak with us, newest first: ``supported`` and ``supportedVersions``."""

CLIENT_LEGACY = frozenset(SUPPORTED[1:])
"""Legacy versions served at the endpoint."""

SERVER_LEGACY = frozenset({*CLIENT_LEGACY, "2024-11-05"})
"""Legacy versions accepted from a server behind us."""


def negotiate_legacy(requested: str) -> str:
    """Choose the version an ``initialize`` is answered with (2025-11-25 basic/lifecycle §Version Negotiation)."""
    return requested if requested in CLIENT_LEGACY else LATEST_LEGACY
