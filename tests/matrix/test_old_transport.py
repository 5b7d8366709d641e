"""A real server with the HTTP+SSE transport of 2024-11-05 behind the gateway (2025-11-25 basic/transports)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments import prepare
from tests.kit.gateway import Gateway, eventually, free_port, serving
from tests.kit.peers import driver, environment, listens


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Put a gateway in front of one such server, once found by itself and once named."""
    folder, port = tmp_path_factory.mktemp("old"), free_port()
    everything = environment("node") / "node_modules" / "@modelcontextprotocol" / "server-everything"
    command: list[str | Path] = [prepare.node(), everything / "dist" / "index.js", "sse"]
    with (folder / "peer.log").open("ab") as log:
        variables = {**os.environ, "PORT": str(port)}
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)
    try:
        eventually(lambda: listens(port), "the server listens", 20)
        url = f"http://127.0.0.1:{port}/sse"
        servers = {"found": {"url": url}, "named": {"url": url, "transport": "sse"}}
        with serving(folder / "gateway", {"servers": servers}) as running:
            running.await_servers("found", "named")
            yield running
    finally:
        process.kill()
        process.wait(5)


@pytest.mark.parametrize("client", ["mcp1-legacy", "ts2-modern"])
def test_clients_of_either_era_use_a_server_of_the_oldest_transport(
    gateway: Gateway, client: str, tmp_path: Path
) -> None:
    with driver(client, gateway.url, tmp_path / "stderr") as connected:
        names = {tool["name"] for tool in connected.ok("tools")["tools"]}
        for server in ("found", "named"):
            assert f"{server}__echo" in names
            answer = connected.ok("call", name=f"{server}__echo", arguments={"message": server})
            assert answer["content"][0]["text"] == f"Echo: {server}"
    ends = [record for record in gateway.records() if record["event"] == "call.end"]
    assert {record["downstream"]["transport"] for record in ends} == {"sse"}
