"""Where an issuer publishes its keys: the places of its metadata, and what a metadata document must say. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

from gateway.config.types import is_loopback
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError

_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_PORTS: Final = {"http": 80, "https": 443}


class DiscoveryError(ValueError):
    """A document that leads to no keys; the text is safe to log."""


def places(issuer: str) -> list[str]:
    """Return where to look for an issuer's metadata, in MCP's order (2026-07-28 authorization-server-discovery)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    inserted = [f"{origin}{_OAUTH}{path}", f"{origin}{_OPENID}{path}"]
    return [*inserted, f"{origin}{path}{_OPENID}"] if path else inserted


def keys_url(document: bytes, issuer: str) -> str:
    """Return the ``jwks_uri`` of a metadata document.

    Raises:
        DiscoveryError: no JSON object, another issuer's (RFC 8414 §3.3), or no address that may be used.
    """
    try:
        metadata = rawjson.decode_strict(document)
    except JsonError as error:
        raise DiscoveryError(f"the issuer's metadata is no JSON: {error.reason}") from None
    if not isinstance(metadata, dict):
        raise DiscoveryError("the issuer's metadata is no object")
    if metadata.get("issuer") != issuer:
        raise DiscoveryError("the metadata names another issuer")
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or not is_usable(url, issuer):
        raise DiscoveryError("the metadata names no https address of keys")
    return url


def is_usable(url: str, issuer: str) -> bool:
    """Whether keys may come from an address: over https, or from the very origin of an issuer on this machine (S42)."""
    parts = _split(url)
    if parts is None:
        return False
    return parts.scheme == "https" or (same_origin(url, issuer) and is_loopback(parts.hostname or ""))


def same_origin(url: str, issuer: str) -> bool:
    """Whether an address is on the issuer's own origin, which the operator wrote down."""
    one, other = _split(url), _split(issuer)
    return one is not None and other is not None and _origin(one) == _origin(other)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in _PORTS and parts.hostname and "@" not in parts.netloc else None


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]
