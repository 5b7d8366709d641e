"""The suite's scenarios of the tasks extension, through the gateway in front of a server that runs tasks.

They belong to no revision of the core, so that the suite runs them one by one and only when asked to. Every check is to
be good; what is good through the gateway is no less so at the server itself, which is not run for that reason.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import yaml

from tests.conformance.suite import Tally, run_one
from tests.kit.gateway import ROOT, eventually, free_port, serving
from tests.kit.peers import listens

Json: TypeAlias = dict[str, Any]

CHECKS: Final[dict[str, int]] = yaml.safe_load(Path(__file__).with_name("expectations.yaml").read_text())["tasks"]
SERVER: Final = [sys.executable, "-m", "tests.conformance.tasking", "modern"]
AT_ONCE: Final = 4


@contextmanager
def listening() -> Iterator[str]:
    """Run the server over HTTP for a block; returns its URL."""
    port = free_port()
    process = subprocess.Popen([*SERVER, str(port)], cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: listens(port), "the server listens", 20)
        yield f"http://localhost:{port}/mcp"
    finally:
        process.kill()
        process.wait(5)


@contextmanager
def behind_gateway(folder: Path, config: Json) -> Iterator[str]:
    """Serve it through a gateway for a block; returns the gateway's URL."""
    asks = ["elicitation", "sampling", "roots"]
    folder.mkdir()
    with serving(folder, {"servers": {"tasking": {**config, "asks": asks, "namespace": ""}}}) as gateway:
        gateway.await_servers("tasking")
        yield f"http://localhost:{gateway.port}/mcp"


@pytest.mark.timeout(180)
def test_the_suite_finds_every_check_of_tasks_good(tmp_path: Path) -> None:
    """Half of the scenarios over each transport, since each costs a second of a whole core and there are many."""
    command = {"command": SERVER[0], "args": SERVER[1:], "cwd": str(ROOT)}
    with (
        listening() as direct,
        behind_gateway(tmp_path / "http", {"url": direct}) as over_http,
        behind_gateway(tmp_path / "stdio", command) as over_stdio,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        urls = [over_http if number % 2 else over_stdio for number, _ in enumerate(CHECKS)]
        tallies = pool.map(lambda scenario, url: run_one("0.2", scenario, url, tmp_path), CHECKS, urls)
        found = dict(zip(CHECKS, tallies, strict=True))
    assert found == {scenario: Tally(count) for scenario, count in CHECKS.items()}
