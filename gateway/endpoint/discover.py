"""What the gateway says of itself in both eras: versions, capabilities, identity."""

from __future__ import annotations

from gateway.endpoint import fit, listing
from gateway.endpoint.services import Moment
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.protocol import capabilities, versions
from gateway.protocol import tasks as wire
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import Era


def discovery(moment: Moment, principal: Principal, view: str | None) -> Members:
    """Return the result of ``server/discover`` for a principal (2026-07-28 server/discover)."""
    extensions = moment.offers(Era.MODERN, principal, view)
    body: Object = {
        "supportedVersions": list(versions.SUPPORTED),
        "capabilities": capabilities.offered(extensions),
    }
    body |= _told(moment.guidance(principal, view))
    return fit.own_result(listing.encoded(body | listing.hints(moment, Kind)))


def handshake(version: str, extensions: Object, guidance: str = "", *, runs_tasks: bool = False) -> Members:
    """Return the result of ``initialize`` for the version agreed on (2025-11-25 basic/lifecycle §Initialization)."""
    own: Object = {"tasks": wire.OFFERED} if runs_tasks else {}
    body: Object = {
        "protocolVersion": version,
        "capabilities": capabilities.offered(extensions) | own,
        "serverInfo": dict(fit.IDENTITY),
    }
    return listing.encoded(body | _told(guidance))


def _told(guidance: str) -> Object:
    return {"instructions": guidance} if guidance else {}
