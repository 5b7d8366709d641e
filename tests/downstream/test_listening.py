"""Hearing of changes from modern servers (2026-07-28 basic/patterns/subscriptions; G024)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from gateway.downstream import listening
from gateway.downstream.dialect import Hello
from gateway.downstream.listening import Listening
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import Era
from tests.kit.transport import (
    CAPABILITIES,
    WAIT,
    FakeHttp,
    FakeTransport,
    Handler,
    Heard,
    Sent,
    bare,
    failure,
    listen,
    members,
    never,
    peer,
    reply,
)

LISTEN = "subscriptions/listen"
ACK = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TOOLS_CHANGED = "notifications/tools/list_changed"
HELLO = Hello(Era.MODERN, "2026-07-28", {}, CAPABILITIES)


class Inbox:
    """Hands notifications of a shared channel to the listener."""

    def __init__(self, board: Listening) -> None:
        self.notification = board.heard

    def ask(self, method: str, params: object) -> dict[str, object]:
        raise AssertionError

    def violation(self, kind: str, detail: str) -> None:
        raise AssertionError(kind)

    def closed(self, reason: str) -> None:
        raise AssertionError(reason)


@asynccontextmanager
async def running(
    handler: Handler, hello: Hello = HELLO, *, http: bool = False, heard: Heard | None = None
) -> AsyncIterator[tuple[Listening, FakeTransport, asyncio.Task[None]]]:
    transport = FakeHttp({LISTEN: handler}) if http else FakeTransport({LISTEN: handler})
    board = Listening(peer(transport, heard), hello)
    transport.inbox = Inbox(board)  # type: ignore[assignment]  # reason: only the notification side is used.
    task = asyncio.get_running_loop().create_task(board.run())
    try:
        yield board, transport, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the failures that back-off is asked about, and wait for none of them."""
    asked: list[int] = []

    def delay(failures: int, first: float = 1.0) -> float:
        asked.append(failures)
        return 0.0

    monkeypatch.setattr("gateway.downstream.listening.backoff.delay", delay)
    return asked


def subscription(sent: Sent) -> Object:
    return {SUBSCRIPTION: sent.id}


async def test_the_filter_asks_for_what_the_server_declares() -> None:
    async with running(listen) as (_, transport, _task):
        sent = await transport.reached(LISTEN)
        assert sent.params["notifications"] == {"toolsListChanged": True, "resourcesListChanged": True}
        assert sent.meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert sent.request.timeout is None


async def test_a_change_on_the_acknowledged_stream_is_handed_up() -> None:
    heard = Heard()
    async with running(listen, heard=heard) as (_, transport, _task):
        sent = await transport.reached(LISTEN)
        transport.say(TOOLS_CHANGED, _meta=subscription(sent))
        transport.say("notifications/resources/list_changed", _meta=subscription(sent))
    assert heard.changed == [frozenset({Kind.TOOL}), frozenset({Kind.RESOURCE, Kind.TEMPLATE})]
    assert heard.violations == []


async def test_notifications_of_an_unknown_subscription_are_dropped_and_counted() -> None:
    heard = Heard()
    async with running(listen, heard=heard) as (_, transport, _task):
        sent = await transport.reached(LISTEN)
        wrong: list[Value] = [sent.id + 1, str(sent.id), None]
        for identifier in wrong:
            transport.say(TOOLS_CHANGED, _meta={SUBSCRIPTION: identifier})
        transport.say("notifications/strange")
    assert heard.changed == []
    assert heard.violations == ["unexpected_notification"] * 3 + ["unexpected_notification"]


async def test_while_a_new_stream_is_not_acknowledged_the_old_one_is_still_known_by_its_id() -> None:
    heard, asked = Heard(), asyncio.Event()

    async def answer(sent: Sent) -> Reply:
        if "resourceSubscriptions" in str(sent.params["notifications"]):
            asked.set()
            return await never(sent)
        return await listen(sent)

    async with running(answer, heard=heard) as (board, transport, _), asyncio.timeout(WAIT):
        first = await transport.reached(LISTEN)
        board.want(frozenset({"file:///a"}))
        await asked.wait()
        transport.say(TOOLS_CHANGED, _meta=subscription(first))
    assert heard.changed == [frozenset({Kind.TOOL})]
    assert heard.violations == []


async def test_a_change_before_the_acknowledgment_is_believed_but_counted() -> None:
    heard = Heard()

    async def early(sent: Sent) -> Reply:
        sent.transport.say(TOOLS_CHANGED, _meta=subscription(sent))
        return await listen(sent)

    async with running(early, heard=heard) as (_, transport, _task):
        await transport.reached(LISTEN)
    assert heard.changed == [frozenset({Kind.TOOL})]
    assert heard.violations == ["unexpected_notification"]


async def test_over_http_the_stream_itself_tells_whose_a_notification_is() -> None:
    heard, acknowledged = Heard(), asyncio.Event()

    async def on_stream(sent: Sent) -> Reply:
        sent.notify(ACK, notifications={"toolsListChanged": True})
        sent.notify(TOOLS_CHANGED)
        sent.notify(ACK, notifications={})
        acknowledged.set()
        return await never(sent)

    async with running(on_stream, http=True, heard=heard) as (_, transport, _task):
        sent = await transport.reached(LISTEN)
        await asyncio.wait_for(acknowledged.wait(), WAIT)
        assert sent.request.headers == {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": LISTEN}
        assert sent.request.cancel is None
    assert heard.changed == [frozenset({Kind.TOOL})]
    assert heard.violations == ["unexpected_notification"]


async def test_a_stream_that_ends_is_opened_again_and_the_gap_counts_as_a_change(quick: list[int]) -> None:
    heard = Heard()
    ends = iter([True, True, False])

    async def twice(sent: Sent) -> Reply:
        sent.transport.say(ACK, _meta=subscription(sent), notifications=sent.params["notifications"])
        return reply(resultType="complete", _meta=subscription(sent)) if next(ends) else await never(sent)

    async with running(twice, heard=heard) as (board, transport, _task):
        board.want(frozenset({"file:///a"}))
        await transport.reached(LISTEN, 3)
        async with asyncio.timeout(WAIT):
            while len(heard.changed) < 2:
                await asyncio.sleep(0)
    assert heard.changed == [frozenset({Kind.TOOL, Kind.RESOURCE, Kind.TEMPLATE})] * 2
    assert heard.updated == ["file:///a"] * 2
    assert quick == [1, 2]


async def test_a_stream_that_broke_is_opened_again(quick: list[int]) -> None:
    broken = iter([True, True, True, False])

    async def flaky(sent: Sent) -> Reply:
        if next(broken):
            raise DownstreamError(Reason.UNAVAILABLE, "connection lost")
        return await listen(sent)

    async with running(flaky) as (_, transport, _task):
        await transport.reached(LISTEN, 4)
    assert quick == [1, 2, 3]


async def test_a_long_life_forgives_earlier_failures(quick: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "SETTLED", 0.0)
    ends = iter([True, True, False])

    async def ended(sent: Sent) -> Reply:
        sent.transport.say(ACK, _meta=subscription(sent), notifications={})
        return reply() if next(ends) else await never(sent)

    async with running(ended) as (_, transport, _task):
        await transport.reached(LISTEN, 3)
    assert quick == [1, 1]


@pytest.mark.parametrize("answer", [failure(-32601), failure(-32602), bare(404), bare(405)])
async def test_a_server_without_such_streams_is_not_asked_again(answer: Reply) -> None:
    """G024: no storm."""
    async with running(lambda sent: answer) as (_, transport, task):
        await asyncio.wait_for(task, WAIT)
        assert transport.methods() == [LISTEN]


async def test_a_server_without_changes_is_not_asked_until_a_resource_is_wanted() -> None:
    async with running(listen, Hello(Era.MODERN, "2026-07-28")) as (board, transport, _task):
        await asyncio.sleep(0)
        assert transport.sent == []
        board.want(frozenset({"file:///b", "file:///a"}))
        sent = await transport.reached(LISTEN)
        assert sent.params["notifications"] == {"resourceSubscriptions": ["file:///a", "file:///b"]}


async def test_a_changed_wish_opens_the_new_stream_before_the_old_one_is_closed() -> None:
    heard = Heard()
    async with running(listen, heard=heard) as (board, transport, _task):
        first = await transport.reached(LISTEN)
        board.want(frozenset({"file:///a"}))
        second = await transport.reached(LISTEN, 2)
        async with asyncio.timeout(WAIT):
            while not transport.cancelled:
                await asyncio.sleep(0)
        assert transport.cancelled == [("notifications/cancelled", {"requestId": first.id})]
        transport.say("notifications/resources/updated", _meta=subscription(second), uri="file:///a")
        board.want(frozenset())
        await transport.reached(LISTEN, 3)
    assert heard.updated == ["file:///a"]
    # No list can have changed unheard, so none is said to have.
    assert heard.changed == []


async def test_the_servers_cancellation_of_a_stream_is_its_end(quick: list[int]) -> None:
    async with running(listen) as (_, transport, _task):
        sent = await transport.reached(LISTEN)
        transport.say("notifications/cancelled", requestId=str(sent.id))
        transport.say("notifications/cancelled", requestId=sent.id)
        await transport.reached(LISTEN, 2)
    assert quick == [1]


async def test_a_stream_that_is_never_acknowledged_is_given_up(quick: list[int]) -> None:
    heard = Heard()
    transport = FakeTransport({LISTEN: never})
    board = Listening(peer(transport, heard, timeouts={"start": "30ms"}), HELLO)
    task = asyncio.get_running_loop().create_task(board.run())
    await transport.reached(LISTEN, 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard.violations == []
    assert len(transport.cancelled) >= 1


def test_a_notification_without_any_stream_is_counted() -> None:
    heard = Heard()
    board = Listening(peer(FakeTransport({}), heard), HELLO)
    board.heard(ACK, members())
    board.heard(TOOLS_CHANGED, members())
    assert heard.violations == ["unexpected_notification", "unexpected_notification"]


TASKS: Object = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


async def test_tasks_are_asked_for_by_name_and_with_the_extension_declared() -> None:
    """Tasks extension §Task Status Notifications."""
    told: list[str] = []
    heard = Heard()
    transport = FakeTransport({LISTEN: listen})
    told_by = replace(peer(transport, heard).events, tasked=lambda task, state: told.append(task))
    board = Listening(replace(peer(transport, heard), events=told_by), replace(HELLO, capabilities=TASKS))
    transport.inbox = Inbox(board)  # type: ignore[assignment]  # reason: only the notification side is used.
    board.want(frozenset(), frozenset({"t-1"}))
    task = asyncio.get_running_loop().create_task(board.run())
    sent = await transport.reached(LISTEN)
    assert sent.params["notifications"] == {"taskIds": ["t-1"]}
    assert sent.meta["io.modelcontextprotocol/clientCapabilities"] == TASKS
    for name in ("t-1", "t-2"):
        state = members(taskId=name, status="working", _meta=subscription(sent))
        board.heard("notifications/tasks", state)
    board.heard("notifications/tasks", members(taskId="t-1", _meta=subscription(sent)))
    assert told == ["t-1"]
    assert heard.violations == ["unexpected_notification"] * 2
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_server_that_runs_no_tasks_is_not_asked_for_them() -> None:
    async with running(listen) as (board, transport, _task):
        board.want(frozenset({"file:///a"}), frozenset({"t-1"}))
        sent = await transport.reached(LISTEN)
        assert "taskIds" not in str(sent.params["notifications"])
        assert sent.meta["io.modelcontextprotocol/clientCapabilities"] == {}
