"""The last complete lists of every server, those of the last run included, while its config leads to the same one."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.catalog.keep import Keep
from gateway.config.root import LoadedConfig
from gateway.config.servers import Server
from gateway.downstream.fingerprint import offering
from gateway.model.catalog import Catalog, Kind, Listing
from gateway.state.documents import Documents
from gateway.telemetry.logs import get_logger

_log = get_logger("catalog")


class Listings:
    """Lists by server and what decides of its config what it lists: what another server listed says nothing here.

    A server whose other settings change, or whose credentials are renewed, is another process or session for the pool;
    its tools stay listed meanwhile, and calls wait for it as after any restart.
    """

    def __init__(self, documents: Documents, key: bytes) -> None:
        self._documents = documents
        self._keep = Keep(documents)
        self._key = key
        self._known: dict[tuple[str, str], Listing] = {}

    async def refresh(self, loaded: LoadedConfig) -> None:
        """Look for lists that were kept of servers that none are known of, beside the loop."""
        try:
            self.take(await self._documents.beside(self.look, loaded))
        except OSError as error:
            _log.warning("kept_catalogs_not_read", reason=error.strerror)

    def take(self, found: Mapping[tuple[str, str], Listing]) -> None:
        """Put lists in force that were found; what a server said meanwhile is newer."""
        self._known = {**found, **self._known}

    def look(self, loaded: LoadedConfig) -> Mapping[tuple[str, str], Listing]:
        """Return lists that were kept of servers that none are known of. Blocks."""
        found: dict[tuple[str, str], Listing] = {}
        for name, server in loaded.config.servers.items():
            digest = offering(name, server, self._key)
            listing = self._keep.load(name, digest) if (name, digest) not in self._known else None
            if listing is not None:
                found[name, digest] = listing
        return found

    def known(self, loaded: LoadedConfig) -> dict[str, Listing]:
        """Return the lists of servers that are configured as they were then."""
        known: dict[str, Listing] = {}
        for name, server in loaded.config.servers.items():
            listing = self._known.get((name, offering(name, server, self._key)))
            if listing is not None:
                known[name] = listing
        return known

    def put(self, server: Server, listing: Listing) -> Listing | None:
        """Take fresh lists; returns those that they replace."""
        digest = offering(listing.server, server, self._key)
        before = self._known.get((listing.server, digest))
        self._known = {key: value for key, value in self._known.items() if key[0] != listing.server}
        self._known[listing.server, digest] = listing
        return before

    async def keep(self, server: Server, listing: Listing) -> None:
        """Write lists for the next start, beside the loop."""
        digest = offering(listing.server, server, self._key)
        try:
            await self._documents.beside(self._keep.store, listing, digest)
        except OSError as error:
            _log.warning("catalog_not_kept", server=listing.server, reason=error.strerror)

    def retain(self, servers: Collection[str]) -> None:
        """Forget all others."""
        self._known = {key: value for key, value in self._known.items() if key[0] in servers}


def changed_kinds(before: Listing | None, now: Listing) -> frozenset[Kind]:
    """Return the kinds whose lists are not what they were."""
    if before is None:
        return frozenset(Kind)
    return frozenset(kind for kind in Kind if _digests(before, kind) != _digests(now, kind))


def _digests(listing: Listing, kind: Kind) -> list[tuple[str, str]]:
    return [(item.name, item.digest) for item in listing.of(kind)]


def unseen(server: str, changed: frozenset[Kind], before: Catalog, now: Catalog) -> frozenset[Kind]:
    """Return the kinds of which everything that changed is held back, so that no client reads another list."""
    return frozenset(kind for kind in changed if _routes(before, server, kind) == _routes(now, server, kind))


def _routes(catalog: Catalog, server: str, kind: Kind) -> list[tuple[str, str]]:
    routes = catalog.by_kind.get(kind, ())
    return [(route.exposed, route.definition.digest) for route in routes if route.server == server]
