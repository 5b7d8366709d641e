"""Reload and drain, as operators do them: a changed file and a signal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.kit import wire
from tests.kit.gateway import Json, descendants, serving
from tests.kit.peers import driver, notes

KEY = "carol-" + "c" * 40
SCRIPTED = Path(__file__).parents[1] / "kit" / "stdio_server.py"


def _config(folder: Path, allow: list[str]) -> Json:
    servers: Json = {"notes": notes(folder, "notes").config}
    servers["scripted"] = {"command": sys.executable, "args": ["-I", "-S", str(SCRIPTED)]}
    return {
        "servers": servers,
        "clients": {"carol": {"key": "${CAROL_KEY}"}},
        "policies": [{"name": "carol", "clients": ["carol"], "allow": allow}],
    }


def test_a_new_allowlist_applies_to_the_session_that_is_open_and_processes_stay(tmp_path: Path) -> None:
    """G036, G128: an open session has the new rules, and what did not change is left alone."""
    before, after = _config(tmp_path, ["notes/*"]), _config(tmp_path, ["scripted/*", "notes/whoami"])
    with serving(tmp_path / "gateway", before, {"CAROL_KEY": KEY}) as gateway:
        gateway.await_servers("notes", "scripted")
        with driver("mcp1-legacy", gateway.url, tmp_path / "stderr", KEY) as client:
            assert "notes__read_note" in str(client.ok("tools"))
            assert "Unknown tool" in str(client.do("call", name="scripted__whoami", arguments={}))
            processes = descendants(gateway.pid)

            gateway.reload(after)

            listed = {tool["name"] for tool in client.ok("tools")["tools"]}
            assert {name for name in listed if name.startswith("notes")} == {"notes__whoami"}
            assert "scripted__whoami" in listed
            assert "Unknown tool" in str(client.do("call", name="notes__read_note", arguments={"id": "n1"}))
            assert client.ok("call", name="scripted__whoami", arguments={})["structuredContent"]["name"] == "scripted"
            assert processes <= descendants(gateway.pid)


def test_a_bad_config_changes_nothing_and_counts(tmp_path: Path) -> None:
    config = _config(tmp_path, ["notes/*"])
    with serving(tmp_path / "gateway", config, {"CAROL_KEY": KEY}) as gateway:
        gateway.await_servers("notes")
        with driver("mcp2-modern", gateway.url, tmp_path / "stderr", KEY) as client:
            processes = descendants(gateway.pid)
            gateway.reload({**config, "polices": []})

            assert gateway.metric("mcp_gateway_config_reload_success") == 0
            assert client.ok("call", name="notes__whoami", arguments={})["structuredContent"]["dataset"] == "notes"
            assert processes <= descendants(gateway.pid)


async def test_a_drain_lets_calls_finish_refuses_new_ones_and_ends_well(tmp_path: Path) -> None:
    """S186: SIGTERM ends a gateway without ending its calls."""
    config = {"servers": _config(tmp_path, [])["servers"]}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("scripted")
        async with (
            wire.http_client(gateway.url, "modern") as client,
            wire.http_client(gateway.url, "modern") as late,
            asyncio.TaskGroup() as group,
        ):
            await late.request("tools/list")
            slow = group.create_task(wire.call(client, "scripted__sleep", {"seconds": 2}))
            async with asyncio.timeout(20):
                while gateway.metric("mcp_gateway_inflight_calls", server="scripted") < 1:
                    await asyncio.sleep(0.01)
            gateway.terminate()
            async with asyncio.timeout(20):
                while gateway.admin("/readyz")[0] == 200:
                    await asyncio.sleep(0.01)

            answer = await slow

        assert answer.result["content"][0]["text"] == "slept"
        assert await asyncio.to_thread(gateway.wait) == 0
        verified = gateway.cli("audit", "verify", gateway.audit)
        assert verified.returncode == 0, verified.stdout
