"""The official conformance suite, against the reference server and against the gateway in front of it.

Every cell of eras is run: clients of both, servers of both, over HTTP and over pipes. What must come out is in
``expectations.yaml``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.conformance.expected import RUNS, SERVERS, differences
from tests.conformance.suite import Suite, run
from tests.kit.field import scripted
from tests.kit.gateway import ROOT, eventually, free_port, serving
from tests.kit.peers import listens, notes
from tests.kit.wire import INFO, LEGACY

Json: TypeAlias = dict[str, Any]

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


@pytest.mark.parametrize(("server", "suite", "revision"), LEGS, indirect=["server"], ids=lambda part: str(part))
def test_the_official_suite_finds_every_check_good(
    server: tuple[str, int], suite: Suite, revision: str, tmp_path: Path
) -> None:
    name, port = server

    found = run(suite, revision, f"http://localhost:{port}/mcp", tmp_path)

    assert differences((suite, revision), name, found) == []


@pytest.mark.parametrize("name", ["http modern", "stdio modern"])
def test_a_modern_server_of_the_suite_knows_no_handshake(name: str, tmp_path: Path) -> None:
    """Else a legacy client could be served without the gateway between the eras."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    if name == "http modern":
        with reference("modern", tmp_path / "log") as port:
            body = json.dumps(message).encode()
            asked = Request(f"http://127.0.0.1:{port}/mcp", body, {"Content-Type": "application/json"})
            with pytest.raises(HTTPError) as refused, urlopen(asked, timeout=10):
                pass
            answer = json.loads(refused.value.read())
    else:
        command = [sys.executable, "-m", "tests.conformance.over_stdio", "modern"]
        line = json.dumps(message) + "\n"
        said = subprocess.run(command, cwd=ROOT, input=line, capture_output=True, text=True, timeout=20, check=True)
        answer = json.loads(said.stdout)

    assert answer["error"]["code"] == -32602
