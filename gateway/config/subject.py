"""What the cross checks look at, and what they found."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.config.places import Loc, Mapping, Places
from gateway.config.root import Config
from gateway.errors import Problem


@dataclass(frozen=True, slots=True)
class Subject:
    """A config as written and expanded, and what of it is valid by itself.

    ``servers`` and ``clients`` are all names that were written, also of entries that are broken or off, so that a
    reference to one of those is not reported on top. ``emptied`` are places whose expansion gave nothing, ``referring``
    those that had one.
    """

    config: Config
    places: Places
    servers: tuple[str, ...]
    clients: tuple[str, ...]
    tree: Mapping
    emptied: frozenset[Loc] = frozenset()
    referring: frozenset[Loc] = frozenset()


@dataclass(slots=True)
class Findings:
    """Problems stop the gateway from starting, notes do not.

    ``settled`` are places that were already reported, or that are off: nothing more is said about what is in them.
    """

    places: Places
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settled: frozenset[Loc] = frozenset()

    def is_settled(self, loc: Loc) -> bool:
        """Tell whether nothing more is to be said about this place."""
        return any(loc[:length] in self.settled for length in range(1, len(loc) + 1))

    def problem(self, loc: Loc, message: str, hint: str = "") -> None:
        """Add a problem at a place of the config."""
        if self.is_settled(loc):
            return
        self.problems.append(self.places.problem(loc, message, hint))

    def note(self, loc: Loc, text: str) -> None:
        """Add a note at a place of the config."""
        if self.is_settled(loc):
            return
        self.notes.append(self.places.note(loc, text))
