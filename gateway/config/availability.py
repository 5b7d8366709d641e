"""What the config can say and this version cannot do yet: one table, so that nothing is silently ignored.

What a caller's access, a server's identity or an operator's overview could depend on is refused; what is merely
absent is noted. A feature becomes available by removing its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.config.places import Loc, Tree, find
from gateway.config.subject import Findings


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing this version does not do. ``where`` is a place in which ``*`` is any key or item."""

    where: Loc
    what: str
    used: Callable[[Tree], bool] = bool
    refused: bool = True
    instead: str = ""


def _is(*words: str) -> Callable[[Tree], bool]:
    return lambda value: value in words


_SERVER: Final[Loc] = ("servers", "*")
_POLICY: Final[Loc] = ("policies", "*")

FEATURES: Final = (Feature((*_SERVER, "catalog"), "catalogs per principal", _is("principal"), instead="use shared"),)


def judge_availability(tree: Tree, findings: Findings) -> list[tuple[Loc, str]]:
    """Note what is merely absent, and return what has to be refused, with its reason."""
    refused: list[tuple[Loc, str]] = []
    for feature in FEATURES:
        for loc, value in find(tree, feature.where):
            if not feature.used(value):
                continue
            text = f"not available in this version: {feature.what}"
            text += f" ({feature.instead})" if feature.instead else ""
            if feature.refused:
                refused.append((loc, text))
            else:
                findings.note(loc, text)
    return refused
