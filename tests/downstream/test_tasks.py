"""Tasks of legacy servers: their answers, and calls that the gateway runs as tasks (2025-11-25 utilities/tasks)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.downstream import tasks
from gateway.downstream.dialect import Hello
from gateway.downstream.legacy import Legacy
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, Caller, TaskRef
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol.rawjson import Object, decode_value
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from tests.downstream.test_legacy import legacy
from tests.kit.definitions import tool
from tests.kit.transport import (
    CAPABILITIES,
    INFO,
    WAIT,
    FakeTransport,
    Heard,
    Script,
    Sent,
    bare,
    call,
    echo,
    failure,
    members,
    never,
    peer,
    reply,
)

RUNS: Object = {**CAPABILITIES, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
RELATED = "io.modelcontextprotocol/related-task"
REQUIRED = tool("echo", execution={"taskSupport": "required"})


def told(values: Object) -> Reply:
    return Reply(members(**values))


def greet(sent: Sent) -> Reply:
    return reply(protocolVersion="2025-11-25", capabilities=RUNS, serverInfo=INFO)


class Server:
    """A server whose one task goes through ``statuses``, one a look, and then stays."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)

    @property
    def script(self) -> Script:
        return {
            "initialize": greet,
            "tools/call": lambda sent: reply(task=self.task("working")),
            "tasks/get": lambda sent: told(self.task(self.statuses.pop(0))),
            "tasks/result": lambda sent: reply(content=[], _meta={RELATED: {"taskId": "own"}}),
            "tasks/cancel": lambda sent: told(self.task("cancelled")),
        }

    def task(self, status: str) -> Object:
        return {"taskId": "own", "status": status, "ttl": 1000, "pollInterval": 1}


def ignored(name: str, error: BaseException) -> None:
    """Take a crash that the test looks at itself."""


async def forgotten(dialect: Legacy, made: Call) -> None:
    """Make a call whose outcome nobody wants."""
    await dialect.call(made, Exchange())


def required(method: str = "tools/call", **changes: object) -> Call:
    return replace(call(method=method), definition=REQUIRED, **changes)  # type: ignore[arg-type]  # reason: changes are Call's own fields.


def about(method: str) -> Call:
    return call(method=method, params={"taskId": "own"}, task=TaskRef("own", "sealed"))


async def test_a_tool_that_must_run_as_a_task_is_run_as_one() -> None:
    server = Server("working", "working", "completed")
    transport = FakeTransport(server.script)
    dialect = await legacy(transport)
    async with asyncio.timeout(WAIT):
        outcome = await dialect.call(required(), Exchange())
    assert isinstance(outcome, Complete)
    assert "_meta" not in outcome.result
    assert transport.methods()[1:] == ["tools/call", *["tasks/get"] * 3, "tasks/result"]
    assert transport.of("tools/call")[0].params["task"] == {"ttl": 600_000}
    assert transport.of("tasks/result")[0].params == {"taskId": "own"}


async def test_one_that_wants_something_is_asked_for_its_result_at_once() -> None:
    transport = FakeTransport(Server("input_required").script)
    async with asyncio.timeout(WAIT):
        await (await legacy(transport)).call(required(), Exchange())
    assert transport.methods()[1:] == ["tools/call", "tasks/get", "tasks/result"]


async def test_errors_on_the_way_are_the_calls_own() -> None:
    async with asyncio.timeout(WAIT):
        for method in ("tools/call", "tasks/get", "tasks/result"):
            script = {**Server("completed").script, method: lambda sent: failure(-32000, "broke")}
            outcome = await (await legacy(FakeTransport(script))).call(required(), Exchange())
            assert isinstance(outcome, Failure)
            assert outcome.error is not None
            assert outcome.error.message == "broke"


async def test_a_server_that_answers_at_once_is_believed() -> None:
    script = {**Server().script, "tools/call": echo}
    assert isinstance(await (await legacy(FakeTransport(script))).call(required(), Exchange()), Complete)


async def test_a_call_that_is_cancelled_takes_its_task_along() -> None:
    transport = FakeTransport({**Server().script, "tasks/get": never})
    dialect = await legacy(transport)
    running = TaskSet(ignored).start(forgotten(dialect, required()), "call")
    await transport.reached("tasks/get")
    running.cancel()
    await asyncio.wait([running])
    assert (await transport.reached("tasks/cancel")).params == {"taskId": "own"}
    await dialect.aclose()


@pytest.mark.parametrize(
    ("made", "hello", "must"),
    [
        (required(), RUNS, True),
        (required(), CAPABILITIES, False),
        (required(params={"name": "echo", "task": {}}), RUNS, False),
        (call(definition=tool("echo")), RUNS, False),
        (call(), RUNS, False),
        (required(method="prompts/get"), RUNS, False),
    ],
)
def test_only_what_must_run_as_a_task_is_run_as_one(made: Call, hello: Object, must: bool) -> None:
    assert tasks.must_be_task(made, Hello(Era.LEGACY, "2025-11-25", {}, hello)) is must


def outcome_of(made: Call, answer: Reply) -> object:
    return tasks.outcome(peer(FakeTransport({})), made, answer)


def test_answers_mean_what_was_asked() -> None:
    task: Object = {"taskId": "own", "status": "working"}
    asked = call(params={"name": "echo", "task": {}})
    assert isinstance(outcome_of(asked, reply(task=task)), Started)
    assert isinstance(outcome_of(asked, reply(content=[])), Complete)
    assert isinstance(outcome_of(call(), reply(task=task)), Complete)
    assert isinstance(outcome_of(about("tasks/get"), told(task)), Complete)
    assert isinstance(outcome_of(about("tasks/result"), reply(content=[])), Complete)
    assert isinstance(outcome_of(about("tasks/get"), failure(-32602)), Failure)


@pytest.mark.parametrize(
    ("made", "answer", "text"),
    [
        (call(params={"name": "echo", "task": {}}), reply(task={"status": "working"}), "without a usable handle"),
        (about("tasks/get"), reply(content=[]), "what is no task"),
        (about("tasks/cancel"), reply(), "what is no task"),
        (about("tasks/get"), bare(502), "HTTP status 502"),
        (about("tasks/get"), bare(401), "credential rejected"),
    ],
)
def test_answers_that_mean_nothing_are_the_servers_fault(made: Call, answer: Reply, text: str) -> None:
    with pytest.raises(DownstreamError, match=text):
        outcome_of(made, answer)


async def test_a_question_that_names_a_task_goes_to_who_waits_for_its_result() -> None:
    """S96: on a pipe too, where several calls are under way."""
    transport = FakeTransport({**Server().script, "tasks/result": never, "tools/call": never})
    dialect = await legacy(transport, asks=["elicitation"])
    asks = Legacy(dialect._peer, dialect._session, replace(dialect._asking, declares={"elicitation": {}}))
    capable = Caller(Era.LEGACY, "2025-11-25", capabilities={"elicitation": {}})
    running, outcomes = TaskSet(ignored), asyncio.Queue[Outcome]()

    async def wait() -> None:
        outcomes.put_nowait(await asks.call(replace(about("tasks/result"), caller=capable), Exchange()))

    running.start(wait(), "result")
    other = running.start(forgotten(asks, call(caller=capable)), "call")
    await transport.reached("tasks/result")
    await transport.reached("tools/call")
    transport.inbox = None
    question: Object = {"message": "m", "_meta": {RELATED: {"taskId": "own"}}}
    later = asks.ask("elicitation/create", told(question).result or {})
    assert isinstance(later, asyncio.Future)
    async with asyncio.timeout(WAIT):
        outcome = await outcomes.get()
    assert isinstance(outcome, InputRequired)
    foreign: Object = {"message": "m", "_meta": {RELATED: {"taskId": "else"}}}
    declined = asks.ask("elicitation/create", told(foreign).result or {})
    assert isinstance(declined, dict)
    assert decode_value(declined["action"]) == "cancel"
    other.cancel()
    await asyncio.wait([other])
    await asks.aclose()


async def test_a_servers_word_on_a_task_is_handed_up() -> None:
    said: list[str] = []
    transport, heard = FakeTransport(Server().script), Heard()
    dialect = await legacy(transport, heard)
    made = replace(dialect._peer, events=replace(dialect._peer.events, tasked=lambda task, state: said.append(task)))
    other = Legacy(made, dialect._session)
    other.notification("notifications/tasks/status", told({"taskId": "own", "status": "working"}).result or {})
    other.notification("notifications/tasks/status", told({"taskId": "own"}).result or {})
    assert said == ["own"]
    assert heard.violations == ["unexpected_notification"]


async def test_a_result_may_take_as_long_as_any_call_may() -> None:
    slow = {**Server().script, "tasks/result": never, "tasks/get": never}
    dialect = await legacy(FakeTransport(slow), timeouts={"call": "0.05s", "max": "0.3s"})
    began = asyncio.get_running_loop().time()
    for method, least in (("tasks/get", 0.0), ("tasks/result", 0.2)):
        with pytest.raises(DownstreamError) as caught:
            await dialect.call(about(method), Exchange())
        assert caught.value.reason is Reason.TIMEOUT
        assert asyncio.get_running_loop().time() - began >= least
