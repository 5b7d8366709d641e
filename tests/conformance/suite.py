"""Runs the official conformance suite against a server and counts its checks."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.environments import prepare
from tests.kit.peers import environment

Suite: TypeAlias = Literal["0.1", "0.2"]
"""0.1.16, which knows the legacy era only, and 0.2.0-alpha.12; pinned in tests/environments/conformance."""

RUN_SECONDS: Final = 50
_FOLDER: Final = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_NODE_20: Final = Path(__file__).with_name("suite_on_node20.mjs")


@dataclass(slots=True)
class Tally:
    """One scenario: how many checks were good, and what every other one says. Remarks are no checks."""

    good: int = 0
    others: list[str] = field(default_factory=list)


def run(suite: Suite, revision: str, url: str, folder: Path) -> dict[str, Tally]:
    """Run every scenario of a revision of the protocol one after the other; ``folder`` gets what the suite writes."""
    program = environment("conformance") / "node_modules" / f"conformance-{suite}" / "dist" / "index.js"
    command: list[str | Path] = [prepare.node(), "--import", _NODE_20, program, "server", "--url", url]
    done = subprocess.run(
        [*command, "--suite", "all", "--spec-version", revision, "-o", folder],
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


def tallied(checks: list[dict[str, str]]) -> Tally:
    """Count checks: only SUCCESS is good; INFO is a remark; a warning or a skipped check is neither good nor silent."""
    counts = Counter(check["status"] for check in checks)
    others = [
        f"{check['status']} {check['id']}: {check.get('errorMessage', '')[:200]}"
        for check in checks
        if check["status"] not in ("SUCCESS", "INFO")
    ]
    return Tally(counts["SUCCESS"], others)
