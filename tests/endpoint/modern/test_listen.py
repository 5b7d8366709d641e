"""Subscriptions: acknowledged first, filtered, every message with the subscription's id, ended gracefully."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from gateway.config.access import Limits
from gateway.endpoint import stream as streams
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome
from tests.kit.clients import Connection, Json, ask, connect, modern
from tests.kit.endpoint import ALICE, Gate, Site, config, keyed, moment, serving, soon

ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
ID_KEY = "io.modelcontextprotocol/subscriptionId"


def listen(wanted: object, identifier: object = 1, **change: str) -> bytes:
    return modern("subscriptions/listen", {"notifications": wanted}, identifier, **change)


async def opened(connection: Connection, data: bytes) -> Any:
    await connection.send(data)
    status, headers = await connection.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    return connection.messages()


async def test_a_subscription_is_acknowledged_and_then_told_what_it_asked_for() -> None:
    async with serving() as site, connect(site.port) as connection:
        messages = await opened(connection, listen({"toolsListChanged": True, "promptsListChanged": False}, "s-1"))
        assert await anext(messages) == {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": {"toolsListChanged": True}, "_meta": {ID_KEY: "s-1"}},
        }
        site.services.changed("notes", Kind.PROMPT)
        site.services.changed("notes", Kind.TOOL)
        assert await anext(messages) == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {ID_KEY: "s-1"}},
        }


@pytest.mark.parametrize("identifier", [1, "1", 0, ""])
async def test_a_subscription_ends_with_its_result_and_the_id_keeps_its_type(identifier: object) -> None:
    async with serving() as site, connect(site.port) as connection:
        messages = await opened(connection, listen(ALL, identifier))
        await anext(messages)
        site.endpoint.close_streams()
        rest: list[Json] = [message async for message in messages]
    cancelled, result = rest
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"] == {"requestId": identifier, "_meta": {ID_KEY: identifier}}
    assert result["id"] == identifier
    assert type(result["id"]) is type(identifier)
    assert result["result"]["resultType"] == "complete"
    assert result["result"]["_meta"][ID_KEY] == identifier


async def told_slowly(site: Site, wait_for: Awaitable[None]) -> asyncio.Event:
    """Have a server take a wish no sooner than the returned event; waits until there is a wish."""
    site.services.slow = asyncio.Event()
    await wait_for
    async with asyncio.timeout(5):
        while not site.services.told:
            await asyncio.sleep(0)
    return site.services.slow


async def test_nothing_comes_before_the_acknowledgment_however_long_a_server_takes_to_be_told() -> None:
    """Subscriptions §Acknowledgment."""
    async with serving() as site, connect(site.port) as connection, connect(site.port) as other:
        wanted = listen({"toolsListChanged": True, "resourceSubscriptions": ["note://one"]})
        taken = await told_slowly(site, connection.send(wanted))
        ready = await opened(other, listen({"toolsListChanged": True}, 2))
        await anext(ready)
        site.services.resource_changed("notes", "note://one")
        site.services.changed("notes", Kind.TOOL)
        assert (await anext(ready))["method"] == "notifications/tools/list_changed"
        taken.set()
        assert (await connection.head())[0] == 200
        messages = connection.messages()
        assert (await anext(messages))["method"] == "notifications/subscriptions/acknowledged"
        site.services.resource_changed("notes", "note://one")
        assert (await anext(messages))["method"] == "notifications/resources/updated"


async def test_a_subscription_that_meets_a_drain_is_acknowledged_and_ended() -> None:
    async with serving() as site, connect(site.port) as connection:
        taken = await told_slowly(site, connection.send(listen({"resourceSubscriptions": ["note://one"]})))
        site.services.is_draining = True
        site.endpoint.close_streams()
        taken.set()
        assert (await connection.head())[0] == 200
        first, cancelled, result = [message async for message in connection.messages()]
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert cancelled["method"] == "notifications/cancelled"
    assert result["result"]["resultType"] == "complete"


async def test_several_subscriptions_hear_the_same_change() -> None:
    async with serving() as site, connect(site.port) as one, connect(site.port) as two:
        first = await opened(one, listen(ALL, 1))
        second = await opened(two, listen(ALL, 2))
        for messages in (first, second):
            await anext(messages)
        site.services.changed("notes", Kind.TEMPLATE)
        for messages in (first, second):
            assert (await anext(messages))["method"] == "notifications/resources/list_changed"


async def test_only_visible_resources_are_promised_and_told_of() -> None:
    now = moment()
    now.hides = lambda principal, target: target.name == "note://secret"
    async with serving(now) as site, connect(site.port) as connection:
        wanted = ["note://one", "notes+note://2", "note://secret", "x://y"]
        messages = await opened(connection, listen({"resourceSubscriptions": wanted}, 4))
        promised = (await anext(messages))["params"]["notifications"]
        assert promised == {"resourceSubscriptions": ["note://one", "notes+note://2"]}
        for uri in ("note://secret", "note://3", "note://2"):
            site.services.resource_changed("notes", uri)
        assert await anext(messages) == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "notes+note://2", "_meta": {ID_KEY: 4}},
        }


async def test_nothing_visible_promises_nothing() -> None:
    async with serving() as site, connect(site.port) as connection:
        messages = await opened(connection, listen({"resourceSubscriptions": ["x://y"]}))
        assert (await anext(messages))["params"]["notifications"] == {}


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        [],
        "x",
        {"toolsListChanged": 1},
        {"ToolsListChanged": True},
        {"resourceSubscriptions": [7]},
        {"resourceSubscriptions": ["x"] * 1001},
    ],
)
async def test_a_filter_of_the_wrong_shape_is_invalid(wanted: object) -> None:
    async with serving() as site:
        reply = await ask(site.port, listen(wanted))
        assert (reply.status, reply.code) == (400, -32602)


async def test_a_principal_has_only_so_many_streams() -> None:
    async with serving(moment(config(limits=Limits(sessions=1)))) as site:
        connections = []
        for number in range(17):
            connection = connect(site.port)
            entered = await connection.__aenter__()
            connections.append(connection)
            await anext(await opened(entered, listen(ALL, number)))
        refused = await ask(site.port, listen(ALL, 99))
        assert (refused.status, refused.code, refused.message["id"]) == (429, -31007, 99)
        await connections.pop().__aexit__(None, None, None)
        reply = await until_admitted(site)
        assert reply == "text/event-stream"
        for connection in connections:
            await connection.__aexit__(None, None, None)


async def until_admitted(site: Site) -> str:
    """Ask until the place of a client that hung up is free again."""
    for _ in range(100):
        async with connect(site.port) as connection:
            await connection.send(listen(ALL))
            status, headers = await connection.head()
            if status == 200:
                return headers["content-type"]
    raise AssertionError("the place was never given back")


async def test_a_subscription_ends_when_its_credential_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.02)
    async with serving(moment(keyed())) as site, connect(site.port) as connection:
        messages = await opened(connection, listen(ALL, authorization=ALICE[0][1]))
        await anext(messages)
        site.services.now = moment()
        cancelled, result = [message async for message in messages]
    # As gracefully as any other end from our side (§Graceful Closure).
    assert (cancelled["method"], result["result"]["resultType"]) == ("notifications/cancelled", "complete")


async def test_a_reload_ends_subscriptions_of_a_removed_key_gracefully_and_calls_of_a_removed_client() -> None:
    """S34, S183."""
    async with serving(moment(keyed())) as site, connect(site.port) as one, connect(site.port) as two:
        gate = site.moment.chain = Gate()
        gate.opened.set()
        messages = await opened(one, listen(ALL, 7, authorization=ALICE[0][1]))
        await anext(messages)
        await soon(gate.began)
        gate.opened.clear()
        await two.send(modern("tools/call", {"name": "notes__add"}, 8, authorization=ALICE[0][1]))
        await soon(gate.began)
        clients = {"bob": keyed().clients["bob"]}
        site.services.reload(moment(config(clients=clients)))
        ending = [message async for message in messages]
        assert [message.get("method", "result") for message in ending] == ["notifications/cancelled", "result"]
        reply = await two.reply()
        assert reply.result["_meta"]["dev.mcp-gateway/refusal"] == {"reason": "denied", "mayHaveRun": True}


async def test_resource_subscriptions_reach_the_owning_server_until_the_stream_ends() -> None:
    async with serving() as site:
        async with connect(site.port) as connection:
            wanted = {"resourceSubscriptions": ["note://one", "notes+note://one", "x://y", "note://2"]}
            site.services.refuses.add("note://2")
            messages = await opened(connection, listen(wanted))
            promised = (await anext(messages))["params"]["notifications"]
            assert promised == {"resourceSubscriptions": ["note://one", "notes+note://one"]}
            assert site.services.wished == {("notes", "note://one"): 2}
            assert site.services.told == ["notes"]
        async with asyncio.timeout(5):
            while site.services.wished:
                site.services.unwished.clear()
                await site.services.unwished.wait()


async def test_a_subscription_that_is_refused_is_an_answer_and_no_stream() -> None:
    async with serving() as site:

        async def slow_down(call: Call, exchange: Exchange) -> Outcome:
            assert (call.method, call.target.server) == ("subscriptions/listen", "")
            return Failure(Reason.RATE_LIMITED, "later", retry_after_ms=5)

        site.moment.chain = slow_down
        reply = await ask(site.port, listen({"resourceSubscriptions": ["note://one"]}))
        assert (reply.status, reply.code) == (200, -31001)
        assert reply.message["error"]["data"] == {
            "source": "gateway",
            "reason": "rate_limited",
            "mayHaveRun": False,
            "retryAfterMs": 5,
        }
        assert site.services.wished == {}


async def test_hanging_up_ends_a_subscription() -> None:
    async with serving() as site:
        async with connect(site.port) as connection:
            await anext(await opened(connection, listen(ALL)))
        assert await until_admitted(site)
