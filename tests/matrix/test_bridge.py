"""``connect`` between real clients on a pipe and a real gateway: questions in the middle of calls, and signing in."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.gateway import COMMAND, Gateway, serving
from tests.kit.issuer import Browser
from tests.kit.peers import HERE, driver, environment
from tests.kit.wire import EraName, StdioClient
from tests.matrix.test_sign_in import Site, site


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Serve one server of each era that asks people and models."""
    asks = ["elicitation", "sampling"]
    servers: dict[str, Any] = {
        era: {
            "command": str(environment(line) / "bin" / "python"),
            "args": [str(HERE / f"{era}_server.py")],
            "asks": asks,
        }
        for era, line in (("modern", "mcp2"), ("legacy", "mcp1"))
    }
    with serving(tmp_path_factory.mktemp("bridge"), {"servers": servers}) as running:
        running.await_servers(*servers)
        yield running


@pytest.mark.parametrize("client", ["mcp1-legacy", "mcp2-legacy", "mcp2-modern"])
def test_an_official_stdio_client_is_asked_in_the_middle_of_a_call(
    client: str, asking: Gateway, tmp_path: Path
) -> None:
    command = json.dumps([str(COMMAND), "connect", asking.url, "--no-sign-in"])
    with driver(client, command, tmp_path / "log") as connected:
        for server in ("modern", "legacy"):
            evening = connected.ok("call", name=f"{server}__evening", arguments={"place": "home"})
            assert evening["content"][0]["text"] == "accept: 4 at home, soup (accept: 4)"


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("bridge-sign-in"), 300) as running:
        yield running


async def page_of(process: asyncio.subprocess.Process) -> str:
    """Return the address that the program shows a person."""
    assert process.stderr is not None
    async with asyncio.timeout(15):
        line = (await process.stderr.readline()).decode()
    assert line.startswith("connect: sign in at http://127.0.0.1:"), line
    return line.split()[-1]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_person_signs_in_for_a_client_on_a_pipe_and_steps_up(
    era: EraName, protected: Site, tmp_path: Path
) -> None:
    """S44, S51: the client knows nothing of it; what it is called with needs one scope more."""
    variables = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "connect", protected.gateway.url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**variables, "XDG_STATE_HOME": str(tmp_path)},
    )
    browser = Browser()
    client = StdioClient(process, era)

    async def alice() -> None:
        page = await page_of(process)
        assert "Signed in" in await asyncio.to_thread(browser.through, page)

    async def listed() -> list[str]:
        await client.open()
        return [tool["name"] for tool in (await client.request("tools/list")).result["tools"]]

    try:
        names, _ = await asyncio.gather(listed(), alice())
        assert names == ["notes__read_note", "notes__whoami"]
        whoami = await client.request("tools/call", {"name": "notes__whoami", "arguments": {}})
        assert whoami.result["structuredContent"]["dataset"] == "notes"
        read = client.request("tools/call", {"name": "notes__read_note", "arguments": {"id": "n1"}})
        stepped, _ = await asyncio.gather(read, alice())
        assert "Release on Thursday" in stepped.result["content"][0]["text"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # reason: asyncio closes a child's pipes only with it.
