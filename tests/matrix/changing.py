"""Behaviours of the matrix: what clients hear outside of calls, and what they come back for."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeAlias

import aiohttp

from gateway.protocol import sse
from tests.kit.answering import AnsweringClient, hearing
from tests.matrix.cells import Behaviour, Bench, Instead

Json: TypeAlias = dict[str, Any]

UPDATED: Final = "notifications/resources/updated"


def changed(kind: str, key: str) -> Callable[[Bench], Coroutine[Any, Any, None]]:
    """Return the test of one kind of list: whoever listens hears of a change, and reads the changed list."""

    async def run(bench: Bench) -> None:
        wanted = bench.uri("later") if key == "uri" else bench.name("later")

        async def is_there(client: AnsweringClient) -> bool:
            return wanted in [item[key] for item in await client.every(f"{kind}/list", kind)]

        async with bench.client() as listener, bench.client() as other, hearing(listener) as news:
            before = await is_there(other)
            for expected in (not before, before):
                assert (await other.call(bench.name("change"), {"kind": kind})).result
                await news.of(f"notifications/{kind}/list_changed")
                assert await is_there(listener) is expected

    return run


async def updates(bench: Bench) -> None:
    """Whoever subscribed hears that a resource changed, and nobody else."""
    uri = bench.uri("note")
    async with (
        bench.client() as listener,
        bench.client() as deaf,
        bench.client() as other,
        hearing(listener, watch=(uri,)) as news,
        hearing(deaf) as nothing,
    ):
        await other.call(bench.name("touch"))
        assert (await news.of(UPDATED))["params"]["uri"] == uri
        # What comes to the one who did not subscribe is the change of a list, and nothing before it.
        for _ in range(2):
            await other.call(bench.name("change"), {"kind": "prompts"})
            await nothing.of("notifications/prompts/list_changed")
    assert UPDATED not in [message["method"] for message in nothing.all]


async def restarted(bench: Bench) -> None:
    """A server that was started anew is told again what somebody wants to hear of."""
    uri = bench.uri("note")
    async with bench.client() as listener, bench.client() as other, hearing(listener, watch=(uri,)) as news:
        await asyncio.to_thread(bench.matrix.restart, bench.cell)
        # The server cannot tell before it was told; when that is, only trying shows.
        for _ in range(50):
            await other.call(bench.name("touch"))
            with suppress(TimeoutError):
                assert (await news.of(UPDATED, 0.2))["params"]["uri"] == uri
                return
    raise AssertionError("nothing was heard after the restart")


async def reloaded(bench: Bench) -> None:
    """A config that hides a tool is told to whoever listens, and so is the one that shows it again."""
    matrix, name = bench.matrix, bench.name("spare")
    servers = matrix.config["servers"]
    hiding = {**servers[bench.cell.behind], "tools": {"exclude": ["spare"]}}
    without = {**matrix.config, "servers": {**servers, bench.cell.behind: hiding}}
    async with bench.client() as listener, hearing(listener) as news:
        try:
            await asyncio.to_thread(bench.gateway.reload, without)
            await news.of("notifications/tools/list_changed")
            assert name not in [tool["name"] for tool in await listener.every("tools/list", "tools")]
        finally:
            await asyncio.to_thread(bench.gateway.reload, matrix.config)
        await news.of("notifications/tools/list_changed")
        assert name in [tool["name"] for tool in await listener.every("tools/list", "tools")]


async def replayed(bench: Bench) -> None:
    """A client whose stream broke comes back with the last event's id and gets the answer."""
    key = f"replay-{uuid.uuid4()}"
    body = {"jsonrpc": "2.0", "id": "r1", "method": "tools/call"}
    params = {"name": bench.name("wait"), "arguments": {"key": key}}
    async with bench.client() as client, bench.client() as other, aiohttp.ClientSession() as http:
        url, head = bench.gateway.url, client.head()
        async with http.post(url, json={**body, "params": params}, headers=head) as reply:
            last = (await anext(_events(reply))).id
        assert last
        await other.call(bench.name("release"), {"key": key})
        async with http.get(url, headers={**head, "Last-Event-ID": last}) as reply:
            assert reply.status == 200
            answer = json.loads((await anext(_events(reply))).data)
    assert answer["id"] == "r1"
    assert answer["result"]["content"][0]["text"] == "waited"


async def _events(reply: aiohttp.ClientResponse) -> AsyncIterator[sse.Event]:
    parser = sse.Parser(2**20)
    async with asyncio.timeout(20):
        async for chunk in reply.content.iter_any():
            for event in parser.feed(chunk):
                yield event


async def away(bench: Bench) -> None:
    """A client that was away comes back to its stream and hears what changed meanwhile."""
    method, name, wanted = "notifications/prompts/list_changed", bench.name("change"), {"kind": "prompts"}
    async with bench.client() as client, bench.client() as other, aiohttp.ClientSession() as http:
        url, head = bench.gateway.url, client.head()
        async with http.get(url, headers=head) as reply:
            await other.call(name, wanted)
            heard = await _news(reply, method)
        await other.call(name, wanted)
        async with http.get(url, headers={**head, "Last-Event-ID": heard.id or ""}) as reply:
            again = await _news(reply, method)
    assert again.id != heard.id


async def not_away(bench: Bench) -> None:
    """A modern client that was away begins anew, and reads the lists as they are."""
    name = bench.name("change")
    async with bench.client() as client, bench.client() as other:
        before = len(await client.every("prompts/list", "prompts"))
        async with hearing(other) as witness:
            async with hearing(client):
                pass
            await other.call(name, {"kind": "prompts"})
            await witness.of("notifications/prompts/list_changed")
            async with hearing(client) as news:
                assert len(await client.every("prompts/list", "prompts")) != before
                await other.call(name, {"kind": "tools"})
                await news.of("notifications/tools/list_changed")
                assert [message["method"] for message in news.all] == ["notifications/tools/list_changed"]
            for kind in ("prompts", "tools"):
                await other.call(name, {"kind": kind})
                await witness.of(f"notifications/{kind}/list_changed")


async def _news(reply: aiohttp.ClientResponse, method: str) -> sse.Event:
    """Return the next notification of a method; a change that another test made may still be told between."""
    async for event in _events(reply):
        if event.data and json.loads(event.data)["method"] == method:
            return event
    raise AssertionError("the stream ended")


async def not_replayed(bench: Bench) -> None:
    """A modern client has no streams to come back to: there is nothing to GET, and no event has an id."""
    async with bench.client() as client, aiohttp.ClientSession() as http:
        url = bench.gateway.url
        async with http.get(url, headers={**client.head("tools/call", {"name": "x"}), "Last-Event-ID": "c1.1"}) as got:
            assert got.status == 405
        name = bench.name("progress")
        params = {"name": name, "_meta": {**client.meta(), "progressToken": 1}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with http.post(url, json=body, headers=client.head("tools/call", params)) as reply:
            assert reply.content_type == "text/event-stream"
            assert [event.id async for event in _events(reply) if event.id] == []


BEHAVIOURS: Final = (
    Behaviour(
        "changed tools", "Whoever listens hears of it, and lists them as they are now.", changed("tools", "name")
    ),
    Behaviour("changed prompts", "The same for prompts.", changed("prompts", "name")),
    Behaviour("changed resources", "The same for resources.", changed("resources", "uri")),
    Behaviour("updated resources", "Whoever subscribed to a resource hears of its change, nobody else.", updates),
    Behaviour("restarted servers", "Subscriptions go on when a server was started anew.", restarted),
    Behaviour("reloaded configs", "A config that shows other tools is told to whoever listens.", reloaded),
    Behaviour(
        "resumed streams",
        "GET with `Last-Event-ID` goes on with a call whose stream broke.",
        replayed,
        (Instead(lambda cell: cell.client == "modern", "streams of modern clients cannot be resumed", not_replayed),),
    ),
    Behaviour(
        "changes while away",
        "GET with `Last-Event-ID` tells what changed while the client had no stream.",
        away,
        (Instead(lambda cell: cell.client == "modern", "streams of modern clients cannot be resumed", not_away),),
    ),
)
