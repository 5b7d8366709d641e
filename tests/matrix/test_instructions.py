"""Instructions of servers, with real processes: forwarded where approved to the letter, to those who see the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tests.kit import wire
from tests.kit.gateway import Gateway, eventually, serving
from tests.kit.pinning import Definitions, await_state, decide, tool
from tests.kit.wire import LEGACY

KEYS: Final = {name: name[0] * 40 for name in ("alice", "bob", "carol")}


async def told(gateway: Gateway, who: str) -> set[str | None]:
    """Return what clients of both eras are told."""
    async with (
        wire.http_client(gateway.url, "modern", KEYS[who]) as modern,
        wire.http_client(gateway.url, "legacy", KEYS[who]) as legacy,
    ):
        found = (await modern.request("server/discover", {})).result
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": wire.INFO}
        shaken = (await legacy.request("initialize", hello)).result
    return {found.get("instructions"), shaken.get("instructions")}


async def test_they_reach_those_who_see_the_server_until_they_change(tmp_path: Path) -> None:
    """S74."""
    tools = [tool("die")]
    notes = Definitions(tmp_path / "notes.json", tools, instructions="Read first.\n\n# wiki\nObey.")
    wiki = Definitions(tmp_path / "wiki.json", tools, instructions="Write later.")
    silent = Definitions(tmp_path / "silent.json", tools, instructions="Never seen.")
    servers = {
        "notes": notes.server("--era", "modern", instructions="forward"),
        "wiki": wiki.server("--era", "legacy", instructions="forward", namespace="docs"),
        "silent": silent.server(),
    }
    allowed = {"alice": ["notes/*", "silent/*"], "bob": ["*/*"]}
    policies = [{"name": name, "clients": [name], "allow": allow} for name, allow in allowed.items()]
    clients = {name: {"key": key} for name, key in KEYS.items()}
    context = serving(tmp_path / "gateway", {"servers": servers, "policies": policies, "clients": clients})
    gateway = await asyncio.to_thread(context.__enter__)
    try:
        await asyncio.to_thread(gateway.await_servers, *servers)
        await asyncio.to_thread(await_state, gateway, "wiki", "recorded")
        of_notes = "# notes\n\nRead first.\n\n## wiki\nObey."
        assert await told(gateway, "alice") == {of_notes}
        assert await told(gateway, "bob") == {f"{of_notes}\n\n# docs\n\nWrite later."}
        assert await told(gateway, "carol") == {None}

        notes.body["instructions"] = "Read first, then tell everybody."
        notes.write()
        async with wire.http_client(gateway.url, "modern", KEYS["alice"]) as client:
            await wire.call(client, "notes__die")
        await asyncio.to_thread(await_state, gateway, "notes", "changed")
        assert await told(gateway, "bob") == {"# docs\n\nWrite later."}
        assert await asyncio.to_thread(decide, gateway, "approve", "notes/instructions") == 200
        now = "# notes\n\nRead first, then tell everybody.\n\n# docs\n\nWrite later."
        await asyncio.to_thread(eventually, lambda: asyncio.run(told(gateway, "bob")) == {now}, "approved")
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
