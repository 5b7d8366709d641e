"""Clients that do not read: what waits for them counts against nobody but themselves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.clients import LegacySession, ask, modern
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, eventually, serving

PLACES = 2
SIZE = 12_000_000
"""More than the sockets between two processes hold."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("slow")
    servers = {"old": scripted("--era", "legacy", "--name", "old"), "new": scripted("--era", "modern", "--name", "new")}
    with serving(folder, {"servers": servers, "limits": {"in_flight": PLACES}}) as running:
        running.await_servers(*servers)
        yield running


def deaf(port: int, request: bytes) -> socket.socket:
    """Send a request and read nothing of its answer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", port))
    made.sendall(request)
    return made


def in_flight(gateway: Gateway) -> int:
    """Return how many calls run at servers."""
    return sum(server["in_flight"] for server in gateway.status()["servers"].values())


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_answer_that_is_not_read_keeps_its_place_among_the_calls_of_its_client(
    gateway: Gateway, era: str
) -> None:
    """S12, S86: so that one client cannot pile answers up; whoever reads again, or leaves, has its places back."""
    params = {"name": "new__big", "arguments": {"size": SIZE}}
    session = LegacySession(gateway.port)
    if era == "legacy":
        await session.begin()

    def request(identifier: int) -> bytes:
        if era == "legacy":
            return session.request("tools/call", params, identifier=identifier)
        return modern("tools/call", params, identifier=identifier)

    def ended() -> int:
        return sum(record["event"] == "call.end" for record in gateway.records())

    before = ended()
    with ExitStack() as stack:
        for identifier in range(PLACES):
            stack.enter_context(deaf(gateway.port, request(identifier + 1)))
        eventually(lambda: ended() == before + PLACES and in_flight(gateway) == 0, "their servers have answered")
        small = {"name": "old__echo", "arguments": {"text": "hi"}}
        refused = (await ask(gateway.port, modern("tools/call", small))).refusal
        assert (refused["reason"], refused["mayHaveRun"]) == ("overloaded", False)

    async def passes() -> bool:
        return "isError" not in (await ask(gateway.port, modern("tools/call", small))).result

    async with asyncio.timeout(20):
        while not await passes():
            pass
