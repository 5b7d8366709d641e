"""Runs the official conformance suite against a server, or as one in front of a client, and counts its checks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.environments import prepare
from tests.kit.gateway import ROOT
from tests.kit.peers import environment

Suite: TypeAlias = Literal["0.1", "0.2"]
"""0.1.16, which knows the legacy era only, and 0.2.0-alpha.12; pinned in tests/environments/conformance."""

RUN_SECONDS: Final = 50
CLIENT_SECONDS: Final = 30
_FOLDER: Final = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_NODE_20: Final = Path(__file__).with_name("suite_on_node20.mjs")


@dataclass(slots=True)
class Tally:
    """One scenario: how many checks were good, and what every other one says. Remarks are no checks."""

    good: int = 0
    others: list[str] = field(default_factory=list)


def _command(suite: Suite) -> list[str | Path]:
    program = environment("conformance") / "node_modules" / f"conformance-{suite}" / "dist" / "index.js"
    return [prepare.node(), "--import", _NODE_20, program]


def run(suite: Suite, revision: str, url: str, folder: Path) -> dict[str, Tally]:
    """Run every scenario of a revision of the protocol one after the other; ``folder`` gets what the suite writes."""
    done = subprocess.run(
        [*_command(suite), "server", "--url", url, "--suite", "all", "--spec-version", revision, "-o", folder],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=RUN_SECONDS,
        check=False,
    )
    found: dict[str, Tally] = {}
    for file in sorted(folder.glob("*/checks.json")):
        named = _FOLDER.fullmatch(file.parent.name)
        assert named, file
        found[named["scenario"]] = tallied(json.loads(file.read_text()))
    assert found, f"the suite ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return found


def run_client(suite: Suite, revision: str, scenario: str, folder: Path, variables: Mapping[str, str]) -> Tally:
    """Run one scenario of the suite's servers against ``drive``; ``folder`` gets what the suite writes.

    ``variables`` are added to the driver's environment. That the suite is not content is one of the others.
    """
    told = [str(part) for part in (sys.executable, "-m", "tests.conformance.drive")]
    # The newer suite refuses to run a scenario against a revision that it was not written for; the older has no word.
    forced = ["--force"] if suite == "0.2" else []
    done = subprocess.run(
        [
            *(*_command(suite), "client", "--command", " ".join(told), "--scenario", scenario),
            *("--spec-version", revision, "-o", folder, "--timeout", str(CLIENT_SECONDS * 1000)),
            *forced,
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        # The older suite does not say which revision it wants.
        env={**os.environ, "MCP_CONFORMANCE_PROTOCOL_VERSION": revision, **variables},
        timeout=RUN_SECONDS,
        check=False,
    )
    # A scenario's name may have a slash in it.
    file = next(folder.rglob("checks.json"), None)
    tally = client_tallied(json.loads(file.read_text())) if file is not None else Tally()
    if done.returncode != 0:
        tally.others.append(f"the suite ended with {done.returncode}: {done.stderr[-3000:]}")
    return tally


def client_tallied(checks: list[dict[str, str]]) -> Tally:
    """Count what a client was checked for: some checks are made again with every request, and count once, at worst."""
    worst = ("INFO", "SUCCESS", "SKIPPED", "WARNING", "FAILURE")
    once: dict[tuple[str, str], dict[str, str]] = {}
    for check in checks:
        key = check["id"], check["name"]
        if key not in once or worst.index(check["status"]) > worst.index(once[key]["status"]):
            once[key] = check
    return tallied(list(once.values()))


def run_one(suite: Suite, scenario: str, url: str, folder: Path) -> Tally:
    """Run one scenario, also one that belongs to no revision; ``folder`` gets what the suite writes."""
    own = folder / scenario
    done = subprocess.run(
        [*_command(suite), "server", "--url", url, "--scenario", scenario, "-o", own],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=RUN_SECONDS,
        check=False,
    )
    [file] = own.glob("*/checks.json") if own.exists() else [None]
    assert file is not None, f"{scenario} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return tallied(json.loads(file.read_text()))


def tallied(checks: list[dict[str, str]]) -> Tally:
    """Count checks: only SUCCESS is good; INFO is a remark; a warning or a skipped check is neither good nor silent."""
    counts = Counter(check["status"] for check in checks)
    others = [
        f"{check['status']} {check['id']}: {check.get('errorMessage', '')[:200]}"
        for check in checks
        if check["status"] not in ("SUCCESS", "INFO")
    ]
    return Tally(counts["SUCCESS"], others)
