"""What ``docs/protocol.md`` says of the official suite, written from what the tests expect of every run."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from tests.conformance.expected import (
    CLIENT_RUNS,
    EXPECTATIONS,
    RUNS,
    SERVERS,
    Leg,
    checks,
    client_checks,
    fewer,
    unmet,
)

Json: TypeAlias = dict[str, Any]

BEGIN: Final = "<!-- what the official suite finds, by docs/generate_protocol.py from the tests: begin -->"
END: Final = "<!-- what the official suite finds: end -->"
VERSIONS: Final = {"0.1": "0.1.16", "0.2": "0.2.0-alpha.12"}


def render() -> str:
    """Return the tables and what is not met in them."""
    servers = [_row(["suite", "revision", *SERVERS]), _row(["---"] * (2 + len(SERVERS)))]
    servers += [_row([*_leg(leg), *(_server(leg, server) for server in SERVERS)]) for leg in RUNS]
    clients = [_row(["suite", "revision", "scenarios", "checks"]), _row(["---"] * 4)]
    clients += [
        _row([*_leg(leg), str(len(client_checks(leg))), str(sum(client_checks(leg).values()))]) for leg in CLIENT_RUNS
    ]
    return "\n".join(
        [
            "As a server, in front of the reference server in either era: scenarios that are whole, and good checks.",
            "",
            *servers,
            "",
            "What is not met:",
            "",
            *(_less(entry) for entry in EXPECTATIONS["unmet"]),
            "",
            "Where the suite itself makes fewer checks, since a server may do otherwise than the rest of them assume:",
            "",
            *(_less(entry) for entry in EXPECTATIONS["fewer"]),
            "",
            "As a client of the suite's servers; every check is good.",
            "",
            *clients,
            "",
            *(_apart(entry) for entry in EXPECTATIONS["client"]["apart"]),
        ]
    )


def _leg(leg: Leg) -> list[str]:
    suite, revision = leg
    return [VERSIONS[suite], revision]


def _server(leg: Leg, server: str) -> str:
    if server not in RUNS[leg]:
        return "–"
    short = unmet(leg, server)
    made = checks(leg) | {scenario: entry["good"] for scenario, entry in fewer(leg, server).items()}
    good = made | {scenario: entry["good"] for scenario, entry in short.items()}
    return f"{len(made) - len(short)} of {len(made)}, {sum(good.values())} of {sum(made.values())}"


def _less(entry: Json) -> str:
    suite, revision = entry["suite"].split(" at ")
    whole = EXPECTATIONS["checks"][entry["suite"]][entry["scenario"]]
    where = f"{VERSIONS[suite]} at {revision}, {', '.join(entry['servers'])}"
    return f"- {where}: `{entry['scenario']}` {entry['good']} of {whole}. {entry['reason']}"


def _apart(entry: Json) -> str:
    legs = [leg.split(" at ") for leg in entry["suites"]]
    where = ", ".join(f"{VERSIONS[suite]} at {revision}" for suite, revision in legs)
    return f"- {where}: `{entry['scenario']}` leaves {len(entry['others'])} checks out. {entry['reason']}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def written(page: str) -> str:
    """Return a page with this between its marks, whatever was there."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, "the page has no mark where the tables begin"
    assert end, "the page has no mark where the tables end"
    return f"{before}{BEGIN}\n\n{render()}\n\n{END}{after}"
