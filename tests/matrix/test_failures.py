"""Servers that die, hang, crash and refuse: each is its own trouble and nobody else's."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.gateway import Gateway, Json, alive, descendants, eventually, free_port, running_in, serving
from tests.kit.peers import notes
from tests.kit.wire import HttpClient, every

SCRIPTED = Path(__file__).parents[1] / "kit" / "stdio_server.py"


def scripted(*modes: str, cwd: Path | None = None) -> Json:
    """Return the config of a scripted server."""
    entry: Json = {"command": sys.executable, "args": ["-I", "-S", str(SCRIPTED), *modes]}
    if cwd is not None:
        cwd.mkdir(parents=True, exist_ok=True)
        entry["cwd"] = str(cwd)
    return entry


async def _answers_again(client: HttpClient, tool: str) -> None:
    """Call until the server is back, waiting as each refusal says."""
    async with asyncio.timeout(15):
        while True:
            result = (await wire.call(client, tool)).result
            if not result.get("isError"):
                return
            wait = result["_meta"]["dev.mcp-gateway/refusal"].get("retryAfterMs", 100)
            await asyncio.sleep(min(wait, 1000) / 1000)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_killed_server_ends_its_calls_at_once_and_the_next_call_works(tmp_path: Path, era: str) -> None:
    """S114, G011: nobody waits for the answer of a process that is gone."""
    config = {"servers": {"scripted": scripted("--era", era), "notes": notes(tmp_path, "notes").config}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("scripted", "notes")
        async with wire.http_client(gateway.url, "modern") as client:
            pid = (await wire.call(client, "scripted__whoami")).result["structuredContent"]["pid"]
            async with asyncio.timeout(10), asyncio.TaskGroup() as group:
                sleep = {"seconds": 50}
                calls = [group.create_task(wire.call(client, "scripted__sleep", sleep)) for _ in range(5)]
                while gateway.metric("mcp_gateway_inflight_calls", server="scripted") < 5:
                    await asyncio.sleep(0.01)
                os.kill(pid, signal.SIGKILL)

            for call in calls:
                answer = call.result()
                assert answer.refusal["reason"] == "unavailable"
                assert answer.refusal["mayHaveRun"] is True
                assert "may have run" in answer.result["content"][0]["text"]
            assert not (await wire.call(client, "notes__whoami")).result["isError"]
            await _answers_again(client, "scripted__whoami")


def test_no_process_of_a_server_outlives_a_killed_gateway(tmp_path: Path) -> None:
    """S112, G012: neither servers that ignore EOF and SIGTERM nor their children stay behind."""
    folder = tmp_path / "stubborn"
    stubborn = scripted("noeof", "ignoreterm", "fork=2", cwd=folder)
    config = {"servers": {"stubborn": stubborn, "notes": notes(tmp_path, "notes").config}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("stubborn", "notes")
        below = descendants(gateway.pid) | running_in(folder)
        assert len(running_in(folder)) >= 3
        gateway.kill()

        eventually(lambda: not any(alive(pid) for pid in below), "every process of the gateway is gone")


def test_no_process_of_a_server_outlives_a_gateway_that_is_told_to_stop(tmp_path: Path) -> None:
    folder = tmp_path / "stubborn"
    config = {"servers": {"stubborn": scripted("noeof", "ignoreterm", "fork=2", cwd=folder)}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("stubborn")
        below = descendants(gateway.pid) | running_in(folder)
        gateway.terminate()
        assert gateway.wait() == 0

        eventually(lambda: not any(alive(pid) for pid in below), "every process of the gateway is gone")


@pytest.fixture
def twenty(tmp_path: Path) -> Json:
    """Seventeen sound servers; one address that refuses, one process that hangs, one that crashes."""
    servers: Json = {f"s{number:02}": scripted("--name", f"s{number:02}") for number in range(17)}
    servers["refusing"] = {"url": f"http://127.0.0.1:{free_port()}/mcp"}
    servers["hanging"] = scripted("silent")
    servers["crashing"] = scripted("crash")
    return {"servers": servers}


async def test_three_broken_servers_of_twenty_delay_nobody_and_status_says_what_is_wrong(
    tmp_path: Path, twenty: Json
) -> None:
    """G117, G129: one dead server fails nobody else, and green means that it answered."""
    with serving(tmp_path / "gateway", twenty) as gateway:
        gateway.await_servers(*(name for name in twenty["servers"] if name.startswith("s")))
        async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(20):
            tools = await every(client, "tools/list", "tools")
            who = (await wire.call(client, "s16__whoami")).result

        assert {tool["name"].partition("__")[0] for tool in tools} == {f"s{number:02}" for number in range(17)}
        assert who["structuredContent"]["name"] == "s16"
        _says_what_is_wrong(gateway)


def _says_what_is_wrong(gateway: Gateway) -> None:
    def errors() -> list[object]:
        return [gateway.status()["servers"][name].get("last_error") for name in ("refusing", "crashing")]

    eventually(lambda: all(errors()), "status has the errors of those that failed", 10)
    servers = gateway.status()["servers"]

    assert servers["s00"]["state"] == "up"
    for name in ("refusing", "hanging", "crashing"):
        assert servers[name]["state"] != "up", name
    assert servers["refusing"]["last_error"]
    assert "code 3" in servers["crashing"]["last_error"]
    printed = gateway.cli("status", "-c", gateway.file)
    for name in ("refusing", "hanging", "crashing"):
        assert name in printed.stdout
