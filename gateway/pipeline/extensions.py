"""Which extensions a client is offered, and which server a method of an extension leads to. Pure.

An extension belongs to the servers that declare it: towards a client the gateway offers what a server visible to it
offers (contract: Capabilities; 2026-07-28 basic/versioning §Extension Negotiation).
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.model.call import Beyond, Target
from gateway.model.catalog import Catalog, Kind, Listing
from gateway.protocol import capabilities
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era


def offered(catalog: Catalog, client: Era, visible: Callable[[Target], bool]) -> Object:
    """Return the extensions to offer to a client of an era; ``visible`` judges targets as for its lists."""
    offers = [(name, _carried(listing, client)) for name, listing in catalog.listings.items()]
    return capabilities.merged(offer for name, offer in offers if offer and _sees(catalog, name, visible))


def owner(
    catalog: Catalog, method: str, declared: Object, client: Era, visible: Callable[[Target], bool]
) -> Target | None:
    """Return what a method of an unknown extension is about, None where it leads nowhere or could lead to several.

    It leads to the only server that offers an extension which the client declares too, and which may have methods
    this gateway does not know. ``visible`` has to allow that method there.
    """
    mine = capabilities.opaque(capabilities.extensions_of(declared))
    found = [
        target
        for name, listing in catalog.listings.items()
        if mine & _carried(listing, client).keys() and visible(target := Target(Beyond.METHOD, name, method))
    ]
    return found[0] if len(found) == 1 else None


def unlisted(catalog: Catalog) -> list[Target]:
    """Return what policies can be about although no list has it: views of tools, and methods of some kind ("")."""
    views = [Target(Kind.RESOURCE, tool.server, uri) for uri, tools in catalog.by_view.items() for tool in tools]
    owners = [name for name, each in catalog.listings.items() if capabilities.opaque(_carried(each, Era.MODERN))]
    return [*views, *(Target(Beyond.METHOD, name, "") for name in owners)]


def _carried(listing: Listing, client: Era) -> Object:
    server = Era.MODERN if listing.era == Era.MODERN.value else Era.LEGACY
    return capabilities.carried(listing.capabilities, client, server)


def _sees(catalog: Catalog, server: str, visible: Callable[[Target], bool]) -> bool:
    """Tell whether a client may know of a server: it sees anything of it, or may use methods of it at all."""
    return visible(Target(Beyond.METHOD, server, "")) or any(
        route.server == server and visible(Target.of(route)) for route in catalog.routes
    )
