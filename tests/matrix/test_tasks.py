"""Tasks through a real gateway, in the words of both eras, over HTTP and over pipes.

The servers tell everybody of everybody's tasks; that clients are kept apart is the gateway's doing alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.conformance.tasking import EXTENSION, RELATED
from tests.kit.clients import Connection, Json, LegacySession, Reply, ask, connect, modern_headers, post
from tests.kit.gateway import ROOT, Gateway, descendants, eventually, free_port, serving
from tests.kit.peers import listens
from tests.kit.wire import modern_meta

ALICE, BOB = "alice-" + "a" * 40, "bob-" + "b" * 40
KEYS = {"ALICE_KEY": ALICE, "BOB_KEY": BOB}
CAPABLE: Json = {"elicitation": {}, "extensions": {EXTENSION: {}}}
YES: Json = {"action": "accept", "content": {"confirm": True}}
OVER = ("completed", "failed", "cancelled")
NEW = pytest.mark.parametrize("server", ["newhttp", "newstdio"])
OLD = pytest.mark.parametrize("server", ["oldhttp", "oldstdio"])
LOOKS = 100


@contextmanager
def listening(era: str) -> Iterator[str]:
    """Run a server over HTTP for a block; returns its URL."""
    port = free_port()
    command = [sys.executable, "-m", "tests.conformance.tasking", era, str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: listens(port), "the server listens", 20)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait(5)


def piped(era: str) -> Json:
    """Return the config of a server over stdio."""
    return {"command": sys.executable, "args": ["-m", "tests.conformance.tasking", era], "cwd": str(ROOT)}


def config(servers: Json, **alice: object) -> Json:
    """Return a config with two clients that may do everything, but for changes to what alice may."""
    asking = {name: {**server, "asks": ["elicitation"]} for name, server in servers.items()}
    policies = [
        {"name": "alice", "clients": ["alice"], "allow": ["*/*"], **alice},
        {"name": "bob", "clients": ["bob"], "allow": ["*/*"]},
    ]
    clients = {"alice": {"key": "${ALICE_KEY}"}, "bob": {"key": "${BOB_KEY}"}}
    return {"servers": asking, "clients": clients, "policies": policies}


@pytest.fixture(scope="module")
def servers() -> Iterator[Json]:
    """Return the configs of servers of both eras over both transports."""
    with ExitStack() as stack:
        urls = {f"{name}http": stack.enter_context(listening(era)) for name, era in ERAS.items()}
        yield {name: {"url": url} for name, url in urls.items()} | {
            f"{name}stdio": piped(era) for name, era in ERAS.items()
        }


ERAS = {"new": "modern", "old": "legacy"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, servers: Json) -> Iterator[Gateway]:
    """A gateway in front of all of them."""
    with serving(tmp_path_factory.mktemp("tasks"), config(servers), KEYS) as running:
        running.await_servers(*servers)
        yield running


def written(method: str, params: Json, key: str = ALICE, capabilities: Json | None = None) -> bytes:
    """Write a request of a modern client."""
    own = {**params, "_meta": modern_meta(CAPABLE if capabilities is None else capabilities)}
    change = {"mcp_name": str(params["taskId"])} if "taskId" in params else None
    head = [*modern_headers(method, own, change), ("Authorization", f"Bearer {key}")]
    return post({"jsonrpc": "2.0", "id": 1, "method": method, "params": own}, head)


async def tell(gateway: Gateway, method: str, params: Json, key: str = ALICE) -> Reply:
    """Send a request of a modern client that knows tasks."""
    return await ask(gateway.port, written(method, params, key))


async def begin(gateway: Gateway, tool: str, **arguments: object) -> str:
    """Start a task as a modern client; returns its id."""
    result = (await tell(gateway, "tools/call", {"name": tool, "arguments": arguments})).result
    assert result["resultType"] == "task", result
    return str(result["taskId"])


async def until(gateway: Gateway, task: str, *statuses: str) -> Json:
    """Look at a modern client's task until it has one of these statuses."""
    for _ in range(LOOKS):
        state = (await tell(gateway, "tasks/get", {"taskId": task})).result
        if state["status"] in statuses:
            return state
        await asyncio.sleep(0.05)
    raise AssertionError(state)


async def session_of(gateway: Gateway, key: str = ALICE, capabilities: Json | None = None) -> LegacySession:
    """Shake hands."""
    session = LegacySession(gateway.port, [("Authorization", f"Bearer {key}")])
    await session.begin(capabilities)
    return session


async def started(session: LegacySession, tool: str, **arguments: object) -> Json:
    """Start a task as a legacy client; returns its handle."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 30_000}}
    handle: Json = (await session.ask("tools/call", params)).result["task"]
    return handle


async def settled(session: LegacySession, task: str) -> Json:
    """Look at a legacy client's task until it is over."""
    for _ in range(LOOKS):
        state = (await session.ask("tasks/get", {"taskId": task})).result
        if state["status"] in OVER:
            return state
        await asyncio.sleep(0.05)
    raise AssertionError(state)


def said(result: Json) -> str:
    """Return the text of a tool's result."""
    return str(result["content"][0]["text"])


def _without(body: bytes, task: str) -> bytes:
    """Take an id out of an answer that repeats it, cut where it is long."""
    return body.replace((task if len(task) <= 128 else f"{task[:127]}…").encode(), b"ID")


# Clients and servers of 2026-07-28.


@NEW
async def test_a_modern_task_is_started_looked_at_and_brings_its_result(gateway: Gateway, server: str) -> None:
    """S59: every request about a task is a request about its tool, and one call has one id in the log."""
    task = await begin(gateway, f"{server}__slow_compute", seconds=0.2, label="it")
    state = (await tell(gateway, "tasks/get", {"taskId": task})).result
    assert (state["taskId"], state["resultType"]) == (task, "complete")

    state = await until(gateway, task, *OVER)

    assert (state["status"], said(state["result"]), state["taskId"]) == ("completed", "computed it", task)
    assert state["_meta"]["dev.mcp-gateway/instance"]["server"] == server

    def trail() -> list[Json]:
        calls = [record for record in gateway.records() if str(record["event"]).startswith("call.")]
        ids = {record["call_id"] for record in calls if (record.get("mcp") or {}).get("method") == "tasks/get"}
        mine = [record for record in calls if record["call_id"] in ids and record["server"] == server]
        return [record for record in mine if record["call_id"] == mine[-1]["call_id"]]

    eventually(lambda: trail()[-1]["outcome"]["status"] == "ok", "the look is recorded")
    records = trail()
    assert [record["event"] for record in records[:2]] == ["call.start", "call.end"]
    assert records[1]["outcome"]["status"] == "started"
    assert {record["event"] for record in records[2:]} == {"call.round"}
    assert {record["tool"]["exposed"] for record in records} == {f"{server}__slow_compute"}


@NEW
async def test_a_modern_task_is_cancelled(gateway: Gateway, server: str) -> None:
    task = await begin(gateway, f"{server}__slow_compute", seconds=60)
    ack = (await tell(gateway, "tasks/cancel", {"taskId": task})).result
    assert set(ack) == {"resultType", "_meta"}
    assert (await until(gateway, task, *OVER))["status"] == "cancelled"


@NEW
async def test_a_modern_tasks_questions_are_answered_by_updates(gateway: Gateway, server: str) -> None:
    task = await begin(gateway, f"{server}__confirm_delete", filename="a.txt")
    state = await until(gateway, task, "input_required")
    assert [each["method"] for each in state["inputRequests"].values()] == ["elicitation/create"]

    await tell(gateway, "tasks/update", {"taskId": task, "inputResponses": dict.fromkeys(state["inputRequests"], YES)})

    assert said((await until(gateway, task, *OVER))["result"]).startswith("action=accept")


@NEW
async def test_a_question_that_a_client_cannot_take_is_answered_in_its_place(gateway: Gateway, server: str) -> None:
    """S97, S100: a task goes on, whatever its client can be asked."""
    task = await begin(gateway, f"{server}__confirm_delete", filename="a.txt")
    await until(gateway, task, "input_required")
    blind: Json = {"elicitation": {"url": {}}, "extensions": {EXTENSION: {}}}
    state = (await ask(gateway.port, written("tasks/get", {"taskId": task}, capabilities=blind))).result
    assert state["inputRequests"] == {}
    assert said((await until(gateway, task, *OVER))["result"]).startswith("action=cancel")


@NEW
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_another_principals_task_is_answered_like_one_that_does_not_exist(
    gateway: Gateway, server: str, method: str
) -> None:
    """S59: bytes tell nothing of what an id may be."""
    task = await begin(gateway, f"{server}__slow_compute", seconds=60)
    altered = task[:-6] + ("AAAAAA" if not task.endswith("AAAAAA") else "BBBBBB")
    answers = [
        (await tell(gateway, method, {"taskId": each, "inputResponses": {}}, key), each)
        for each, key in ((task, BOB), (altered, ALICE), ("nonsense", ALICE), ("nonsense", BOB))
    ]
    assert len({_without(reply.body, each) for reply, each in answers}) == 1
    assert {(reply.status, reply.code) for reply, _ in answers} == {(400, -32602)}
    assert answers[2][0].message["error"]["message"] == "Unknown task: nonsense"
    assert (await tell(gateway, "tasks/get", {"taskId": task})).result["status"] == "working"
    await tell(gateway, "tasks/cancel", {"taskId": task})


@NEW
async def test_what_a_client_has_not_declared_it_is_not_given(gateway: Gateway, server: str) -> None:
    plain = written("tools/call", {"name": f"{server}__slow_compute", "arguments": {"seconds": 0.1}}, capabilities={})
    assert said((await ask(gateway.port, plain)).result) == "computed "
    required = written("tools/call", {"name": f"{server}__failing_job", "arguments": {}}, capabilities={})
    reply = await ask(gateway.port, required)
    assert (reply.status, reply.code) == (400, -32021)
    assert reply.message["error"]["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    reply = await ask(gateway.port, written("tasks/get", {"taskId": "x"}, capabilities={}))
    assert (reply.status, reply.code) == (400, -32021)
    filters = {"notifications": {"taskIds": ["x"]}}
    reply = await ask(gateway.port, written("subscriptions/listen", filters, capabilities={}))
    assert (reply.status, reply.code) == (400, -32021)


async def listen(connection: Connection, key: str, *tasks: str) -> Json:
    """Open a subscription to tasks; returns the acknowledged filter."""
    await connection.send(written("subscriptions/listen", {"notifications": {"taskIds": [*tasks]}}, key))
    assert (await connection.head())[0] == 200
    acknowledged = await anext(connection.messages())
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    honoured: Json = acknowledged["params"]["notifications"]
    return honoured


@NEW
async def test_a_change_is_told_to_the_tasks_owner_alone(gateway: Gateway, server: str) -> None:
    task = await begin(gateway, f"{server}__confirm_delete", filename="a.txt")
    own = await begin(gateway, f"{server}__slow_compute", seconds=60)
    state = await until(gateway, task, "input_required")
    async with connect(gateway.port) as alice, connect(gateway.port) as bob:
        assert await listen(bob, BOB, task) == {}
        assert await listen(alice, ALICE, task, "nonsense") == {"taskIds": [task]}
        answers = dict.fromkeys(state["inputRequests"], YES)
        await tell(gateway, "tasks/update", {"taskId": task, "inputResponses": answers})
        heard = []
        async for message in alice.messages():
            heard.append(message)
            if message["params"]["status"] in OVER:
                break
        assert {message["method"] for message in heard} == {"notifications/tasks"}
        assert {message["params"]["taskId"] for message in heard} == {task}
        assert said(heard[-1]["params"]["result"]).startswith("action=accept")
        assert heard[-1]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(bob.messages())
    await tell(gateway, "tasks/cancel", {"taskId": own})


async def test_a_task_outlives_the_gateway_and_ends_with_the_right_to_its_tool(tmp_path: Path, servers: Json) -> None:
    """S183: the id is all there is to a task here, and policies are asked every time."""
    mine = {"newhttp": servers["newhttp"]}
    with serving(tmp_path, config(mine), KEYS) as gateway:
        gateway.await_servers("newhttp")
        task = await begin(gateway, "newhttp__slow_compute", seconds=60)
        gateway.kill()
        gateway.start()
        gateway.await_servers("newhttp")
        assert (await tell(gateway, "tasks/get", {"taskId": task})).result["status"] == "working"

        gateway.reload(config(mine, allow=["*/greet"]))

        reply = await tell(gateway, "tasks/get", {"taskId": task})
        assert reply.message["error"]["message"] == f"Unknown task: {task[:127]}…"
        gateway.reload(config(mine))
        await tell(gateway, "tasks/cancel", {"taskId": task})


# Clients and servers of 2025-11-25.


@OLD
async def test_a_legacy_task_is_started_looked_at_and_its_result_fetched(gateway: Gateway, server: str) -> None:
    session = await session_of(gateway)
    handle = await started(session, f"{server}__slow_compute", seconds=0.2, label="it")
    assert (handle["status"], handle["ttl"]) == ("working", 30_000)

    reply = await session.ask("tasks/result", {"taskId": handle["taskId"]})

    assert said(reply.result) == "computed it"
    assert reply.result["_meta"][RELATED] == {"taskId": handle["taskId"]}
    assert (await settled(session, handle["taskId"]))["taskId"] == handle["taskId"]
    again = await session.ask("tasks/cancel", {"taskId": handle["taskId"]})
    assert again.code == -32602
    text = again.message["error"]["message"]
    assert text == f"Cannot cancel task {handle['taskId']}: already in terminal status 'completed'"


@OLD
async def test_a_legacy_task_is_cancelled_and_ends_with_its_own_error(gateway: Gateway, server: str) -> None:
    session = await session_of(gateway)
    task = (await started(session, f"{server}__slow_compute", seconds=60))["taskId"]
    state = (await session.ask("tasks/cancel", {"taskId": task})).result
    assert (state["taskId"], state["status"]) == (task, "cancelled")
    assert (await session.ask("tasks/result", {"taskId": task})).code == -32000
    broken = (await started(session, f"{server}__protocol_error_job"))["taskId"]
    assert (await session.ask("tasks/result", {"taskId": broken})).message["error"]["message"] == "The job broke."


@OLD
async def test_a_legacy_tasks_question_comes_with_its_result(gateway: Gateway, server: str) -> None:
    """S96: the question names the task as its client knows it, and the answer names it as its server does."""
    session = await session_of(gateway, capabilities={"elicitation": {}})
    task = (await started(session, f"{server}__confirm_delete", filename="a.txt"))["taskId"]
    async with connect(gateway.port) as connection:
        await connection.send(session.request("tasks/result", {"taskId": task}, identifier=7))
        await connection.head()
        messages = connection.messages()
        question = await anext(messages)
        assert question["method"] == "elicitation/create"
        assert question["params"]["_meta"][RELATED] == {"taskId": task}
        await ask(gateway.port, session.response(question["id"], YES))
        last = await anext(messages)
    assert last["id"] == 7
    assert said(last["result"]).startswith("action=accept")
    assert task not in said(last["result"])


@OLD
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_another_principals_legacy_task_is_answered_like_one_that_does_not_exist(
    gateway: Gateway, server: str, method: str
) -> None:
    alice, bob = await session_of(gateway), await session_of(gateway, BOB)
    task = (await started(alice, f"{server}__slow_compute", seconds=60))["taskId"]
    foreign, unknown = await bob.ask(method, {"taskId": task}), await bob.ask(method, {"taskId": "nonsense"})
    assert _without(foreign.body, task) == _without(unknown.body, "nonsense")
    assert (unknown.status, unknown.code) == (200, -32602)
    await alice.ask("tasks/cancel", {"taskId": task})


@OLD
async def test_a_legacy_client_is_listed_its_own_tasks_alone(gateway: Gateway, server: str) -> None:
    alice, again, bob = await session_of(gateway), await session_of(gateway), await session_of(gateway, BOB)
    task = (await started(alice, f"{server}__slow_compute", seconds=60))["taskId"]
    other = (await started(bob, f"{server}__slow_compute", seconds=60))["taskId"]
    for session in (alice, again):
        listed = (await session.ask("tasks/list")).result["tasks"]
        assert task in {each["taskId"] for each in listed}
        assert other not in {each["taskId"] for each in listed}
    assert (await bob.ask("tasks/list")).result["tasks"][0]["taskId"] == other
    for session, each in ((alice, task), (bob, other)):
        await session.ask("tasks/cancel", {"taskId": each})


@OLD
async def test_a_legacy_tasks_changes_are_told_to_the_session_that_began_it(gateway: Gateway, server: str) -> None:
    alice, bob = await session_of(gateway), await session_of(gateway, BOB)
    async with connect(gateway.port) as mine, connect(gateway.port) as theirs:
        for session, connection in ((alice, mine), (bob, theirs)):
            await connection.send(session.get())
            assert (await connection.head())[0] == 200
        # A server that tells over HTTP does so on a stream that the gateway opens with the first task.
        begun = set()
        for _ in range(20):
            task = (await started(alice, f"{server}__slow_compute", seconds=60))["taskId"]
            await alice.ask("tasks/cancel", {"taskId": task})
            begun.add(task)
        message = await anext(mine.messages())
        assert message["method"] == "notifications/tasks/status"
        assert message["params"]["status"] == "cancelled"
        assert message["params"]["taskId"] in begun
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(theirs.messages())


@OLD
async def test_a_tool_that_must_run_as_a_task_runs_as_one_for_clients_without_tasks(
    gateway: Gateway, server: str
) -> None:
    name = {"name": f"{server}__failing_job", "arguments": {}}
    session = await session_of(gateway)
    told = (await session.ask("tools/call", name)).result
    assert (said(told), told["isError"]) == ("The job failed.", True)
    assert RELATED not in told.get("_meta", {})
    told = (await ask(gateway.port, written("tools/call", name, capabilities={}))).result
    assert (said(told), told["resultType"]) == ("The job failed.", "complete")


@OLD
async def test_a_task_that_the_gateway_runs_may_ask(gateway: Gateway, server: str) -> None:
    session = await session_of(gateway, capabilities={"elicitation": {}})
    async with connect(gateway.port) as connection:
        await connection.send(session.request("tools/call", {"name": f"{server}__confirm_delete"}, identifier=7))
        await connection.head()
        messages = connection.messages()
        question = await anext(messages)
        await ask(gateway.port, session.response(question["id"], YES))
        last = await anext(messages)
    assert said(last["result"]).startswith("action=accept")


@OLD
async def test_tasks_are_not_bridged_between_the_eras(gateway: Gateway, server: str) -> None:
    tools = (await ask(gateway.port, written("tools/list", {}))).result["tools"]
    assert not any("execution" in tool for tool in tools)
    call = {"name": f"{server}__slow_compute", "arguments": {"label": "now"}}
    assert said((await tell(gateway, "tools/call", call)).result) == "computed now"
    session = await session_of(gateway)
    tools = (await session.ask("tools/list")).result["tools"]
    support = {tool["name"]: tool.get("execution") for tool in tools}
    assert support[f"{server}__slow_compute"] == {"taskSupport": "optional"}
    new = server.replace("old", "new")
    call = {"name": f"{new}__slow_compute", "arguments": {"label": "now"}, "task": {}}
    assert said((await session.ask("tools/call", call)).result) == "computed now"


async def test_tasks_are_offered_to_each_era_by_servers_of_that_era(tmp_path: Path, servers: Json) -> None:
    """Only where a server that the client sees offers them."""
    hidden = config({"newhttp": servers["newhttp"], "oldhttp": servers["oldhttp"]}, allow=["oldhttp/*"])
    with serving(tmp_path, hidden, KEYS) as gateway:
        gateway.await_servers("newhttp", "oldhttp")
        found = [(await ask(gateway.port, written("server/discover", {}, key))).result for key in (ALICE, BOB)]
        assert ["extensions" in each["capabilities"] for each in found] == [False, True]
        assert found[1]["capabilities"]["extensions"] == {EXTENSION: {}}
        alice = LegacySession(gateway.port, [("Authorization", f"Bearer {ALICE}")])
        offered = (await alice.begin()).result["capabilities"]
        assert offered["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        old = LegacySession(gateway.port, [("Authorization", f"Bearer {ALICE}")], version="2025-06-18")
        assert "tasks" not in (await old.begin()).result["capabilities"]
        gateway.reload(config({"newhttp": servers["newhttp"], "oldhttp": servers["oldhttp"]}, allow=["newhttp/*"]))
        alice = LegacySession(gateway.port, [("Authorization", f"Bearer {ALICE}")])
        assert "tasks" not in (await alice.begin()).result["capabilities"]


def processes(gateway: Gateway) -> set[int]:
    """Return the legacy servers below a gateway."""
    found = set()
    for pid in descendants(gateway.pid):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tests.conformance.tasking" in line and b"-m" in line and b"legacy" in line:
            found.add(pid)
    return found


async def test_a_task_whose_process_was_killed_is_lost_and_said_to_be(tmp_path: Path) -> None:
    with serving(tmp_path, config({"old": piped("legacy")}), KEYS) as gateway:
        gateway.await_servers("old")
        before = processes(gateway)
        session = await session_of(gateway)
        task = (await started(session, "old__slow_compute", seconds=60))["taskId"]
        for pid in processes(gateway) - before:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: processes(gateway) <= before, "the server has ended")

        for _ in range(LOOKS):
            reply = await session.ask("tasks/get", {"taskId": task})
            if "is lost" in str(reply.message):
                break
            await asyncio.sleep(0.05)

        assert reply.code == -31002
        assert "the task is lost with it" in reply.message["error"]["message"]
        assert (await session.ask("tasks/result", {"taskId": task})).code == -31002
        assert (await session.ask("tasks/list")).result == {"tasks": []}
