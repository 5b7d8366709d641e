"""Everything a request needs, frozen: read once per request, replaced as a whole on reload and list changes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from gateway.auth.authenticate import Authenticator
from gateway.catalog import guidance
from gateway.catalog.build import Part
from gateway.config.root import Config, LoadedConfig
from gateway.model.call import Call, Caller, Sort, Target
from gateway.model.catalog import Catalog, Kind, Route
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.model.principal import Principal
from gateway.pinning.verify import Verdict
from gateway.pipeline import extensions, resources
from gateway.pipeline.finder import Finder
from gateway.pipeline.interceptor import Chain
from gateway.pipeline.resources import Resolved
from gateway.policy.engine import Engine
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import Era

Sift: TypeAlias = Callable[[str, Members, Callable[[Members | None], None]], None]
"""Takes a server, what it tells of a task, and who takes that as it may be read, or None where it is withheld."""

Portray: TypeAlias = "Callable[[Snapshot, Principal], Snapshot]"
"""Makes the snapshot of one principal out of the one that is everybody's."""

_Key: TypeAlias = tuple[Kind, str, frozenset[str], frozenset[str], str | None]
_LIST_SECONDS: Final = 1.0
_MAX_LISTS: Final = 4096


def unsifted(server: str, task: Members, done: Callable[[Members | None], None]) -> None:
    """Pass everything on as it is."""
    done(task)


def unchanged(snapshot: Snapshot, principal: Principal) -> Snapshot:
    """Show everybody the same."""
    return snapshot


class Lists:
    """Lists worked out a moment ago: with many policies each costs more than all the rest of a list request.

    Kept for a second, since conditions may ask for the time of day, and never asked when a call is decided.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[_Key, tuple[float, tuple[Route, ...]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: _Key, make: Callable[[], tuple[Route, ...]]) -> tuple[Route, ...]:
        """Return the kept list, or make and keep it."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < _LIST_SECONDS:
            return kept[1]
        if len(self._kept) >= _MAX_LISTS:
            self._kept.clear()
        made = make()
        self._kept[key] = (now, made)
        return made


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Config, catalog, policies and chain of one moment.

    ``digest`` names the moment: pages of one list walk belong to the same one. ``withheld`` are servers of which
    nothing may be reached, listed or not. ``own`` are servers that list by who asks: what the catalog has of them is
    for operators, and what a principal sees of them is in the snapshot ``of`` that principal alone.
    """

    loaded: LoadedConfig
    catalog: Catalog
    engine: Engine
    authenticator: Authenticator
    chain: Chain
    digest: str = ""
    withheld: frozenset[str] = frozenset()
    sift: Sift = field(default=unsifted, compare=False)
    lists: Lists = field(default_factory=Lists, compare=False)
    finder: Finder = field(default_factory=Finder, compare=False)
    own: tuple[str, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict, compare=False)
    """What the catalog was assembled from, by server."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict, compare=False)
    portray: Portray = field(default=unchanged, compare=False)

    def of(self, principal: Principal) -> Snapshot:
        """Return this moment as a principal sees it, by what is known of its own lists now."""
        return self.portray(self, principal) if self.own else self

    @property
    def config(self) -> Config:
        return self.loaded.config

    def sees(self, principal: Principal, view: str | None, target: Target) -> bool:
        """Tell whether a target may be listed for, and possibly called by, a principal."""
        return self.engine.visible(principal, target, view)

    def listed(self, kind: Kind, principal: Principal, view: str | None) -> tuple[Route, ...]:
        """Return what a principal's list of one kind holds, in catalog order."""
        return self.lists.get(
            (kind, principal.id, principal.groups, principal.scopes, view),
            lambda: tuple(
                route for route in self.catalog.by_kind.get(kind, ()) if self.sees(principal, view, target_of(route))
            ),
        )

    def resolve(self, kind: Kind, exposed: str, principal: Principal, view: str | None) -> Route | None:
        """Return the route of an exposed name, None alike for unknown and hidden ones."""
        route = self.catalog.by_name.get((kind, exposed))
        return route if route is not None and self.sees(principal, view, target_of(route)) else None

    async def find(self, query: str, limit: int, principal: Principal, view: str | None) -> list[Route]:
        """Return the visible tools that fit some words, best first."""
        tools = self.catalog.by_kind.get(Kind.TOOL, ())
        return await self.finder.find(tools, query, lambda route: self.sees(principal, view, target_of(route)), limit)

    def offers(self, era: Era, principal: Principal, view: str | None) -> Object:
        """Return the extensions to offer to a principal's client of an era."""
        return extensions.offered(self.catalog, era, partial(self.sees, principal, view))

    def guidance(self, principal: Principal, view: str | None) -> str:
        """Return the instructions for a principal's client."""
        return guidance.told(self.catalog, partial(self.sees, principal, view))

    def owner(self, method: str, principal: Principal, caller: Caller) -> Target | None:
        """Return what a method of an extension is about; None where no server, or more than one, can be meant."""
        visible = partial(self.sees, principal, caller.view)
        return extensions.owner(self.catalog, method, caller.capabilities, caller.era, visible)

    def hidden(self, kind: Sort, exposed: str) -> Target | None:
        """Return what an exposed name or a listed URI stands for, whoever asks: for the operator's log alone."""
        if not isinstance(kind, Kind):
            return None
        route = self.catalog.by_name.get((kind, exposed))
        found = (route,) if route is not None else self.catalog.by_uri.get((kind, exposed), ())
        return target_of(found[0]) if found else None

    def resolve_uri(self, uri: str, principal: Principal, view: str | None) -> Resolved:
        """Return where a resource URI leads for this principal."""
        visible = partial(self.sees, principal, view)
        servers = [name for name in self.config.servers if name not in self.withheld]
        return resources.resolve(self.catalog, servers, uri, visible)

    def bare_uri(self, route: Route, principal: Principal, view: str | None) -> str:
        """Return how a resource or template is shown: bare, or with its server where several visible ones have it."""
        if route.kind is Kind.RESOURCE:
            return self.shown_uri(route.server, route.name, principal, view)
        rivals = self.catalog.by_uri.get((route.kind, route.name), ())
        seen = [rival for rival in rivals if self.sees(principal, view, target_of(rival))]
        return route.name if len(seen) < 2 else resources.qualified(route.server, route.name)

    def shown_uri(self, server: str, uri: str, principal: Principal, view: str | None) -> str:
        """Return how a server's resource is shown to a principal, whether it is listed or not."""
        return resources.shown(self.catalog, server, uri, partial(self.sees, principal, view))

    async def run(self, call: Call, exchange: Exchange) -> Outcome:
        """Send a call through the chain."""
        return await self.chain.run(call, exchange)


def target_of(route: Route) -> Target:
    """Return what a route is about, in policy terms."""
    return Target.of(route)


def snapshot_digest(config_digest: str, catalog: Catalog) -> str:
    """Name a moment by its config and every definition in its catalog."""
    hasher = hashlib.sha256(config_digest.encode())
    for route in catalog.routes:
        hasher.update(f"\n{route.kind} {route.server} {route.exposed} {route.definition.digest}".encode())
    return hasher.hexdigest()
