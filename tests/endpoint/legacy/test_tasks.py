"""Tasks of legacy clients over real HTTP, with a server that the test writes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.endpoint.legacy import tasks
from gateway.endpoint.legacy.tasks import PAGE, Book
from gateway.errors import Reason
from gateway.model.call import Call, TaskRef
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Value
from gateway.protocol.tasks import Task
from tests.kit.calls import call as made
from tests.kit.clients import Json, LegacySession, connect
from tests.kit.definitions import listing
from tests.kit.endpoint import ALICE, BOB, NOTES, OFFERED, FakeMoment, FakeServices, Site, keyed, moment, serving

RELATED = "io.modelcontextprotocol/related-task"
RUNS: dict[str, Value] = {**OFFERED, "tasks": {"requests": {"tools": {"call": {}}}}}


def members(**values: Value) -> Members:
    return {key: rawjson.raw(value) for key, value in values.items()}


class Server:
    """A chain that runs calls as tasks where it is asked to; ``gone`` are those it has forgotten."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.gone: set[str] = set()

    async def __call__(self, call: Call, exchange: Exchange) -> Outcome:
        self.calls.append(call)
        exchange.instance = InstanceFacts("notes", "stdio", "pid:1#1", "f00d")
        if call.method == "tools/call":
            if "task" not in call.params:
                return Complete(members(content=[]))
            own = f"own-{sum('task' in each.params for each in self.calls)}"
            link: Value = {RELATED: {"taskId": own}}
            return Started(members(task={"taskId": own, "status": "working", "ttl": 60_000}, _meta=link))
        own = str(call.params["taskId"])
        if own in self.gone:
            return Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, f"no {own}"))
        if call.method == "tasks/result":
            return Complete(members(content=[], _meta={RELATED: {"taskId": own}}))
        return Complete(members(taskId=own, status="working", ttl=60_000))


def now_of(server: Server, capabilities: dict[str, Value] | None = None, era: str = "legacy") -> FakeMoment:
    lists = {"notes": listing("notes", *NOTES, era=era, capabilities=RUNS if capabilities is None else capabilities)}
    now = moment(keyed(), lists)
    now.chain = server
    return now


async def session_of(
    site: Site, key: list[tuple[str, str]] | None = None, version: str = "2025-11-25"
) -> LegacySession:
    session = LegacySession(site.port, key or ALICE, version)
    await session.begin()
    return session


async def started(session: LegacySession, wish: Value = None) -> Json:
    params = {"name": "notes__add", "task": {} if wish is None else wish}
    handle: Json = (await session.ask("tools/call", params)).result["task"]
    return handle


async def test_a_wish_for_a_task_goes_on_with_its_time_and_nothing_else() -> None:
    server = Server()
    async with serving(now_of(server)) as site:
        session = await session_of(site)
        reply = await session.ask("tools/call", {"name": "notes__add", "task": {"ttl": 5, "other": 1}})
        assert server.calls[-1].params == {"name": "add", "task": {"ttl": 5}}
        token = reply.result["task"]["taskId"]
        assert "own" not in token
        assert reply.result["_meta"][RELATED] == {"taskId": token}
        for wrong in ({"ttl": "x"}, {"ttl": True}, {"ttl": -1}, [1]):
            assert (await session.ask("tools/call", {"name": "notes__add", "task": wrong})).code == -32602


@pytest.mark.parametrize(
    ("version", "era", "capabilities"),
    [("2025-06-18", "legacy", RUNS), ("2025-11-25", "modern", RUNS), ("2025-11-25", "legacy", OFFERED)],
)
async def test_a_wish_that_nobody_can_grant_is_ignored(version: str, era: str, capabilities: dict[str, Value]) -> None:
    """2025-11-25 basic/utilities/tasks §Task Support and Handling."""
    server = Server()
    async with serving(now_of(server, capabilities, era)) as site:
        session = await session_of(site, version=version)
        reply = await session.ask("tools/call", {"name": "notes__add", "task": {}})
        assert reply.result["content"] == []
        assert server.calls[-1].params == {"name": "add"}


async def test_tasks_are_offered_where_somebody_runs_them() -> None:
    for now, version, offered in (
        (now_of(Server()), "2025-11-25", True),
        (now_of(Server()), "2025-06-18", False),
        (now_of(Server(), OFFERED), "2025-11-25", False),
        (replace(now_of(Server()), hides=lambda principal, target: True), "2025-11-25", False),
    ):
        async with serving(now) as site:
            reply = await LegacySession(site.port, ALICE, version).begin()
            assert ("tasks" in reply.result["capabilities"]) is offered


async def test_states_and_results_name_the_task_as_its_client_knows_it() -> None:
    server = Server()
    async with serving(now_of(server)) as site:
        session = await session_of(site)
        token = (await started(session))["taskId"]
        for method in ("tasks/get", "tasks/cancel"):
            assert (await session.ask(method, {"taskId": token})).result["taskId"] == token
        result = (await session.ask("tasks/result", {"taskId": token})).result
        assert result["_meta"][RELATED] == {"taskId": token}
        assert server.calls[-1].task is not None
        assert server.calls[-1].task.instance == "pid:1#1"
        server.gone.add("own-1")
        told = (await session.ask("tasks/get", {"taskId": token})).message["error"]
        assert told == {"code": -32602, "message": f"Unknown task: {token[:127]}…"}
        told = (await session.ask("tasks/result", {"taskId": token})).message["error"]
        assert told == {"code": -32602, "message": f"no {token}"}
        assert (await session.ask("tasks/update", {"taskId": token})).code == -32601


async def test_a_list_has_the_principals_own_tasks_page_by_page() -> None:
    server = Server()
    async with serving(now_of(server)) as site:
        session, other = await session_of(site), await session_of(site, BOB)
        tokens = [(await started(session))["taskId"] for _ in range(PAGE + 2)]
        await started(other)
        first = (await session.ask("tasks/list")).result
        assert [each["taskId"] for each in first["tasks"]] == tokens[::-1][:PAGE]
        assert (await other.ask("tasks/list", {"cursor": first["nextCursor"]})).code == -32602
        assert (await session.ask("tasks/list", {"cursor": 7})).code == -32602
        rest = (await session.ask("tasks/list", {"cursor": first["nextCursor"]})).result
        assert [each["taskId"] for each in rest["tasks"]] == tokens[::-1][PAGE:]
        assert "nextCursor" not in rest
        server.gone.add("own-1")
        rest = (await session.ask("tasks/list", {"cursor": first["nextCursor"]})).result
        assert [each["taskId"] for each in rest["tasks"]] == [tokens[1]]


async def test_a_change_is_told_to_the_session_that_began_the_task() -> None:
    async with serving(now_of(Server())) as site:
        session, other = await session_of(site), await session_of(site)
        token = (await started(session))["taskId"]
        state = members(taskId="own-1", status="completed", _meta={RELATED: {"taskId": "own-1"}})
        async with connect(site.port) as mine, connect(site.port) as theirs:
            for each, connection in ((session, mine), (other, theirs)):
                await connection.send(each.get())
                await connection.head()
            site.services.pool.tell(TaskNews("notes", "pid:2#1", "own-1", state))
            site.services.pool.tell(TaskNews("notes", "pid:1#1", "own-1", state))
            message = await anext(mine.messages())
            assert message["method"] == "notifications/tasks/status"
            assert message["params"] == {"taskId": token, "status": "completed"}
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await anext(theirs.messages())
    assert site.services.pool.listeners == []


def book_of(heard: list[str]) -> Book:
    return Book(FakeServices(now_of(Server())), lambda session, message: heard.append(session))


def test_a_book_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    book = book_of([])
    monkeypatch.setattr(tasks, "MAX_OWN", 2)
    monkeypatch.setattr(tasks, "MAX_ALL", 3)
    task = Task("t", "working", 60.0, 1.0)
    alice = [book.add(made("add", "notes"), "i", replace(task, id=str(number))) for number in range(3)]
    assert book.own(made().principal, None) == alice[1:]
    bob = Principal("key:bob", "key", "bob")
    for number in range(2):
        book.add(made("add", "notes", principal=bob), "i", replace(task, id=f"b{number}"))
    assert len(book) == 3
    assert book.own(made().principal, None) == alice[2:]
    assert book.own(made().principal, "view") == []
    book.forget(alice[2])
    assert book.own(made().principal, None) == []
    book.close()
    book.close()


def test_a_task_that_is_not_kept_is_not_listed() -> None:
    heard: list[str] = []
    book = book_of(heard)
    book.add(made("add", "notes"), "i", Task("t", "working", 0.0, 1.0))
    assert book.own(made().principal, None) == []
    book.add(made("add", "notes"), "i", Task("u", "working", None, 1.0))
    assert len(book) == 1
    assert heard == []


@pytest.mark.parametrize(
    ("tool", "hides", "withheld"), [("add", True, False), ("gone", False, False), ("add", False, True)]
)
def test_nobody_hears_of_a_task_whose_tool_is_gone_or_hidden_or_of_what_may_not_be_read(
    tool: str, hides: bool, withheld: bool
) -> None:
    """S138, S148."""
    heard: list[str] = []
    services = FakeServices(now_of(Server()))
    book = Book(services, lambda session, message: heard.append(message.decode()))
    for name in ("add", tool):
        book.add(made(name, "notes"), name, Task("t", "working", 60.0, 1.0))
    services.pool.tell(TaskNews("notes", "add", "t", members(taskId="t", status="working")))
    assert len(heard) == 1
    services.now.hides = lambda principal, target: hides
    if withheld:
        services.now.sieve = lambda task: None
    services.pool.tell(TaskNews("notes", tool, "t", members(taskId="t", status="completed", statusMessage="s")))
    assert len(heard) == 1


async def test_an_answer_names_the_task_as_its_server_does() -> None:
    async def ask(questions: dict[str, rawjson.Raw]) -> rawjson.Object:
        return {"a": {"action": "accept", "_meta": {"own": 1}}, "b": None}

    plain = made("add", "notes")
    assert tasks.related_ask(ask, plain) is ask
    about = replace(plain, task=TaskRef("own", "sealed"))
    assert await tasks.related_ask(ask, about)({}) == {
        "a": {"action": "accept", "_meta": {"own": 1, RELATED: {"taskId": "own"}}},
        "b": None,
    }
