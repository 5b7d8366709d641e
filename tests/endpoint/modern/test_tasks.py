"""Tasks of modern clients over real HTTP, with a server that the test writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.endpoint.modern.tasks import TaskWatch
from gateway.endpoint.tasks import Handle
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import codes, rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Value
from tests.kit.calls import call as made
from tests.kit.clients import Json, Reply, ask, connect, modern
from tests.kit.endpoint import ALICE, BOB, FakeMoment, FakeServices, Site, keyed, moment, serving
from tests.kit.wire import modern_meta

TASKS = "io.modelcontextprotocol/tasks"
CAPABLE: Json = {"elicitation": {}, "extensions": {TASKS: {}}}
FORM: Value = {"method": "elicitation/create", "params": {"mode": "form", "message": "m"}}


def members(**values: Value) -> Members:
    return {key: rawjson.raw(value) for key, value in values.items()}


class Server:
    """A chain that runs every call as a task; ``state`` is what a look is answered with."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.state: Outcome = Complete(members(taskId="own", status="working", requestState="s"))

    async def __call__(self, call: Call, exchange: Exchange) -> Outcome:
        self.calls.append(call)
        if call.method == "tools/call":
            return Started(members(resultType="task", taskId="own", status="working", ttlMs=1000, result={"a": 1}))
        return self.state if call.method == "tasks/get" else Complete(members(resultType="complete"))


def written(method: str, params: Json, key: list[tuple[str, str]] | None = None, **capabilities: Json) -> bytes:
    own = {**params, "_meta": modern_meta(capabilities or CAPABLE)}
    change = {"mcp_name": params["taskId"]} if isinstance(params.get("taskId"), str) else {}
    data = modern(method, own, **change)
    head, _, body = data.partition(b"\r\n\r\n")
    name, value = (key or ALICE)[0]
    return head + f"\r\n{name}: {value}".encode() + b"\r\n\r\n" + body


async def told(site: Site, method: str, params: Json) -> Reply:
    return await ask(site.port, written(method, params))


async def started(site: Site) -> Json:
    return (await told(site, "tools/call", {"name": "notes__add", "arguments": {}})).result


async def test_a_handle_carries_our_id_and_nothing_that_only_a_task_may() -> None:
    now = moment(keyed())
    now.chain = Server()
    async with serving(now) as site:
        handle = await started(site)
        assert handle["resultType"] == "task"
        assert handle["taskId"] != "own"
        assert set(handle) == {"resultType", "taskId", "status", "ttlMs", "_meta"}
        assert (await started(site))["taskId"] != handle["taskId"]


async def test_a_state_has_our_id_and_no_state_of_rounds() -> None:
    server, now = Server(), moment(keyed())
    now.chain = server
    async with serving(now) as site:
        token = (await started(site))["taskId"]
        state = (await told(site, "tasks/get", {"taskId": token})).result
        assert (state["taskId"], state["resultType"], state["status"]) == (token, "complete", "working")
        assert "requestState" not in state
        server.state = Complete(members(taskId="own", status="input_required", inputRequests={"k": FORM}))
        assert (await told(site, "tasks/get", {"taskId": token})).result["inputRequests"] == {"k": FORM}
        server.state = Complete(members(taskId="own", status="input_required", inputRequests=[1]))
        assert "inputRequests" not in (await told(site, "tasks/get", {"taskId": token})).result
        server.state = Complete(members(taskId="own", status="failed", error={"code": -1, "message": "m"}))
        assert (await told(site, "tasks/get", {"taskId": token})).result["error"] == {"code": -1, "message": "m"}


async def test_answers_of_an_update_are_objects() -> None:
    server, now = Server(), moment(keyed())
    now.chain = server
    async with serving(now) as site:
        token = (await started(site))["taskId"]
        answers = {"k": {"action": "accept"}, "n": None, "t": "text"}
        reply = await told(site, "tasks/update", {"taskId": token, "inputResponses": answers})
        assert set(reply.result) == {"resultType", "_meta"}
        assert server.calls[-1].params == {"taskId": "own", "inputResponses": {"k": {"action": "accept"}}}
        assert (await told(site, "tasks/update", {"taskId": token, "inputResponses": []})).code == -32602
        assert (await told(site, "tasks/update", {"taskId": token})).code == -32602


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_only_a_client_that_declares_the_extension_may_ask(method: str) -> None:
    now = moment(keyed())
    now.chain = Server()
    async with serving(now) as site:
        token = (await started(site))["taskId"]
        reply = await ask(site.port, written(method, {"taskId": token, "inputResponses": {}}, elicitation={}))
        assert (reply.status, reply.code) == (400, -32021)
        assert reply.message["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_methods_of_the_older_era_are_not_there(method: str) -> None:
    async with serving(moment(keyed())) as site:
        reply = await told(site, method, {"taskId": "x"})
        assert (reply.status, reply.code) == (404, -32601)


async def test_the_name_header_is_the_task() -> None:
    """Tasks extension §Streamable HTTP: Routing Headers."""
    async with serving(moment(keyed())) as site:
        data = written("tasks/get", {"taskId": "x"}).replace(b"mcp-name: x", b"mcp-name: y")
        reply = await ask(site.port, data)
        assert (reply.status, reply.code) == (400, -32020)


async def test_errors_of_a_server_are_told_under_our_id() -> None:
    server, now = Server(), moment(keyed())
    now.chain = server
    async with serving(now) as site:
        token = (await started(site))["taskId"]
        server.state = Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(-32602, "no own"))
        unknown = await told(site, "tasks/get", {"taskId": token})
        other = await ask(site.port, written("tasks/get", {"taskId": token}, BOB))
        assert (unknown.status, unknown.body) == (other.status, other.body)
        assert [call.exposed for call in site.services.refused] == [f"{token[:127]}…"]


async def heard(
    wanted: Callable[[str], list[str]],
    news: Callable[[], TaskNews],
    key: list[tuple[str, str]] | None = None,
    sieve: Callable[[Members], Members | None] = dict,
) -> tuple[Json, Json | None]:
    """Subscribe to tasks, publish news, and return the acknowledged filter and what came."""
    now = moment(keyed())
    now.chain, now.sieve = Server(), sieve
    async with serving(now) as site, connect(site.port) as connection:
        token = (await started(site))["taskId"]
        await connection.send(written("subscriptions/listen", {"notifications": {"taskIds": wanted(token)}}, key))
        await connection.head()
        messages = connection.messages()
        honoured = (await anext(messages))["params"]["notifications"]
        site.services.pool.tell(news())
        try:
            async with asyncio.timeout(0.3):
                message: Json | None = await anext(messages)
        except TimeoutError:
            return honoured, None
        assert message is not None
        assert message["method"] == "notifications/tasks"
        assert message["params"].pop("taskId") == token
        return honoured, message["params"]


def news(task: str = "own", server: str = "notes", **state: Value) -> Callable[[], TaskNews]:
    return lambda: TaskNews(server, "http#1", task, members(taskId=task, **{"status": "working", **state}))


async def test_a_subscription_hears_of_its_own_tasks() -> None:
    honoured, state = await heard(lambda token: [token, "nonsense"], news(requestState="s"))
    assert len(honoured["taskIds"]) == 1
    assert state is not None
    assert state.pop("_meta") == {"io.modelcontextprotocol/subscriptionId": 1}
    assert state == {"status": "working"}


async def test_it_is_told_what_may_be_read() -> None:
    """S148, S149."""
    about = news(status="completed", result={"text": "secret"})
    _, state = await heard(lambda token: [token], about, sieve=lambda task: {**task, "result": rawjson.raw({})})
    assert state is not None
    assert state["status"] == "completed"
    assert "secret" not in str(state)


async def test_of_an_end_that_is_withheld_it_hears_that_it_is_one_and_of_other_changes_nothing() -> None:
    """S148: a client may count on being told, and would wait for ever (Tasks extension §Notifications)."""
    about = news(status="completed", ttlMs=60000, statusMessage="secret", result={"text": "secret"})
    _, state = await heard(lambda token: [token], about, sieve=lambda task: None)
    assert state is not None
    assert (state["status"], state["ttlMs"]) == ("failed", 60000)
    assert state["error"]["code"] == codes.reason_code(Reason.BLOCKED_CONTENT)
    assert "secret" not in str(state)
    assert (await heard(lambda token: [token], news(statusMessage="secret"), sieve=lambda task: None))[1] is None


async def test_a_state_that_took_long_to_look_at_is_not_told_after_a_newer_one() -> None:
    now = moment(keyed())
    sent: list[Members] = []
    held: list[Callable[[], None]] = []

    def look(server: str, task: Members, done: Callable[[Members | None], None], /) -> None:
        held.append(lambda: done(task))

    now.chain = Server()
    watch = TaskWatch(
        FakeServices(now), made("add", "notes"), {"token": Handle("notes", "add", "own", "c")}, sent.append
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeMoment, "sift", lambda self, *given: look(*given))
        for status in ("working", "completed"):
            watch.heard(news(status=status)())
    for done in reversed(held):
        done()
    assert [rawjson.peek(state["status"]) for state in sent] == ["completed"]


async def test_of_a_tool_that_is_not_there_any_more_it_hears_nothing() -> None:
    """S138: nor of one that this client may not call any more."""
    sent: list[Members] = []
    for tool, hides, count in (("add", False, 1), ("add", True, 0), ("gone", False, 0)):
        now = moment(keyed())
        now.hides = lambda principal, target, hides=hides: hides  # type: ignore[misc]  # reason: bound in a loop.
        handle = Handle("notes", tool, "own", "c")
        TaskWatch(FakeServices(now), made("add", "notes"), {"token": handle}, sent.append).heard(news()())
        assert len(sent) == count
        sent.clear()


@pytest.mark.parametrize("about", [news("other"), news(server="else")])
async def test_it_hears_of_no_others(about: Callable[[], TaskNews]) -> None:
    assert (await heard(lambda token: [token], about))[1] is None


async def test_another_principal_hears_of_nothing() -> None:
    assert await heard(lambda token: [token], news(), BOB) == ({}, None)


async def test_questions_that_a_client_cannot_be_asked_are_not_told() -> None:
    """S97: the server's config permits none here."""
    _, state = await heard(lambda token: [token], news(status="input_required", inputRequests={"k": FORM}))
    assert state is not None
    assert state["inputRequests"] == {}
    _, state = await heard(lambda token: [token], news(status="working", inputRequests={"k": FORM}))
    assert state is not None
    assert "inputRequests" not in state


async def test_what_is_watched_is_taken_back_with_the_subscription() -> None:
    now = moment(keyed())
    now.chain = Server()
    async with serving(now) as site:
        token = (await started(site))["taskId"]
        async with connect(site.port) as connection:
            await connection.send(written("subscriptions/listen", {"notifications": {"taskIds": [token]}}))
            await connection.head()
            await anext(connection.messages())
            assert site.services.pool.watched["notes", "own"] == 1
            site.endpoint.close_streams()
            async for _ in connection.messages():
                pass
        assert site.services.pool.watched["notes", "own"] == 0
        assert site.services.pool.listeners == []
        site.services.pool.refuses.add("notes")
        async with connect(site.port) as connection:
            await connection.send(written("subscriptions/listen", {"notifications": {"taskIds": [token]}}))
            assert (await connection.head())[0] == 200


async def test_a_filter_of_tasks_has_a_shape_and_needs_the_extension() -> None:
    async with serving(moment(keyed())) as site:
        wrong = await told(site, "subscriptions/listen", {"notifications": {"taskIds": "x"}})
        assert wrong.code == -32602
        plain = written("subscriptions/listen", {"notifications": {"taskIds": []}}, elicitation={})
        assert (await ask(site.port, plain)).code == -32021


async def test_a_handle_that_is_none_is_the_servers_fault() -> None:
    async def broken(call: Call, exchange: Exchange) -> Outcome:
        return Started(members(resultType="task"))

    now = moment(keyed())
    now.chain = broken
    async with serving(now) as site:
        assert (await told(site, "tools/call", {"name": "notes__add"})).refusal["reason"] == "protocol_error"
