"""Searches the tools of one catalog for whoever asks: built when first asked, off the loop; filtered hit by hit.

One per snapshot, so an index never outlives the definitions it was made of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.catalog.index import Index, weights
from gateway.model.catalog import Route

IN_PLACE: Final = 500
"""Tools up to which a search is done on the spot; more of them would hold up others."""
AT_ONCE: Final = 2
"""Searches beside the loop at once: threads are for others too."""
_STRIDE: Final = 256
"""Hits that are judged before others get a turn."""


class Words:
    """What definitions are found by, kept from one catalog to the next: most of it is the same after a change."""

    def __init__(self) -> None:
        self._known: Mapping[tuple[str, str], Mapping[str, float]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def index(self, routes: Sequence[Route]) -> Index:
        """Build an index, and know of its definitions alone from then on."""
        known, fresh = self._known, dict[tuple[str, str], Mapping[str, float]]()

        def weigh(route: Route) -> Mapping[str, float]:
            key = route.server, route.definition.digest
            fresh[key] = known[key] if key in known else weights(route)
            return fresh[key]

        index = Index.of(routes, weigh)
        self._known = fresh
        return index


class Finder:
    """The index of a catalog, once somebody needs it."""

    def __init__(self, words: Words | None = None) -> None:
        self._words = words if words is not None else Words()
        self._index: Index | None = None
        self._building = asyncio.Lock()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def find(
        self, routes: Sequence[Route], query: str, visible: Callable[[Route], bool], limit: int
    ) -> list[Route]:
        """Return the best hits among those that may be seen, at most ``limit``. ``routes`` are the same every time."""
        index = await self._built(routes)
        ranked = index.ranked(query) if len(index.routes) <= IN_PLACE else await self._aside(index, query)
        found: list[Route] = []
        for number, route in enumerate(ranked, 1):
            if visible(route):
                found.append(route)
                if len(found) == limit:
                    break
            if number % _STRIDE == 0:
                await asyncio.sleep(0)
        return found

    async def _aside(self, index: Index, query: str) -> list[Route]:
        async with self._turns:
            return await asyncio.to_thread(index.ranked, query)

    async def _built(self, routes: Sequence[Route]) -> Index:
        if self._index is None:
            async with self._building:
                if self._index is None:
                    self._index = await asyncio.to_thread(self._words.index, routes)
        return self._index
