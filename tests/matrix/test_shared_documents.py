"""Two gateways that share what must never expire, with real processes: over PostgreSQL, and over a directory."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.approvals import ask_admin, awaited, waiting
from tests.kit.approvals import decide as decide_approval
from tests.kit.documents import KEYS, postgres_opener
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.pinning import Definitions, await_state, events, pins, tool
from tests.kit.postgres import Database, binaries

KEY: Final = "k" * 40
ALICE: Final = "alice-token-0123456789"
USERS: Final = {
    "alice": {"token_sha256": hashlib.sha256(ALICE.encode()).hexdigest(), "roles": ["view", "approve", "pins"]}
}
POLICY: Final = {
    "name": "ask",
    "clients": ["*"],
    "allow": ["any:*/**"],
    "approve": [
        {"tools": "a/echo", "hold": "20s", "timeout": "10m"},
        {"tools": "a/whoami", "hold": "0s", "timeout": "10m"},
    ],
}


class World:
    """Two gateways with the same config on one place, and servers of their own behind each."""

    def __init__(self, folder: Path, database: str, server: Database | None) -> None:
        self.folder = folder
        self.server = server
        self.defined = Definitions(folder / "d.json")
        self.raced = [Definitions(folder / f"r{number}.json") for number in range(2)]
        self.config: Json = {
            "servers": {
                "a": scripted(f"ledger={folder / 'a.ledger'}") | {"cwd": str(folder)},
                "d": self.defined.server(cwd=str(folder)),
            }
            | {f"r{number}": each.server(cwd=str(folder)) for number, each in enumerate(self.raced)},
            "clients": {"bot": {"key": KEY}},
            "policies": [POLICY],
            "admin": {"users": USERS},
            "state": {"dir": "state", "database": database, "sealing_keys": KEYS},
        }
        self.a: Gateway = Gateway(_made(folder / "one"), self.config)
        self.b: Gateway = Gateway(_made(folder / "two"), self.config)
        self.a.token = self.b.token = ALICE


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


POSTGRES = pytest.param("postgres", marks=pytest.mark.skipif(binaries() is None, reason="no PostgreSQL"))


@pytest.fixture(scope="module", params=[POSTGRES, "directory"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        server: Database | None = None
        url = f"file://{folder / 'documents'}"
        if request.param == "postgres":
            server = Database(folder)
            stack.callback(server.remove)
            server.start()
            stack.callback(server.stop)
            url = server.url
            postgres_opener(url)().close()
        world = World(folder, url, server)
        for each in (world.a, world.b):
            stack.callback(each.stop)
        # Both at once: they see every server for the first time together.
        for each in (world.a, world.b):
            each.launch()
        for each in (world.a, world.b):
            each.await_ready()
            each.await_servers("a", "d", *(f"r{number}" for number in range(2)))
        yield world


def decide(gateway: Gateway, verb: str, target: str) -> int:
    """Approve or reject what differs now."""
    differences = pins(gateway, target)["differences"]
    digests = {each["item"]: each["after"] for each in differences}
    return ask_admin(gateway, f"/pins/{verb}", {"target": target, "digests": digests}, ALICE)[0]


def tools(gateway: Gateway, server: str) -> set[str]:
    code, body = gateway.admin("/tools?as=bot")
    assert code == 200, body
    names = {each["tool"] for each in json.loads(body)["tools"]}
    return {name.partition("/")[2] for name in names if name.startswith(f"{server}/")}


def runs(world: World, word: str) -> int:
    ledger = world.folder / "a.ledger"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return sum(json.loads(line).get("word") == word for line in lines)


def test_a_server_that_both_see_first_at_once_has_one_pin(world: World) -> None:
    """S142: the first sight is durable before anything is shown, and the same for everybody."""
    for name in ("a", "d", "r0", "r1"):
        await_state(world.a, name, "recorded")
        await_state(world.b, name, "recorded")
        one, two = pins(world.a, name), pins(world.b, name)
        assert (one["facts"], one["definitions"], one["approved_at"]) == (
            two["facts"],
            two["definitions"],
            two["approved_at"],
        )
        first = [each for gateway in (world.a, world.b) for each in events(gateway, "pin.recorded", server=name)]
        assert len(first) == 1


def test_what_one_approves_is_shown_by_the_other(world: World) -> None:
    shown = tools(world.b, "d")
    world.defined.body["tools"].append(tool("fresh"))
    world.defined.tool("t1")["description"] = "Does something else."
    world.defined.write()
    for gateway in (world.a, world.b):
        await_state(gateway, "d", "changed")
        eventually(lambda each=gateway: tools(each, "d") == shown - {"t1"}, "what changed is hidden")  # type: ignore[misc] # a lambda's default has no declared type
    assert decide(world.b, "approve", "d") == 200
    eventually(lambda: tools(world.a, "d") == shown | {"fresh"}, "what was approved is shown", 2)
    assert pins(world.a, "d")["state"] == "recorded"
    world.defined.tool("t2")["description"] = "Does something bad."
    world.defined.write()
    for gateway in (world.a, world.b):
        await_state(gateway, "d", "changed")
    assert decide(world.a, "reject", "d") == 200
    eventually(lambda: pins(world.b, "d")["differences"][0]["rejected"], "the rejection is known", 2)
    assert "t2" not in tools(world.b, "d")


async def test_a_call_that_waits_at_one_goes_on_when_the_other_approves(world: World) -> None:
    async with wire.http_client(world.a.url, "modern", KEY) as client, asyncio.TaskGroup() as group:
        running = group.create_task(wire.call(client, "a__echo", {"word": "wake"}))
        shown = await awaited(world.b, ALICE, arguments='{"word":"wake"}')
        assert runs(world, "wake") == 0
        assert await decide_approval(world.b, "approve", shown["id"], ALICE) == 200
        async with asyncio.timeout(5):
            answer = await running
    assert "isError" not in answer.result
    assert runs(world, "wake") == 1
    outcomes = [
        [record["event"] for record in events(gateway, "approval.requested", "approval.approved", "approval.used")]
        for gateway in (world.a, world.b)
    ]
    assert outcomes == [["approval.requested", "approval.used"], ["approval.approved"]]


async def test_a_yes_is_good_for_one_call_wherever_it_comes(world: World) -> None:
    async with (
        wire.http_client(world.a.url, "modern", KEY) as one,
        wire.http_client(world.b.url, "modern", KEY) as two,
    ):
        refusal = (await wire.call(one, "a__whoami", {"word": "once"})).refusal
        await awaited(world.b, ALICE, id=refusal["approval"])
        assert (await wire.call(two, "a__whoami", {"word": "once"})).refusal["approval"] == refusal["approval"]
        assert await decide_approval(world.b, "approve", refusal["approval"], ALICE) == 200
        answers = await asyncio.gather(
            *(wire.call(client, "a__whoami", {"word": "once"}) for client in (one, two) for _ in range(4))
        )
    assert sum("isError" not in answer.result for answer in answers) == 1
    assert {answer.refusal["reason"] for answer in answers if "isError" in answer.result} == {"approval_required"}
    used = [record for gateway in (world.a, world.b) for record in events(gateway, "approval.used")]
    assert sum(record["approval"]["id"] == refusal["approval"] for record in used) == 1


def test_a_gateway_that_starts_serves_what_another_has_kept(world: World) -> None:
    """Lists that any of them kept are served at once, also while the server itself is away."""
    config = {**world.config, "servers": {**world.config["servers"]}}
    script = Path(world.config["servers"]["d"]["args"][2])
    assert script.exists()
    known = tools(world.a, "d")
    os.rename(world.defined.path, world.defined.path.with_suffix(".away"))
    try:
        with serving(world.folder / "three", config) as third:
            third.token = ALICE
            assert tools(third, "d") == known
    finally:
        os.rename(world.defined.path.with_suffix(".away"), world.defined.path)


@pytest.mark.parametrize("world", [POSTGRES], indirect=True)
async def test_what_is_known_stays_in_force_without_the_database(world: World) -> None:
    """A directory has no server that could be stopped."""
    assert world.server is not None
    known = tools(world.a, "d")
    async with wire.http_client(world.a.url, "modern", KEY) as client:
        refusal = (await wire.call(client, "a__whoami", {"word": "away"})).refusal
        world.server.stop()
        try:
            eventually(lambda: not world.a.status()["database"]["reachable"], "it is known to be away")
            assert world.a.metric("mcp_gateway_database_up") == 0
            code, body = world.a.admin("/readyz")
            assert (code, "database_unreachable" in body) == (200, True)
            assert "the database is away" in world.a.cli("status", "-c", world.a.file).stdout
            assert tools(world.a, "d") == known
            assert await decide_approval(world.a, "approve", refusal["approval"], ALICE) == 409
            assert (await wire.call(client, "a__whoami", {"word": "other"})).refusal["reason"] == "unavailable"
            assert decide(world.b, "approve", "d") == 409
            # A server that nobody has seen before is not exposed, since that cannot be written down.
            newcomer = Definitions(world.folder / "n.json")
            grown = {**world.config, "servers": {**world.config["servers"], "n": newcomer.server()}}
            world.a.reload(grown)
            world.a.await_servers("n")
            assert pins(world.a, "n")["state"] == "unknown"
            assert tools(world.a, "n") == set()
            late = Gateway(_made(world.folder / "late"), world.config)
            refused = late.cli("serve", "-c", late.file)
            assert refused.returncode == 2
            assert "state.database: the database cannot be used" in refused.stderr
            assert "127.0.0.1" not in refused.stderr
        finally:
            world.server.start()
        eventually(lambda: world.a.status()["database"]["reachable"], "it is back")
        eventually(lambda: len(tools(world.a, "n")) == 20, "the new server is recorded and shown")
        assert pins(world.a, "n")["state"] == "recorded"
        eventually(lambda: world.b.status()["database"]["reachable"], "it is back")
        assert waiting(world.b, ALICE, id=refusal["approval"])
        assert await decide_approval(world.b, "approve", refusal["approval"], ALICE) == 200
        answer = await wire.call(client, "a__whoami", {"word": "away"})
        assert "isError" not in answer.result
    assert [record["event"] for record in events(world.a, "database.unreachable", "database.recovered")] == [
        "database.unreachable",
        "database.recovered",
    ]
