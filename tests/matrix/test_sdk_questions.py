"""The official libraries on both sides: whoever asks and whoever answers, no one has to know of the other's era."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from tests.kit.gateway import Gateway, eventually, free_port, serving
from tests.kit.peers import CLIENTS, HERE, Driver, driver, environment, listens

Json: TypeAlias = dict[str, Any]

PROGRAMS: Final = {"modern": ("mcp2", "modern_server.py"), "legacy": ("mcp1", "legacy_server.py")}
"""Era of a server to the line of the library that it is written with, and its program."""
SERVERS: Final = ("modern-stdio", "modern-http", "legacy-stdio", "legacy-http")
ASKS: Final[Json] = {"asks": ["elicitation", "sampling"]}
CALLS: Final = {
    "book": ({"place": "home"}, "accept: 4 at home"),
    "suggest": ({}, "soup (Suggest a dish.)"),
    "evening": ({"place": "home"}, "accept: 4 at home, soup (accept: 4)"),
}
"""Elicitation, sampling, and one after the other in the same call."""


@contextmanager
def listening(command: list[str], log: Path) -> Iterator[str]:
    """Run a server that listens for a block; yields its URL."""
    port = free_port()
    with log.open("ab") as errors:
        whole = [*command, "--port", str(port)]
        process = subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    try:
        eventually(lambda: listens(port), "the server listens", 20)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait(5)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Serve both programs on both transports."""
    folder, servers = tmp_path_factory.mktemp("questions"), {}
    with ExitStack() as stack:
        for era, (line, program) in PROGRAMS.items():
            command = [str(environment(line) / "bin" / "python"), str(HERE / program)]
            url = stack.enter_context(listening(command, folder / "peers.log"))
            servers[f"{era}-stdio"] = {"command": command[0], "args": command[1:], **ASKS}
            servers[f"{era}-http"] = {"url": url, **ASKS}
        running = stack.enter_context(serving(folder / "gateway", {"servers": servers}))
        running.await_servers(*servers)
        yield running


@pytest.fixture(scope="module", params=CLIENTS)
def client(
    request: pytest.FixtureRequest, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """One official client, connected once."""
    with driver(request.param, gateway.url, tmp_path_factory.mktemp("client") / "stderr") as connected:
        yield connected


def test_the_servers_are_of_the_eras_that_are_meant(gateway: Gateway) -> None:
    found = {name: server["era"] for name, server in gateway.status()["servers"].items()}

    assert found == {name: name.partition("-")[0] for name in SERVERS}


@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize("server", SERVERS)
def test_an_official_client_answers_an_official_server(client: Driver, server: str, tool: str) -> None:

    arguments, expected = CALLS[tool]

    result = client.ok("call", name=f"{server}__{tool}", arguments=arguments)

    assert result.get("isError", False) is False, result
    assert result["content"][0]["text"] == expected
