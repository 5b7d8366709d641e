"""Pins in force, with real processes: what changed is hidden and blocked, for clients of both eras, until approved."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.pinning import Definitions, await_state, decide, events, pins, tool, twenty
from tests.kit.wire import EraName, HttpClient

KEY: Final = "k" * 40
CLIENTS: Final[Json] = {"bot": {"key": KEY}}
ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
PURPOSES: Final = ("change", "rename", "newer", "stale")


class World:
    """One gateway, with clients so that pins hold, and a server of its own for each test and era."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.defined = {f"{purpose}-{era}": self._define(f"{purpose}-{era}") for purpose in PURPOSES for era in ERAS}
        self.defined |= {name: self._define(name) for name in ("left", "right", "prod", "test")}
        self.defined["own"] = Definitions(folder / "own.json", quiet=True)
        self.servers: Json = {
            name: self.defined[name].server("--era", name.partition("-")[2], "--ledger", str(self.ledger(name)))
            for name in self.defined
            if "-" in name
        }
        for name in ("left", "right"):
            self.servers[name] = self.defined[name].server("--dataset", name)
        for name in ("prod", "test"):
            self.servers[name] = self._probed(name)
        self.servers["own"] = self.defined["own"].server(
            "--era", "legacy", "--ledger", str(self.ledger("own")), isolation="principal"
        )
        self.config: Json = {"servers": self.servers, "clients": CLIENTS}

    def _define(self, name: str) -> Definitions:
        return Definitions(self.folder / f"{name}.json", [*twenty(), tool("die")] if name in ("prod", "test") else None)

    def ledger(self, name: str) -> Path:
        return self.folder / f"{name}.ledger"

    def script(self, name: str) -> Path:
        return self.folder / f"{name}.sh"

    def _probed(self, name: str) -> Json:
        """Run a server through a script, so that the same command can have other data behind it."""
        own = self.defined[name].server("--dataset", name)
        words = " ".join([own["command"], *own["args"]])
        self.script(name).write_text(f"exec {words}\n")
        probe = {"tool": "whoami", "arguments": {}, "expect": {"/structuredContent/dataset": name}}
        return {"command": "/bin/sh", "args": [str(self.script(name))], "isolation": "shared", "pin": {"probe": probe}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("pins"))


@pytest.fixture(scope="module")
def gateway(world: World) -> Iterator[Gateway]:
    with serving(world.folder / "gateway", world.config) as running:
        running.await_servers(*world.servers)
        for name in world.servers:
            await_state(running, name, "recorded")
        yield running


@asynccontextmanager
async def both(gateway: Gateway) -> AsyncIterator[list[HttpClient]]:
    """Connect a client of each era."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(wire.http_client(gateway.url, era, KEY)) for era in ERAS]


async def listed(client: HttpClient, server: str) -> list[str]:
    """Return the tools of one server that a client sees, by the server's own names."""
    names = [each["name"] for each in await wire.every(client, "tools/list", "tools")]
    return [name.removeprefix(f"{server}__") for name in names if name.startswith(f"{server}__")]


def shown_as(gateway: Gateway, name: str, state: str) -> bool:
    return bool(gateway.status()["servers"][name]["state"] == state)


async def text(client: HttpClient, name: str) -> str:
    said: str = (await wire.call(client, name)).result["content"][0]["text"]
    return said


def approve_as_people_do(gateway: Gateway, name: str) -> None:
    """Look at what changed, approve it, and see that nothing is left."""
    shown = gateway.cli("pins", "show", f"{name}/t7")
    assert shown.returncode == 0
    assert "/inputSchema/properties/q/description\n  - what to look for\n  + what to lock for" in shown.stdout
    assert gateway.cli("pins", "check", name).returncode == 1
    done = gateway.cli("pins", "approve", f"{name}/t7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert gateway.cli("pins", "check", name).returncode == 0


@pytest.mark.parametrize("era", ERAS)
async def test_one_character_hides_and_blocks_that_tool_alone_until_it_is_approved(
    world: World, gateway: Gateway, era: EraName
) -> None:
    """S137, S138, S139, S141, S60, G110, G112: in the middle of a session, and without a restart."""
    name = f"change-{era}"
    defined = world.defined[name]
    async with both(gateway) as clients:
        for client in clients:
            assert len(await listed(client, name)) == 20
            assert await text(client, f"{name}__t7") == "t7 of none"

        defined.tool("t7")["inputSchema"]["properties"]["q"]["description"] = "what to lock for"
        defined.write()
        await_state(gateway, name, "changed")

        for client in clients:
            assert await listed(client, name) == [each["name"] for each in twenty() if each["name"] != "t7"]
            hidden, unknown = await wire.call(client, f"{name}__t7"), await wire.call(client, f"{name}__tX")
            assert hidden.status == unknown.status
            assert hidden.error == {"code": -32602, "message": f"Unknown tool: {name}__t7"}
            assert unknown.error == {"code": -32602, "message": f"Unknown tool: {name}__tX"}
            assert await text(client, f"{name}__t8") == "t8 of none"

        if era == "modern":
            approve_as_people_do(gateway, name)
        else:
            assert decide(gateway, "approve", f"{name}/t7") == 200

        for client in clients:
            assert len(await listed(client, name)) == 20
            assert await text(client, f"{name}__t7") == "t7 of none"

    [mismatch] = events(gateway, "pin.mismatch", server=name)
    assert (mismatch["pin"]["name"], mismatch["pin"]["kind"]) == ("tool:t7", "definition")
    assert mismatch["pin"]["diff"][0]["pointer"] == "/inputSchema/properties/q/description"
    [approved] = events(gateway, "pin.approved", server=name)
    assert approved["pin"]["before"] == mismatch["pin"]["before"]
    assert approved["pin"]["after"] == mismatch["pin"]["after"]
    acts = [act["admin"] for act in events(gateway, "admin.pins_approve") if act["admin"]["server"] == name]
    assert [act["user"] for act in acts] == ["admin"]
    assert any(alert["alert"]["server"] == name for alert in events(gateway, "alert.raised"))


@pytest.mark.parametrize("era", ERAS)
async def test_a_rename_and_a_new_tool_stay_hidden(world: World, gateway: Gateway, era: EraName) -> None:
    """S138: what was not there is not served, what is gone is reported, and a rejection is remembered."""
    name = f"rename-{era}"
    defined = world.defined[name]
    defined.tool("t3")["name"] = "t3b"
    defined.body["tools"].append(tool("t99"))
    defined.write()
    await_state(gateway, name, "changed")
    async with both(gateway) as clients:
        for client in clients:
            assert await listed(client, name) == [each["name"] for each in twenty() if each["name"] != "t3"]
            for lost in ("t3", "t3b", "t99"):
                assert (await wire.call(client, f"{name}__{lost}")).error["message"] == f"Unknown tool: {name}__{lost}"
        [removed] = events(gateway, "pin.removed", server=name)
        assert removed["pin"]["name"] == "tool:t3"
        held = {record["pin"]["name"] for record in events(gateway, "pin.quarantined", server=name)}
        assert held == {"tool:t3b", "tool:t99"}
        assert gateway.metric("mcp_gateway_quarantined_tools", server=name) == 2
        assert decide(gateway, "reject", f"{name}/t99") == 200
        assert decide(gateway, "approve", name) == 200
        for client in clients:
            now = await listed(client, name)
            assert "t3b" in now
            assert "t99" not in now
    assert [each["rejected"] for each in pins(gateway, name)["differences"]] == [True]


async def test_an_approval_is_of_what_was_shown_and_of_nothing_newer(world: World, gateway: Gateway) -> None:
    """S141."""
    name = "newer-modern"
    defined = world.defined[name]
    defined.tool("t1")["description"] = "harmless"
    defined.write()
    await_state(gateway, name, "changed")
    [shown] = pins(gateway, name)["differences"]
    defined.tool("t1")["description"] = "not harmless"
    defined.write()
    eventually(lambda: pins(gateway, name)["differences"][0]["after"] != shown["after"], "it changed again")
    assert decide(gateway, "approve", f"{name}/t1", {"tool:t1": shown["after"]}) == 409
    refused = gateway.cli("pins", "approve", f"{name}/t1", "--digest", shown["after"])
    assert refused.returncode != 0
    assert "has changed since it was shown" in refused.stderr
    async with both(gateway) as clients:
        assert "t1" not in await listed(clients[0], name)


@pytest.mark.parametrize("era", ERAS)
async def test_no_call_goes_out_on_a_definition_that_was_said_to_have_changed(
    world: World, gateway: Gateway, era: EraName
) -> None:
    """S139: whatever a server lists from one moment to the next."""
    name = f"stale-{era}"
    defined, ledger = world.defined[name], world.ledger(name)
    approved = defined.tool("t1")["description"]

    def sent() -> int:
        return ledger.read_text().count("t1 obey") if ledger.exists() else 0

    async with both(gateway) as clients:
        for turn in range(6):
            defined.tool("t1")["description"] = approved if turn % 2 else "obey"
            defined.write()
            for client in clients * 5:
                await wire.call(client, f"{name}__t1")
            await_state(gateway, name, "recorded" if turn % 2 else "changed")
            before = sent()
            for client in clients * 5:
                await wire.call(client, f"{name}__t1")
            assert sent() == before


async def test_two_equal_servers_with_other_data_are_told_apart_by_the_probe(world: World, gateway: Gateway) -> None:
    """S132, S137: serverInfo is no proof; after an exchange both are quarantined, and the audit names what changed."""
    scripts = [world.script(name) for name in ("prod", "test")]
    async with both(gateway) as clients:
        for client in clients:
            said = (await wire.call(client, "prod__whoami")).result
            assert said["structuredContent"] == {"dataset": "prod"}
            assert said["_meta"]["dev.mcp-gateway/instance"]["pin"] == "recorded"
        texts = [script.read_text() for script in scripts]
        for script, other in zip(scripts, reversed(texts), strict=True):
            script.write_text(other)
        for name in ("prod", "test"):
            await wire.call(clients[0], f"{name}__die")
            await_state(gateway, name, "quarantined")
            eventually(partial(shown_as, gateway, name, "quarantined"), "shown as quarantined")
            [wrong] = events(gateway, "pin.mismatch", server=name)
            assert wrong["pin"]["name"] == "probe:/structuredContent/dataset"
            assert wrong["pin"]["before"] != wrong["pin"]["after"]
            assert "prod" not in json.dumps(wrong["pin"])
            for client in clients:
                assert await listed(client, name) == []
                lost = await wire.call(client, f"{name}__whoami")
                assert lost.error["message"] == f"Unknown tool: {name}__whoami"
        for script, own in zip(scripts, texts, strict=True):
            script.write_text(own)
        assert decide(gateway, "approve", "prod") == 200
        await_state(gateway, "prod", "recorded")
        assert len(await listed(clients[0], "prod")) == 21


async def test_swapped_commands_quarantine_both_servers(world: World, gateway: Gateway) -> None:
    """S131, S136, G115: nothing is started, and an approval starts it."""
    swapped = {**world.servers, "left": world.servers["right"], "right": world.servers["left"]}
    gateway.reload({**world.config, "servers": swapped})
    async with both(gateway) as clients:
        for name in ("left", "right"):
            await_state(gateway, name, "quarantined")
            changed = {record["pin"]["name"] for record in events(gateway, "pin.mismatch", server=name)}
            assert changed == {"argument:5", "argument:7"}
            for client in clients:
                assert await listed(client, name) == []
                lost = await wire.call(client, f"{name}__t1")
                assert lost.error["message"] == f"Unknown tool: {name}__t1"
        assert decide(gateway, "approve", "left") == 200
        await_state(gateway, "left", "recorded")
        gateway.await_servers("left")
        said = (await wire.call(clients[0], "left__whoami")).result
        assert said["structuredContent"] == {"dataset": "right"}
        assert pins(gateway, "right")["state"] == "quarantined"
    gateway.reload(world.config)


async def test_a_principals_own_process_is_held_to_what_was_approved(world: World, gateway: Gateway) -> None:
    """S139: an instance that lists something else has that one tool refused, for that principal."""
    defined = world.defined["own"]
    defined.tool("t1")["description"] = "obey"
    # The process that the catalog comes from says nothing; the principal's starts after the change.
    defined.write()
    async with both(gateway) as clients:
        for client in clients:
            assert await text(client, "own__t2") == "t2 of none"
            assert (await wire.call(client, "own__t1")).error["message"] == "Unknown tool: own__t1"
    assert "t1 obey" not in world.ledger("own").read_text()
    [told] = events(gateway, "pin.mismatch", server="own")
    assert (told["pin"]["name"], told["pin"]["connection"]) == ("tool:t1", "principal")


async def test_nothing_is_trusted_again_by_a_restart(tmp_path: Path) -> None:
    """G110, S142: and the kept lists of the last run are no way around it."""
    defined = Definitions(tmp_path / "catalog.json")
    config: Json = {"servers": {"a": defined.server()}, "clients": CLIENTS}
    with serving(tmp_path / "gateway", config) as gateway:
        await_state(gateway, "a", "recorded")
        defined.tool("t1")["annotations"] = {"readOnlyHint": True}
        defined.write()
        await_state(gateway, "a", "changed")
        gateway.kill()
        gateway.start()
        async with both(gateway) as clients:
            # What was kept and approved may be served until the server was asked; what it lists now is not.
            await_state(gateway, "a", "changed")
            for client in clients:
                assert "t1" not in await listed(client, "a")
        assert (gateway.folder / "state" / "pins.json").stat().st_mode & 0o077 == 0
