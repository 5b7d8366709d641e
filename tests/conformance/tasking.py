"""A reference server that runs calls as tasks, in the words of either era; its tools are those the suite names.

``python -m tests.conformance.tasking ERA [PORT]``, where ERA is modern or legacy; without a port over stdio. It is a
leaky one: everybody may see everybody's tasks, so that whoever stands in front has to keep them apart.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tests.conformance import contents, over_http, over_stdio
from tests.conformance.contents import Json
from tests.conformance.deeds import DEEDS, Ask, Deed, Fault, Question, Turn, World

EXTENSION: Final = "io.modelcontextprotocol/tasks"
RELATED: Final = "io.modelcontextprotocol/related-task"
POLL_MS: Final = 50
TTL_MS: Final = 60_000
OVER: Final = frozenset({"completed", "failed", "cancelled"})
SUPPORT: Final = {
    "slow_compute": "optional",
    "failing_job": "required",
    "protocol_error_job": "optional",
    "confirm_delete": "required",
    "multi_input": "optional",
    "test_tool_with_task": "required",
}
_NUMBER: Final[Json] = {"type": "number"}
_TEXT: Final[Json] = {"type": "string"}
PROPERTIES: Final[Mapping[str, Json]] = {
    "greet": {"name": _TEXT},
    "slow_compute": {"seconds": _NUMBER, "label": _TEXT},
    "confirm_delete": {"filename": _TEXT},
}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True, eq=False)
class Task:
    """One task; ``changed`` is set anew with every change."""

    modern: bool
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    status: str = "working"
    ttl: int = TTL_MS
    created: str = field(default_factory=_now)
    updated: str = field(default_factory=_now)
    result: Json | None = None
    error: Json | None = None
    questions: dict[str, Question] = field(default_factory=dict)
    answers: Json = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None

    def handle(self) -> Json:
        """Return what a call is answered with."""
        suffix = "Ms" if self.modern else ""
        times = {f"ttl{suffix}": self.ttl, f"pollInterval{suffix}": POLL_MS}
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            **times,
        }

    def detailed(self) -> Json:
        """Return all there is to say; the legacy era keeps results apart."""
        whole = self.handle()
        if self.modern and self.result is not None:
            whole["result"] = self.result
        if self.modern and self.error is not None:
            whole["error"] = self.error
        if self.modern and self.questions:
            asked = {key: {"method": method, "params": params} for key, (method, params) in self.questions.items()}
            whole["inputRequests"] = asked
        return whole


Work = Callable[["Tasking", Task, Turn], Awaitable[Json]]


class Tasking(World):
    """The server; ``modern`` says in which era's words."""

    def __init__(self, *, modern: bool) -> None:
        own: Json = (
            {"extensions": {EXTENSION: {}}}
            if modern
            else {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
        )
        super().__init__({"tools": {"listChanged": True}, **own})
        self.modern = modern
        self.tasks: dict[str, Task] = {}

    def tools(self) -> list[Json]:
        """Return the suite's tools of tasks, and one that is no task ever."""
        found = []
        for name in ("greet", *SUPPORT):
            schema = {"type": "object", "properties": PROPERTIES.get(name, {})}
            tool: Json = {"name": name, "description": f"{name} of the suite", "inputSchema": schema}
            if name in SUPPORT and not self.modern:
                tool["execution"] = {"taskSupport": SUPPORT[name]}
            found.append(tool)
        return found

    def deed(self, method: str) -> Deed | None:
        """Return how calls and requests about tasks are carried out."""
        own: dict[str, Deed] = {"tools/call": self._call, "tasks/get": self._get, "tasks/cancel": self._cancel}
        if self.modern:
            own["tasks/update"] = self._update
        else:
            own |= {"tasks/result": self._result, "tasks/list": self._list}
        return own.get(method) or DEEDS.get(method)

    def _declared(self, turn: Turn) -> bool:
        return EXTENSION in (turn.capabilities.get("extensions") or {})

    async def _call(self, turn: Turn) -> Json:
        name = str(turn.params.get("name"))
        if name == "greet":
            return {"content": [contents.text(f"Hello, {turn.arguments.get('name')}!")]}
        if name not in SUPPORT:
            raise Fault(-32602, f"Unknown tool: {name}")
        wanted = self._declared(turn) if self.modern else isinstance(turn.params.get("task"), dict)
        if not wanted and SUPPORT[name] == "required":
            if not self.modern:
                raise Fault(-32601, f"Tool {name} needs to be called as a task")
            data: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise Fault(-32021, "Missing required client capability", data, 400)
        if name == "test_tool_with_task" and self.modern:
            turn.ask({"user_name": contents.form("What is your name?", {"name": _TEXT}, "name")})
        task = Task(self.modern)
        if not wanted or (self.modern and turn.arguments.get("seconds") == 0):
            return await WORKS[name](self, task, turn)
        if not self.modern:
            task.ttl = int(turn.params["task"].get("ttl") or TTL_MS)
        self.tasks[task.id] = task
        task.work = asyncio.get_running_loop().create_task(self._run(task, WORKS[name], turn))
        if self.modern:
            return {"resultType": "task", **task.handle()}
        return {"task": task.handle()}

    async def _run(self, task: Task, work: Work, turn: Turn) -> None:
        try:
            task.result = await work(self, task, turn)
            await self.move(task, "failed" if task.result.get("isError") and not self.modern else "completed")
        except Fault as fault:
            task.error = fault.error
            await self.move(task, "failed")

    async def move(self, task: Task, status: str) -> None:
        """Change a task and say so."""
        task.status, task.updated = status, _now()
        task.changed.set()
        task.changed = asyncio.Event()
        method = "notifications/tasks" if self.modern else "notifications/tasks/status"
        await self.tell({"jsonrpc": "2.0", "method": method, "params": task.detailed()})

    async def asked(self, task: Task, questions: dict[str, Question]) -> Json:
        """Ask on behalf of a task and wait for all answers."""
        task.questions = dict(questions)
        await self.move(task, "input_required")
        while task.questions:
            await task.changed.wait()
        await self.move(task, "working")
        return task.answers

    def _find(self, turn: Turn) -> Task:
        if self.modern and not self._declared(turn):
            data: Json = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise Fault(-32021, "Missing required client capability", data, 400)
        task = self.tasks.get(str(turn.params.get("taskId")))
        if task is None:
            raise Fault(-32602, f"Task not found: {turn.params.get('taskId')}", status=400)
        return task

    async def _get(self, turn: Turn) -> Json:
        return self._find(turn).detailed()

    async def _list(self, turn: Turn) -> Json:
        return {"tasks": [task.handle() for task in self.tasks.values()]}

    async def _cancel(self, turn: Turn) -> Json:
        task = self._find(turn)
        if task.status in OVER:
            if not self.modern:
                raise Fault(-32602, f"Cannot cancel task {task.id}: already in terminal status '{task.status}'")
        elif task.work is not None:
            task.work.cancel()
            task.questions = {}
            task.error = {"code": -32000, "message": "The task was cancelled"}
            if self.modern:
                task.error = None
            await self.move(task, "cancelled")
        return {} if self.modern else task.handle()

    async def _update(self, turn: Turn) -> Json:
        task = self._find(turn)
        for key, given in turn.answers.items():
            if task.questions.pop(key, None) is not None:
                task.answers[key] = given
        task.changed.set()
        task.changed = asyncio.Event()
        return {}

    async def _result(self, turn: Turn) -> Json:
        """Wait for the end; what the task asks is asked on this request's stream."""
        task = self._find(turn)
        for key, given in turn.answers.items():
            if task.questions.pop(key, None) is not None:
                task.answers[key] = given
                task.changed.set()
                task.changed = asyncio.Event()
        while task.status not in OVER:
            if task.questions:
                raise Ask({key: _related(task, question) for key, question in task.questions.items()})
            await task.changed.wait()
        if task.error is not None:
            raise Fault(int(task.error["code"]), str(task.error["message"]))
        return {**(task.result or {}), "_meta": {RELATED: {"taskId": task.id}}}


def _related(task: Task, question: Question) -> Question:
    method, params = question
    return method, {**params, "_meta": {RELATED: {"taskId": task.id}}}


async def _slow(server: Tasking, task: Task, turn: Turn) -> Json:
    await asyncio.sleep(float(turn.arguments.get("seconds", 0)))
    return {"content": [contents.text(f"computed {turn.arguments.get('label', '')}")]}


async def _failing(server: Tasking, task: Task, turn: Turn) -> Json:
    await asyncio.sleep(2 * POLL_MS / 1000)
    return {"content": [contents.text("The job failed.")], "isError": True}


async def _broken(server: Tasking, task: Task, turn: Turn) -> Json:
    raise Fault(-32603, "The job broke.", {"part": "engine"})


async def _confirm(server: Tasking, task: Task, turn: Turn) -> Json:
    question = contents.form(f"Delete {turn.arguments.get('filename')}?", {"confirm": {"type": "boolean"}}, "confirm")
    answer = (await server.asked(task, {"confirm": question}))["confirm"]
    return {"content": [contents.text(f"action={answer.get('action')} {(answer.get('_meta') or {}).get(RELATED)}")]}


async def _two(server: Tasking, task: Task, turn: Turn) -> Json:
    questions = {key: contents.form(f"The {key}?", {"name": _TEXT}, "name") for key in ("first", "second")}
    answers = await server.asked(task, questions)
    return {"content": [contents.text(f"answered: {sorted(answers)}")]}


async def _named(server: Tasking, task: Task, turn: Turn) -> Json:
    name = (turn.answers.get("user_name", {}).get("content") or {}).get("name")
    return {"content": [contents.text(f"Hello, {name}!")]}


WORKS: Final[dict[str, Work]] = {
    "slow_compute": _slow,
    "failing_job": _failing,
    "protocol_error_job": _broken,
    "confirm_delete": _confirm,
    "multi_input": _two,
    "test_tool_with_task": _named,
}


async def serve(era: str, port: int | None) -> None:
    """Serve over HTTP on loopback, or over stdio until it ends."""
    world = Tasking(modern=era == "modern")
    if port is None:
        await over_stdio.Pipes(world, era).run()
        return
    await over_http.serve(world, era, port)


if __name__ == "__main__":
    assert sys.argv[1] in ("modern", "legacy")
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None))
