"""What the gateway says of itself in both eras: versions, capabilities, identity."""

from __future__ import annotations

from gateway.endpoint import fit, listing
from gateway.endpoint.services import Moment
from gateway.model.catalog import Kind
from gateway.protocol import capabilities, versions
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import Era


def discovery(moment: Moment) -> Members:
    """Return the result of ``server/discover`` (2026-07-28 server/discover)."""
    body: Object = {
        "supportedVersions": list(versions.SUPPORTED),
        "capabilities": capabilities.offered(Era.MODERN),
    }
    return fit.own_result(listing.encoded(body | listing.hints(moment, Kind)))


def handshake(version: str) -> Members:
    """Return the result of ``initialize`` for the version agreed on (2025-11-25 basic/lifecycle §Initialization)."""
    body: Object = {
        "protocolVersion": version,
        "capabilities": capabilities.offered(Era.LEGACY),
        "serverInfo": dict(fit.IDENTITY),
    }
    return listing.encoded(body)
