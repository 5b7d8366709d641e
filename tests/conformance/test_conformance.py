"""The official conformance suite, against the reference server and against the gateway in front of it.

Every cell of eras is run: clients of both, servers of both, over HTTP and over pipes. What must come out is in
``expectations.yaml``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.conformance.suite import Suite, Tally, run
from tests.kit.field import scripted
from tests.kit.gateway import ROOT, eventually, free_port, serving
from tests.kit.peers import listens, notes

Json: TypeAlias = dict[str, Any]

EXPECTATIONS: Final[Json] = yaml.safe_load(Path(__file__).with_name("expectations.yaml").read_text())
SERVERS: Final = ("direct", "http legacy", "http modern", "stdio legacy", "stdio modern")
FEW: Final = ("direct", "http legacy")
RUNS: Final[dict[tuple[Suite, str], tuple[str, ...]]] = {
    ("0.1", "2025-11-25"): FEW,
    ("0.2", "2025-06-18"): FEW,
    ("0.2", "2025-11-25"): SERVERS,
    ("0.2", "2026-07-28"): SERVERS,
}
"""Suite and revision to the servers; what is older asks little that is new, so a few are enough."""
LEGS: Final = [(server, *leg) for server in SERVERS for leg, servers in RUNS.items() if server in servers]
ASKS: Final[Json] = {"asks": ["elicitation", "sampling", "roots"]}
IMPATIENT: Final[Json] = {"timeouts": {"asks": "1s"}}
"""The suite leaves questions open and goes on. On a pipe the next call waits until the one before it is given up."""


@contextmanager
def reference(era: str, log: Path) -> Iterator[int]:
    """Run the reference server over HTTP for a block."""
    port = free_port()
    with log.open("ab") as errors:
        command = [sys.executable, "-m", "tests.conformance.over_http", era, str(port)]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    try:
        eventually(lambda: listens(port), "the reference server listens", 20)
        yield port
    finally:
        process.kill()
        process.wait(5)


@contextmanager
def behind_gateway(folder: Path, server: Json) -> Iterator[int]:
    """Serve the reference server without a namespace, beside two others that have one."""
    others = {"notes": notes(folder, "notes").config, "scripted": scripted("--era", "legacy")}
    everything = {"reference": {**server, **ASKS, "namespace": ""}, **others}
    with serving(folder / "gateway", {"servers": everything}) as gateway:
        gateway.await_servers(*everything)
        yield gateway.port


@contextmanager
def served(name: str, folder: Path) -> Iterator[int]:
    """Run one of ``SERVERS`` for a block."""
    transport, _, era = name.partition(" ")
    if transport == "stdio":
        # One process for all, so that a client's call can change the lists which the gateway sees.
        arguments = ["-m", "tests.conformance.over_stdio", era]
        command = {"command": sys.executable, "args": arguments, "cwd": str(ROOT), "isolation": "shared"}
        with behind_gateway(folder, {**command, **IMPATIENT}) as port:
            yield port
        return
    with reference(era or "dual", folder / "reference.log") as port:
        if name == "direct":
            yield port
            return
        with behind_gateway(folder, {"url": f"http://127.0.0.1:{port}/mcp"}) as front:
            yield front


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Return the name of a server and its port."""
    name: str = request.param
    with served(name, tmp_path_factory.mktemp(name.replace(" ", "-"))) as port:
        yield name, port


def unmet(suite: str, server: str) -> dict[str, Json]:
    """Return what is not expected of a server, by scenario."""
    entries: list[Json] = EXPECTATIONS["unmet"]
    return {entry["scenario"]: entry for entry in entries if entry["suite"] == suite and server in entry["servers"]}


def differences(suite: str, server: str, found: dict[str, Tally]) -> list[str]:
    """Compare what was found with what is expected; what is met must be met without a warning or a skipped check."""
    told = []
    excused = unmet(suite, server)
    checks: dict[str, int] = EXPECTATIONS["checks"][suite]
    for scenario in [*checks, *(found.keys() - checks.keys())]:
        tally = found.get(scenario, Tally())
        wanted = excused[scenario]["good"] if scenario in excused else checks.get(scenario)
        if tally.good != wanted or (tally.others and scenario not in excused):
            told.append(f"{scenario}: {tally.good} checks are good, {wanted} expected; {'; '.join(tally.others)}")
    return told


@pytest.mark.parametrize(("server", "suite", "revision"), LEGS, indirect=["server"], ids=lambda part: str(part))
def test_the_official_suite_finds_every_check_good(
    server: tuple[str, int], suite: Suite, revision: str, tmp_path: Path
) -> None:
    name, port = server

    found = run(suite, revision, f"http://localhost:{port}/mcp", tmp_path)

    assert differences(f"{suite} at {revision}", name, found) == []


def test_what_is_not_met_is_part_of_a_suite_less_than_whole_and_has_a_reason() -> None:
    for entry in EXPECTATIONS["unmet"]:
        assert set(entry) == {"suite", "servers", "scenario", "good", "reason"}
        assert 0 <= entry["good"] < EXPECTATIONS["checks"][entry["suite"]][entry["scenario"]]
        assert set(entry["servers"]) <= set(SERVERS)
        assert len(entry["reason"]) > 20


def test_a_scenario_that_became_better_is_told_as_well_as_one_that_became_worse_or_warns() -> None:
    suite, server = "0.1 at 2025-11-25", "direct"
    found = {scenario: Tally(count) for scenario, count in EXPECTATIONS["checks"][suite].items()}
    found["server-sse-polling"] = Tally(1)
    found["ping"] = Tally(0)
    found["tools-list"].others.append("WARNING x: y")
    found["of-tomorrow"] = Tally(1)

    told = differences(suite, server, found)

    assert [line.partition(":")[0] for line in told] == ["ping", "tools-list", "server-sse-polling", "of-tomorrow"]
