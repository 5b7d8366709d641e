"""Tools that a real server lists only for clients that can be asked."""

from __future__ import annotations

from pathlib import Path

from tests.kit.gateway import serving
from tests.kit.peers import stdio_peers
from tests.kit.wire import every, http_client

ASKING = {
    "get-roots-list",
    "trigger-elicitation-request",
    "trigger-sampling-request",
    "trigger-url-elicitation",
}


async def test_tools_for_clients_that_can_be_asked_are_listed_where_asks_permits_it(tmp_path: Path) -> None:
    everything = next(peer for peer in stdio_peers(tmp_path) if peer.name == "everything").config
    servers = {"quiet": everything, "asking": {**everything, "asks": ["elicitation", "sampling", "roots"]}}
    with serving(tmp_path / "gateway", {"servers": servers}) as gateway:
        gateway.await_servers(*servers)
        async with http_client(gateway.url, "modern") as client:
            names = {tool["name"] for tool in await every(client, "tools/list", "tools")}

    assert {name for name in ASKING if f"asking__{name}" in names} == ASKING
    assert not any(f"quiet__{name}" in names for name in ASKING)
