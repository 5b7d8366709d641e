"""Behaviours of the matrix: tasks, MCP Apps, and extensions that no gateway knows."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, TypeAlias

from tests.conformance.tasking import EXTENSION, OVER, RELATED
from tests.kit.answering import (
    Answerer,
    AnsweringClient,
    Ended,
    Manner,
    News,
    answering,
    answers_nothing,
    hearing,
)
from tests.kit.wire import EraName
from tests.matrix.cells import EVERYTHING, Behaviour, Bench, Cell, Instead
from tests.matrix.extended_world import APPS, FOUND, PAGE, SEARCH, SHARED, VIEW, extension

Json: TypeAlias = dict[str, Any]

CAPABLE: Final[dict[EraName, Json]] = {"modern": {**EVERYTHING, "extensions": {EXTENSION: {}}}, "legacy": EVERYTHING}
"""What a client declares that takes tasks: in the legacy era it is the call that says so."""
ELICIT: Final = "elicitation/create"
YES: Final[Json] = {"action": "accept", "content": {"confirm": True}}
TOLD: Final[dict[EraName, str]] = {"modern": "notifications/tasks", "legacy": "notifications/tasks/status"}
TRIES: Final = 20


def text(result: Json) -> str:
    """Return the text of a tool's result."""
    return str(result["content"][0]["text"])


async def begun(bench: Bench, client: AnsweringClient, tool: str, **arguments: object) -> str:
    """Start a task in the way of the client's era; returns its id."""
    params = {"name": bench.name(tool, bench.extended), "arguments": arguments}
    wish: Json = {} if bench.is_modern else {"task": {"ttl": 30_000}}
    result = (await client.request("tools/call", params | wish)).result
    handle: Json = result if bench.is_modern else result["task"]
    assert (result.get("resultType") == "task") is bench.is_modern
    assert handle["status"] in ("working", "input_required")
    return str(handle["taskId"])


async def looked_at(client: AnsweringClient, task: str, *statuses: str) -> Json:
    """Look at a task as often as its server suggests, until it has one of these statuses."""
    async with asyncio.timeout(5):
        while True:
            state = (await client.request("tasks/get", {"taskId": task})).result
            assert state["taskId"] == task
            if state["status"] in statuses:
                return state
            await asyncio.sleep((state.get("pollIntervalMs") or state["pollInterval"]) / 1000)


async def cancel(client: AnsweringClient, task: str) -> None:
    """Cancel a task."""
    assert (await client.request("tasks/cancel", {"taskId": task})).result


async def tasks(bench: Bench) -> None:
    """Started, looked at, its result fetched; another one cancelled."""
    async with capable(bench) as client:
        task = await begun(bench, client, "slow_compute", seconds=0.1, label="it")
        if bench.is_modern:
            result = (await looked_at(client, task, *OVER))["result"]
        else:
            result = (await client.request("tasks/result", {"taskId": task})).result
            assert result["_meta"][RELATED] == {"taskId": task}
        assert text(result) == "computed it"
        assert (await looked_at(client, task, *OVER))["status"] == "completed"
        other = await begun(bench, client, "slow_compute", seconds=60)
        await cancel(client, other)
        assert (await looked_at(client, other, *OVER))["status"] == "cancelled"


async def run_by_the_gateway(bench: Bench) -> None:
    """Where only legacy servers are seen, no tasks are offered; a tool that must run as one is run by the gateway."""
    async with alone(bench) as client:
        offered = (await client.request("server/discover")).result["capabilities"]
        assert EXTENSION not in offered["extensions"]
        tools = await client.every("tools/list", "tools")
        assert bench.name("failing_job", bench.extended) in [tool["name"] for tool in tools]
        assert not any("execution" in tool for tool in tools)
        now = (await client.call(bench.name("slow_compute", bench.extended), {"label": "now"})).result
        required = (await client.call(bench.name("failing_job", bench.extended))).result
    assert (text(now), now["resultType"]) == ("computed now", "complete")
    assert (text(required), required["isError"], required["resultType"]) == ("The job failed.", True, "complete")
    assert RELATED not in required["_meta"]


async def never_tasks(bench: Bench) -> None:
    """Where only modern servers are seen, no tasks are offered; a wish for one is ignored, and what needs one fails."""
    async with alone(bench) as client:
        hello = await client.open()
        assert hello is not None
        offered = hello.result["capabilities"]
        assert "tasks" not in offered
        assert EXTENSION not in offered["extensions"]
        assert not any("execution" in tool for tool in await client.every("tools/list", "tools"))
        params = {"name": bench.name("slow_compute", bench.extended), "arguments": {"label": "now"}, "task": {}}
        now = (await client.request("tools/call", params)).result
        required = await client.call(bench.name("failing_job", bench.extended))
    assert text(now) == "computed now"
    assert "task" not in now
    _needs_tasks(required)


def alone(bench: Bench) -> AbstractAsyncContextManager[AnsweringClient]:
    """Connect a client that sees no server but this cell's, for a block."""
    manner = Manner(CAPABLE[bench.cell.client])
    return answering(f"{bench.gateway.url}/{bench.extended}", bench.cell.client, manner)


def capable(bench: Bench, answer: Answerer = answers_nothing) -> AbstractAsyncContextManager[AnsweringClient]:
    """Connect a client that takes tasks, for a block."""
    return bench.client(CAPABLE[bench.cell.client], answer)


def _needs_tasks(ended: Ended) -> None:
    """Check the error of a modern server whose tool runs as a task or not at all."""
    assert ended.questions == []
    assert ended.error["code"] == -32021
    assert ended.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


async def questions(bench: Bench) -> None:
    """Modern clients find the question when they look and answer it by an update, legacy ones while they fetch."""

    async def answer(method: str, params: Json) -> Json:
        return YES

    async with capable(bench, answer) as client:
        task = await begun(bench, client, "confirm_delete", filename="a.txt")
        if bench.is_modern:
            asked = (await looked_at(client, task, "input_required"))["inputRequests"]
            [(method, params)] = [(each["method"], each["params"]) for each in asked.values()]
            await client.request("tasks/update", {"taskId": task, "inputResponses": dict.fromkeys(asked, YES)})
            result = (await looked_at(client, task, *OVER))["result"]
        else:
            ended = await client.request("tasks/result", {"taskId": task})
            [(method, params)], result = ended.questions, ended.result
            assert params["_meta"][RELATED] == {"taskId": task}
    assert (method, params["message"]) == (ELICIT, "Delete a.txt?")
    assert text(result).startswith("action=accept")


async def questions_of_calls(bench: Bench) -> None:
    """The gateway runs the task and asks its question as one of the call."""
    async with bench.asked({ELICIT: YES}) as client:
        ended = await client.call(bench.name("confirm_delete", bench.extended), {"filename": "a.txt"})
    assert text(ended.result).startswith("action=accept")
    [(method, params)] = ended.questions
    assert (method, params["message"]) == (ELICIT, "Delete a.txt?")
    assert RELATED not in params.get("_meta", {})


async def no_questions(bench: Bench) -> None:
    """Nothing is asked: the tool refuses a client that takes no tasks."""
    async with bench.asked({ELICIT: YES}) as client:
        _needs_tasks(await client.call(bench.name("confirm_delete", bench.extended), {"filename": "a.txt"}))


async def changes(bench: Bench) -> None:
    """A change is heard by whoever began the task (legacy) or names it (modern), and by no other client."""
    method, own = TOLD[bench.cell.client], set[str]()
    async with capable(bench) as owner, capable(bench) as other:
        theirs = await begun(bench, other, "slow_compute", seconds=60)
        if bench.is_modern:
            own.add(await begun(bench, owner, "slow_compute", seconds=60))
        async with hearing(other, tasks=(theirs,)) as others, hearing(owner, tasks=tuple(own)) as news:
            params = await _cancelled(bench, owner, own, news)
            await _fence(bench, others)
        await cancel(other, theirs)
    assert (params["taskId"] in own, params["status"]) == (True, "cancelled")
    assert {message["params"]["taskId"] for message in others.all if message["method"] == method} <= {theirs}


async def _cancelled(bench: Bench, owner: AnsweringClient, own: set[str], news: News) -> Json:
    """Cancel tasks until that is heard; a legacy server over HTTP tells on a stream that the first task opens."""
    for _ in range(TRIES):
        if not bench.is_modern:
            own.add(task := await begun(bench, owner, "slow_compute", seconds=60))
        else:
            [task] = own
        await cancel(owner, task)
        with suppress(TimeoutError):
            async with asyncio.timeout(5 if bench.is_modern else 0.3):
                while True:
                    params: Json = (await news.of(TOLD[bench.cell.client]))["params"]
                    if params["status"] == "cancelled":
                        return params
    raise AssertionError("nothing was heard of a task")


async def _fence(bench: Bench, news: News) -> None:
    """Hear of something else, twice, so that all is as it was."""
    async with bench.client() as client:
        for _ in range(2):
            assert (await client.call(bench.name("change"), {"kind": "prompts"})).result
            await news.of("notifications/prompts/list_changed")


async def no_changes(bench: Bench) -> None:
    """Whatever runs at the server, a client of the other era hears of no task."""
    wish: Json = {} if bench.is_modern else {"task": {}}
    name = "failing_job" if bench.is_modern else "slow_compute"
    async with capable(bench) as client, hearing(client) as news:
        params = {"name": bench.name(name, bench.extended), "arguments": {}}
        assert "content" in (await client.request("tools/call", params | wish)).result
        await _fence(bench, news)
    assert set(TOLD.values()).isdisjoint(message["method"] for message in news.all)


async def views(bench: Bench) -> None:
    """The view that a tool is shown with is read from the tool's own server, whoever else has the same."""
    tool, named = bench.name("show", bench.extended), f"ui://{bench.extended}+board/main.html"
    async with bench.client({"extensions": {APPS: {"mimeTypes": [PAGE]}}}) as client:
        [shown] = [each for each in await client.every("tools/list", "tools") if each["name"] == tool]
        assert shown["_meta"]["ui"]["resourceUri"] == named
        assert (await client.call(tool)).result["content"][0]["uri"] == named
        [page] = (await client.request("resources/read", {"uri": named})).result["contents"]
        assert page == {"uri": named, "mimeType": PAGE, "text": f"the board of {bench.extended}"}
        bare = await client.request("resources/read", {"uri": VIEW})
    assert bare.error["code"] == -32602


async def methods(bench: Bench) -> None:
    """The only server whose extension the client declared too gets the method; without one it is not found."""
    declared = {"extensions": {extension(bench.extended): {"v": 1}}}
    wanted = {"word": "héllo", "number": 2**53 + 1, "key": str(uuid.uuid4())}
    async with bench.client(declared) as client:
        ended = await client.request(SEARCH, {"wanted": wanted})
    assert ended.result["wanted"] == wanted
    assert ended.result["server"] == bench.extended
    assert ended.result["capabilities"] == declared
    assert ended.told(FOUND) == [{"hit": bench.extended}]
    ambiguous: tuple[Json, ...] = ({}, {"extensions": {SHARED: {}}})
    for each in ambiguous:
        async with bench.client(each) as client:
            assert (await client.request(SEARCH, {"wanted": wanted})).error["code"] == -32601


def _modern_before_legacy(cell: Cell) -> bool:
    return (cell.client, cell.server) == ("modern", "legacy")


def _legacy_before_modern(cell: Cell) -> bool:
    return (cell.client, cell.server) == ("legacy", "modern")


RUN: Final = (
    "tasks are not bridged between the eras, whose requests, results and questions about them differ: modern clients"
    " are offered none of a legacy server, and a tool that must run as a task is run as one by the gateway"
)
REFUSED: Final = (
    "tasks are not bridged between the eras: legacy clients are offered none of a modern server, a wish for one is"
    " ignored, and a tool that must run as a task answers with its own error −32021"
)

BEHAVIOURS: Final = (
    Behaviour(
        "tasks",
        "A call is started as a task, looked at, and its result fetched; another one is cancelled.",
        tasks,
        (
            Instead(_modern_before_legacy, RUN, run_by_the_gateway),
            Instead(_legacy_before_modern, REFUSED, never_tasks),
        ),
    ),
    Behaviour(
        "questions of tasks",
        "A task asks: modern clients answer with `tasks/update`, legacy ones while `tasks/result` is open.",
        questions,
        (
            Instead(
                _modern_before_legacy,
                "the gateway runs the task itself, so its question is one of the call",
                questions_of_calls,
            ),
            Instead(_legacy_before_modern, REFUSED, no_questions),
        ),
    ),
    Behaviour(
        "changes of tasks",
        "Whoever began the task (legacy) or names it in a subscription (modern) hears of them, nobody else.",
        changes,
        (
            Instead(
                lambda cell: cell.client != cell.server,
                "tasks are not bridged, so there are none to hear of",
                no_changes,
            ),
        ),
    ),
    Behaviour(
        "views of MCP Apps",
        "A `ui://` resource that several servers have is read from the server whose tool it shows.",
        views,
    ),
    Behaviour(
        "methods of extensions",
        "A method that nobody else knows goes to the only server with the client's extension.",
        methods,
    ),
)
