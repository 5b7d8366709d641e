"""Compares what is observed with what was recorded. Pure; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from gateway.pinning.fingerprint import Fingerprint

Aspect: TypeAlias = Literal[
    "config", "version", "server_info", "capabilities", "instructions", "definition", "new_definition"
]
_ASPECTS: Final[tuple[Aspect, ...]] = ("config", "version", "server_info", "capabilities", "instructions")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as recorded. ``name`` is ``kind:name`` of a definition, else empty.

    ``before`` and ``after`` are digests (versions as they are); empty for what was not there.
    """

    aspect: Aspect
    name: str
    before: str
    after: str


def differences(recorded: Fingerprint, observed: Fingerprint) -> tuple[Difference, ...]:
    """Return everything that differs, the server's own facts first, then definitions by name."""
    return (*_facts(recorded, observed), *_definitions(recorded, observed))


def _facts(recorded: Fingerprint, observed: Fingerprint) -> Iterator[Difference]:
    for aspect in _ASPECTS:
        before, after = str(getattr(recorded, aspect)), str(getattr(observed, aspect))
        if before != after:
            yield Difference(aspect, "", before, after)


def _definitions(recorded: Fingerprint, observed: Fingerprint) -> Iterator[Difference]:
    for name in sorted({*recorded.definitions, *observed.definitions}):
        before, after = recorded.definitions.get(name, ""), observed.definitions.get(name, "")
        if before != after:
            yield Difference("definition" if before else "new_definition", name, before, after)
