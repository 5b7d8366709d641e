"""Which resources and tasks of one server somebody wants to hear of, and how many do. Knows no connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

MAX_WISHES: Final = 1000
"""Resources of one server that can be subscribed to at a time, and likewise tasks."""


class Full(Exception):
    """There is no room for one more resource."""


class Wishes:
    """Counts the subscribers of each resource; outlives the server's connections and its config."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, uri: str) -> bool:
        return uri in self._counts

    def uris(self) -> frozenset[str]:
        """Return every resource that is wished for."""
        return frozenset(self._counts)

    def add(self, uri: str) -> bool:
        """Note one more subscriber; True for the first one.

        Raises:
            Full: too many resources.
        """
        if uri not in self._counts and len(self._counts) >= MAX_WISHES:
            raise Full
        self._counts[uri] += 1
        return self._counts[uri] == 1

    def remove(self, uri: str) -> bool:
        """Note one subscriber less; True where nobody else is left, False also where there was none."""
        if uri not in self._counts:
            return False
        self._counts[uri] -= 1
        if self._counts[uri]:
            return False
        del self._counts[uri]
        return True


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that is wished for of one server."""

    resources: Wishes = field(default_factory=Wishes)
    tasks: Wishes = field(default_factory=Wishes)

    def __bool__(self) -> bool:
        return bool(len(self.resources) or len(self.tasks))
