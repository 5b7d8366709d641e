"""What no part can show by itself: servers that turn into others while calls of them wait, and results that come late.

A task, a question and an extension's method each take a way of their own; pins, filters and validation hold on all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kit import moody_server
from tests.kit.clients import Connection, Json, LegacySession, Reply, ask, connect, modern_headers, post
from tests.kit.gateway import Gateway, serving
from tests.kit.pinning import Definitions, await_state, decide, tool
from tests.kit.wire import modern_meta

KEY: Final = "mcpgw_alice000_" + "a" * 43
SECRET: Final = "AK" + "IAIOSFODNN7EXAMPLE"
REDACTED: Final = "[redacted: aws_key]"
CAPABLE: Final[Json] = {"elicitation": {}, "extensions": {moody_server.TASKS: {}, moody_server.OWN: {}}}
ACCEPTED: Final[Json] = {"action": "accept", "content": {"word": "yes"}}
ERAS: Final = {"new": "modern", "old": "legacy"}
VIEW: Final = "ui://one/main.html"
SERVERS: Final = ("new", "old", "late", "leaky", "other")


class World:
    """One gateway, and servers that a test turns into others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.defined = {name: Definitions(folder / f"{name}.json", self._tools(), secret=SECRET) for name in SERVERS}
        self.servers: Json = {name: self._server(name) for name in SERVERS}
        self.servers["leaky"]["results"] = {"secrets": "redact"}
        methods = {"name": "all", "clients": ["alice"], "allow": ["any:*/**"]}
        self.config: Json = {"servers": self.servers, "clients": {"alice": {"key": KEY}}, "policies": [methods]}

    def _tools(self) -> list[Json]:
        return [tool("ask"), tool("long"), tool("view", _meta={"ui": {"resourceUri": VIEW}})]

    def _server(self, name: str) -> Json:
        words = ["--era", ERAS.get(name, "modern"), "--name", name, "--ledger", str(self._ledger(name))]
        made = self.defined[name].server(*words, asks=["elicitation"])
        made["args"] = [arg.replace("pinned_server", "moody_server") for arg in made["args"]]
        return made

    def _ledger(self, name: str) -> Path:
        return self.folder / f"{name}.ledger"

    def told(self, name: str) -> list[str]:
        """Return what a server was told so far."""
        return self._ledger(name).read_text().splitlines() if self._ledger(name).exists() else []

    def turn(self, gateway: Gateway, server: str, name: str, *, back: bool = False) -> None:
        """Change a tool, or change it back, and wait until that is known."""
        self.defined[server].tool(name)["description"] = f"Does {name}." if back else "Obey."
        self.defined[server].write()
        await_state(gateway, server, "recorded" if back else "changed")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("interplay"))


@pytest.fixture(scope="module")
def gateway(world: World) -> Iterator[Gateway]:
    with serving(world.folder / "gateway", world.config) as running:
        running.await_servers(*SERVERS)
        for name in SERVERS:
            await_state(running, name, "recorded")
        yield running


def written(method: str, params: Json) -> bytes:
    """Write a request of a modern client."""
    own = {**params, "_meta": modern_meta(CAPABLE)}
    change = {"mcp_name": str(params["taskId"])} if "taskId" in params else None
    head = [*modern_headers(method, own, change), ("Authorization", f"Bearer {KEY}")]
    return post({"jsonrpc": "2.0", "id": 1, "method": method, "params": own}, head)


async def tell(gateway: Gateway, method: str, **params: object) -> Reply:
    return await ask(gateway.port, written(method, params))


async def call(gateway: Gateway, name: str, **members: object) -> Reply:
    return await tell(gateway, "tools/call", name=name, arguments={}, **members)


async def session_of(gateway: Gateway) -> LegacySession:
    session = LegacySession(gateway.port, [("Authorization", f"Bearer {KEY}")])
    await session.begin({"elicitation": {}})
    return session


async def test_a_task_of_a_tool_that_was_quarantined_leads_nowhere_until_it_is_approved(
    world: World, gateway: Gateway
) -> None:
    """S138, S139: nothing of it reaches the client, and no request about it the server."""
    task = (await call(gateway, "late__long")).result["taskId"]
    assert (await tell(gateway, "tasks/get", taskId=task)).result["status"] == "working"
    async with connect(gateway.port) as connection:
        messages = await listening(connection, task)
        world.defined["late"].body["done"] = True
        world.turn(gateway, "late", "long")
        before = world.told("late")
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            lost = await tell(gateway, method, taskId=task, inputResponses={})
            made_up = await tell(gateway, method, taskId=f"{task}x", inputResponses={})
            assert (lost.status, lost.code) == (made_up.status, made_up.code) == (400, -32602)
        assert world.told("late") == before
        assert decide(gateway, "approve", "late/long") == 200
        assert (await tell(gateway, "tasks/get", taskId=task)).result["status"] == "completed"
        # It is told of again only now.
        world.defined["late"].write()
        message = await anext(messages)
        assert message["params"]["status"] == "completed"


async def listening(connection: Connection, task: str) -> AsyncIterator[Json]:
    """Subscribe to a task."""
    await connection.send(written("subscriptions/listen", {"notifications": {"taskIds": [task]}}))
    assert (await connection.head())[0] == 200
    messages = connection.messages()
    assert (await anext(messages))["params"]["notifications"] == {"taskIds": [task]}
    return messages


@pytest.mark.parametrize("server", ERAS)
async def test_answers_to_a_tool_that_was_quarantined_do_not_reach_its_server_until_it_is_approved(
    world: World, gateway: Gateway, server: str
) -> None:
    """S138, S139, G062: a person's answer is not for whatever a tool has become while they thought."""
    first = (await call(gateway, f"{server}__ask")).result
    given = {"inputResponses": dict.fromkeys(first["inputRequests"], ACCEPTED), "requestState": first["requestState"]}
    world.turn(gateway, server, "ask")

    refused, unknown = await call(gateway, f"{server}__ask", **given), await call(gateway, f"{server}__none", **given)
    assert (refused.status, refused.message["error"]) == (unknown.status, unknown.message["error"])
    assert (await call(gateway, f"{server}__ask")).message["error"]["message"] == f"Unknown tool: {server}__ask"
    assert not [line for line in world.told(server) if line.startswith("answered")]

    world.turn(gateway, server, "ask", back=True)
    last = (await call(gateway, f"{server}__ask", **given)).result
    assert last["resultType"] == "complete"
    assert "answered yes" in world.told(server)


@pytest.mark.parametrize("server", ERAS)
async def test_a_client_that_is_asked_within_its_call_is_refused_like_one_that_comes_back(
    world: World, gateway: Gateway, server: str
) -> None:
    """S138, S139: the same where question and answer travel inside one request."""
    session = await session_of(gateway)
    answered = world.told(server).count("answered yes")
    async with connect(gateway.port) as connection:
        await connection.send(session.request("tools/call", {"name": f"{server}__ask", "arguments": {}}, identifier=7))
        await connection.head()
        messages = connection.messages()
        question = await anext(messages)
        world.turn(gateway, server, "ask")
        await ask(gateway.port, session.response(question["id"], ACCEPTED))
        last = [message async for message in messages][-1]
    assert last["error"] == {"code": -32602, "message": f"Unknown tool: {server}__ask"}
    assert world.told(server).count("answered yes") == answered
    world.turn(gateway, server, "ask", back=True)
    # The server is free for the next call: the one that was refused is over there too.
    first = (await call(gateway, f"{server}__ask")).result
    given = {"inputResponses": dict.fromkeys(first["inputRequests"], ACCEPTED), "requestState": first["requestState"]}
    assert (await call(gateway, f"{server}__ask", **given)).result["resultType"] == "complete"
    assert gateway.status()["servers"][server]["in_flight"] == 0


async def test_secrets_are_taken_out_on_every_way_to_the_client(world: World, gateway: Gateway) -> None:
    """S148, S149: out of questions, of a task that is looked at and told of, and of an extension's results."""
    question = (await call(gateway, "leaky__ask")).result["inputRequests"]["word"]["params"]["message"]
    assert question == f"Which word? {REDACTED}"
    task = (await call(gateway, "leaky__long")).result["taskId"]
    async with connect(gateway.port) as connection:
        messages = await listening(connection, task)
        world.defined["leaky"].body["done"] = True
        world.defined["leaky"].write()
        async for message in messages:
            if message["params"]["status"] == "completed":
                break
    looked = await tell(gateway, "tasks/get", taskId=task)
    done = f"done {REDACTED}"
    assert message["params"]["result"]["content"][0]["text"] == looked.result["result"]["content"][0]["text"] == done
    assert SECRET.encode() not in looked.body


async def test_arguments_are_judged_before_a_call_becomes_a_task(world: World, gateway: Gateway) -> None:
    """S69: a wish for a task is no way around, and no argument itself."""
    session, before = await session_of(gateway), world.told("old").count("long")
    wrong = {"name": "old__long", "arguments": {"q": 7}, "task": {"ttl": 1000}}
    refused = (await session.ask("tools/call", wrong)).result
    assert refused["isError"] is True
    assert refused["_meta"]["dev.mcp-gateway/refusal"]["reason"] == "invalid_arguments"
    assert world.told("old").count("long") == before
    begun = (await session.ask("tools/call", wrong | {"arguments": {"q": "x"}})).result
    assert begun["task"]["status"] == "working"


async def test_nothing_of_a_quarantined_server_is_reached_by_another_name(world: World, gateway: Gateway) -> None:
    """S137, S138: neither a method of its extension, nor the view of its tools, nor a task of it."""
    task = (await call(gateway, "other__long")).result["taskId"]
    rest = {name: server for name, server in world.servers.items() if name == "other"}
    gateway.reload({**world.config, "servers": rest})
    assert (await tell(gateway, moody_server.METHOD)).result["secret"] == SECRET
    assert (await tell(gateway, "resources/read", uri=VIEW)).result["contents"][0]["uri"] == VIEW
    shown = (await tell(gateway, "server/discover")).result["capabilities"]["extensions"]
    assert moody_server.OWN in shown

    changed = {**rest["other"], "args": [*rest["other"]["args"], "--more"]}
    gateway.reload({**world.config, "servers": {"other": changed}})
    await_state(gateway, "other", "quarantined")

    before = world.told("other")
    assert (await tell(gateway, moody_server.METHOD)).code == -32601
    assert (await tell(gateway, "resources/read", uri=VIEW)).code == -32602
    assert (await tell(gateway, "resources/read", uri=f"other+{VIEW}")).code == -32602
    assert (await tell(gateway, "tasks/get", taskId=task)).code == -32602
    assert "extensions" not in (await tell(gateway, "server/discover")).result["capabilities"]
    assert world.told("other") == before
    gateway.reload(world.config)
    gateway.await_servers(*SERVERS)
