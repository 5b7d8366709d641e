"""What the official suite is run on and must find there; ``expectations.yaml`` has the numbers and the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from tests.conformance.suite import Suite, Tally

Json: TypeAlias = dict[str, Any]
Leg: TypeAlias = tuple[Suite, str]
"""Suite and revision of the protocol."""

EXPECTATIONS: Final[Json] = yaml.safe_load(Path(__file__).with_name("expectations.yaml").read_text())

SERVERS: Final = ("direct", "http legacy", "http modern", "stdio legacy", "stdio modern")
"""The reference server itself, and the same behind the gateway."""
FEW: Final = ("direct", "http legacy")
RUNS: Final[dict[Leg, tuple[str, ...]]] = {
    ("0.1", "2025-11-25"): FEW,
    ("0.2", "2025-06-18"): FEW,
    ("0.2", "2025-11-25"): SERVERS,
    ("0.2", "2026-07-28"): SERVERS,
}
"""The gateway as a server. What is older asks little that is new, so a few servers are enough."""
CLIENT_RUNS: Final[tuple[Leg, ...]] = (
    ("0.1", "2025-06-18"),
    ("0.1", "2025-11-25"),
    ("0.2", "2025-06-18"),
    ("0.2", "2025-11-25"),
    ("0.2", "2026-07-28"),
)
"""The gateway as a client."""


def named(leg: Leg) -> str:
    """Return how the expectations call a leg."""
    return " at ".join(leg)


def checks(leg: Leg) -> dict[str, int]:
    """Return the good checks of a conforming server by scenario."""
    found: dict[str, int] = EXPECTATIONS["checks"][named(leg)]
    return found


def client_checks(leg: Leg) -> dict[str, int]:
    """Return the same of a client."""
    found: dict[str, int] = EXPECTATIONS["client"]["checks"][named(leg)]
    return found


def unmet(leg: Leg, server: str) -> dict[str, Json]:
    """Return what is not expected of a server, by scenario."""
    return _entries("unmet", leg, server)


def fewer(leg: Leg, server: str) -> dict[str, Json]:
    """Return where fewer checks are made of a server, by scenario."""
    return _entries("fewer", leg, server)


def _entries(key: str, leg: Leg, server: str) -> dict[str, Json]:
    entries: list[Json] = EXPECTATIONS[key]
    rows = [entry for entry in entries if entry["suite"] == named(leg) and server in entry["servers"]]
    return {entry["scenario"]: entry for entry in rows}


def apart(leg: Leg, scenario: str) -> list[str]:
    """Return what the suite says of checks of a client that are neither good nor bad."""
    entries: list[Json] = EXPECTATIONS["client"]["apart"]
    rows = [entry for entry in entries if named(leg) in entry["suites"] and entry["scenario"] == scenario]
    return [words for entry in rows for words in entry["others"]]


def differences(leg: Leg, server: str, found: dict[str, Tally]) -> list[str]:
    """Compare what was found with what is expected; what is met must be met without a warning or a skipped check."""
    told = []
    excused, wanted_of = unmet(leg, server), checks(leg)
    less = {**fewer(leg, server), **excused}
    for scenario in [*wanted_of, *(found.keys() - wanted_of.keys())]:
        tally = found.get(scenario, Tally())
        wanted = less[scenario]["good"] if scenario in less else wanted_of.get(scenario)
        if tally.good != wanted or (tally.others and scenario not in excused):
            told.append(f"{scenario}: {tally.good} checks are good, {wanted} expected; {'; '.join(tally.others)}")
    return told


def client_differences(leg: Leg, found: dict[str, Tally]) -> list[str]:
    """Compare the same of a client; what is apart must be said, and nothing else but good."""
    told = []
    for scenario, wanted in client_checks(leg).items():
        tally, allowed = found.get(scenario, Tally()), apart(leg, scenario)
        others = [other for other in tally.others if not any(words in other for words in allowed)]
        unsaid = [words for words in allowed if not any(words in other for other in tally.others)]
        if tally.good != wanted or others or unsaid:
            told.append(f"{scenario}: {tally.good} checks are good, {wanted} expected; {others}; unsaid: {unsaid}")
    return told
