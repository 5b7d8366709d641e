"""The four lists: complete, per principal, in pages of our own, joined from definitions that were encoded once.

Cursors are sealed to principal, method, view and snapshot, so that a page can only follow the page it was given with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.endpoint import fit, on_demand
from gateway.endpoint.services import Moment
from gateway.errors import RequestError
from gateway.model.call import Caller
from gateway.model.catalog import CAPABILITY_OF, KIND_OF_METHOD, LIST_KEY, LIST_METHOD, Kind, Listing, Route
from gateway.model.principal import Principal
from gateway.protocol import apps, codes, rawjson, results
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import Era
from gateway.state.sealing import Sealer, SealError

_PURPOSE: Final = "cursor"


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a list, and how it is to be written."""

    principal: Principal
    caller: Caller


def page(moment: Moment, sealer: Sealer, method: str, reader: Reader, cursor: object) -> Members:
    """Return one page of a list; ``cursor`` is None for the first one.

    Raises:
        RequestError: −32602 for a cursor that is not this principal's, list's, view's and snapshot's (S75).
    """
    kind = KIND_OF_METHOD[method]
    start = 0 if cursor is None else _open(moment, sealer, kind, reader, cursor)
    if kind is Kind.TOOL and on_demand.applies(moment.config, reader.caller.view):
        listed = results.list_page(LIST_KEY[kind], on_demand.definitions(reader.caller.era), {})
        return _finished(moment, kind, reader, listed)
    routes = moment.listed(kind, reader.principal, reader.caller.view)
    end = start + moment.config.naming.page_size
    items = [wire_of(moment, route, reader) for route in routes[start:end]]
    extra: Object = {}
    if end < len(routes):
        extra["nextCursor"] = sealer.seal(_PURPOSE, str(end).encode(), _context(moment, kind, reader))
    return _finished(moment, kind, reader, results.list_page(LIST_KEY[kind], items, extra))


def _finished(moment: Moment, kind: Kind, reader: Reader, listed: Members) -> Members:
    if reader.caller.era is Era.LEGACY:
        return listed
    return fit.own_result(listed | encoded(hints(moment, (kind,))))


def size(moment: Moment, method: str, reader: Reader) -> int:
    """Return how many items all pages of a list hold together."""
    kind = KIND_OF_METHOD[method]
    if kind is Kind.TOOL and on_demand.applies(moment.config, reader.caller.view):
        return len(on_demand.definitions(reader.caller.era))
    return len(moment.listed(kind, reader.principal, reader.caller.view))


def _open(moment: Moment, sealer: Sealer, kind: Kind, reader: Reader, cursor: object) -> int:
    try:
        return int(sealer.open(_PURPOSE, cursor if isinstance(cursor, str) else "", _context(moment, kind, reader)))
    except SealError:
        raise RequestError(codes.INVALID_PARAMS, "Invalid cursor: start again from the first page") from None


def _context(moment: Moment, kind: Kind, reader: Reader) -> bytes:
    return rawjson.canonical([reader.principal.id, LIST_METHOD[kind], reader.caller.view, moment.digest])


def wire_of(moment: Moment, route: Route, reader: Reader) -> bytes:
    """Return a definition as this reader sees it; the bytes of the catalog unless something must differ."""
    wire = route.wire
    if route.kind in (Kind.RESOURCE, Kind.TEMPLATE):
        shown = moment.bare_uri(route, reader.principal, reader.caller.view)
        wire = wire if shown == route.name else route.definition.encoded(shown)
    wire = _with_views(moment, route, reader, wire) if route.definition.views else wire
    if route.kind is Kind.TOOL and reader.caller.era is Era.LEGACY:
        return fit.legacy_definition(wire, route.definition)
    served = moment.catalog.listings.get(route.server)
    if route.kind is Kind.TOOL and served is not None and served.era == Era.LEGACY.value:
        return fit.modern_definition(wire, route.definition)
    return wire


def _with_views(moment: Moment, route: Route, reader: Reader, wire: bytes) -> bytes:
    """Make a tool name its ``ui://`` resources as the reader can read them (MCP Apps §Resource Discovery)."""
    shown = {
        uri: moment.shown_uri(route.server, uri, reader.principal, reader.caller.view) for uri in route.definition.views
    }
    if all(form == uri for uri, form in shown.items()):
        return wire
    return rawjson.encode(apps.rewritten(rawjson.decode_members(wire), lambda uri: shown.get(uri, uri)))


def hints(moment: Moment, kinds: Iterable[Kind]) -> Object:
    """Return ``ttlMs`` and ``cacheScope`` for lists of these kinds (server/utilities/caching; contract: Lists).

    Without any listing there is nothing to be fresh: the time is 0, also where a principal's own are still missing.
    Lists that depend on who asks are nobody else's, whoever it is that asked.
    """
    listings = list(moment.catalog.listings.values())
    features = {CAPABILITY_OF[kind] for kind in kinds}
    default = int(moment.config.naming.list_ttl * 1000)
    times = [results.bounded_ttl(_ttl(listing, features, default)) for listing in listings]
    public = moment.loaded.anonymous and bool(listings) and all(listing.public for listing in listings)
    public = public and not moment.own
    if any(server not in moment.catalog.listings for server in moment.own):
        times.append(0)
    return {"ttlMs": min(times, default=0), "cacheScope": "public" if public else "private"}


def _ttl(listing: Listing, features: Iterable[str], default: int) -> int:
    if listing.ttl_ms is not None:
        return listing.ttl_ms
    return default if all(_announces(listing, feature) for feature in features) else 0


def _announces(listing: Listing, feature: str) -> bool:
    """Tell whether a server reports changes of a list; one without the feature has a list that stays empty."""
    offered = listing.capabilities.get(feature)
    return offered is None or (isinstance(offered, dict) and offered.get("listChanged") is True)


def encoded(values: Object) -> Members:
    """Encode members for use among raw ones."""
    return {name: rawjson.raw(value) for name, value in values.items()}
