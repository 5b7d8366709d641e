"""The relay between a client on a pipe and a scripted endpoint: what is sent, and what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import aiohttp
import pytest

from gateway.cli import relay as relaying
from gateway.cli.hop import Credential, NoCredential
from gateway.cli.relay import Relay
from gateway.tasks import TaskSet
from tests.kit.http_server import Exchange, HttpServer, Script, serving

Json: TypeAlias = dict[str, Any]

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
WELCOME = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


class Client:
    """What a client on the pipe writes and reads."""

    def __init__(self, relay: Relay, printed: asyncio.Queue[bytes]) -> None:
        self.relay, self._printed = relay, printed

    async def say(self, **message: Any) -> None:
        await self.relay.take(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def hear(self) -> Any:
        async with asyncio.timeout(5):
            line = await self._printed.get()
        return json.loads(line)

    async def begin(self) -> None:
        await self.say(id=0, method="initialize", params=HELLO)
        assert (await self.hear())["result"] == WELCOME
        await self.say(method="notifications/initialized")

    @property
    def silent(self) -> bool:
        return self._printed.empty()


@asynccontextmanager
async def bridged(script: Script, credential: Credential | None = None) -> AsyncIterator[tuple[Client, HttpServer]]:
    """Connect a relay to an endpoint that follows a script."""
    printed: asyncio.Queue[bytes] = asyncio.Queue()
    async with serving(script) as server, aiohttp.ClientSession() as http:
        relay = Relay(http, server.url, credential or NoCredential(), printed.put)
        try:
            yield Client(relay, printed), server
        finally:
            await relay.aclose()


class Endpoint:
    """A legacy endpoint: sessions s1, s2, …; calls are answered by ``answer``; GET streams wait in ``streams``."""

    def __init__(self) -> None:
        self.sessions = 0
        self.gone: set[str] = set()
        self.streams: asyncio.Queue[Exchange] = asyncio.Queue()
        self.posted: asyncio.Queue[Exchange] = asyncio.Queue()

    async def script(self, exchange: Exchange) -> None:
        named = exchange.headers.get("mcp-session-id", "")
        if named in self.gone:
            await exchange.answer(404)
        elif exchange.method == "GET":
            await self.get(exchange)
        elif exchange.method == "DELETE":
            self.gone.add(named)
            await exchange.answer(204)
        elif exchange.message.get("method") == "initialize":
            self.sessions += 1
            await exchange.result(WELCOME, {"Mcp-Session-Id": f"s{self.sessions}"})
        elif "id" not in exchange.message or "method" not in exchange.message:
            await self.posted.put(exchange)
            await exchange.answer(202)
        else:
            await self.answer(exchange)

    async def get(self, exchange: Exchange) -> None:
        await exchange.start_stream()
        await self.streams.put(exchange)
        await exchange.until_gone()

    async def answer(self, exchange: Exchange) -> None:
        await exchange.result({"session": exchange.headers.get("mcp-session-id")})


async def test_a_modern_request_is_mirrored_in_its_headers_and_otherwise_untouched() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.result({"tools": []})

    async with bridged(script) as (client, server):
        line = (
            b'{"jsonrpc":"2.0","id":"x","method":"tools/call", "params":{"name":"n \xc3\xa9","_meta":%b},"more":1.50}'
        )
        await client.relay.take(line % json.dumps(META).encode())
        assert (await client.hear())["id"] == "x"
        request = server.seen[0]
        assert request.body == line % json.dumps(META).encode()
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["mcp-method"] == "tools/call"
        assert request.headers["mcp-name"] == "=?base64?biDDqQ==?="
        assert "mcp-session-id" not in request.headers


async def test_parameters_that_a_list_marks_are_mirrored_in_later_calls() -> None:
    region = {"type": "string", "x-mcp-header": "Region"}

    async def script(exchange: Exchange) -> None:
        schema = {"type": "object", "properties": {"region": region}}
        await exchange.result({"tools": [{"name": "t", "inputSchema": schema}]})

    async with bridged(script) as (client, server):
        await client.say(id=1, method="tools/list", params={"_meta": META})
        await client.hear()
        await client.say(id=2, method="tools/call", params={"name": "t", "arguments": {"region": "eu"}, "_meta": META})
        await client.hear()
        assert server.seen[1].headers["mcp-param-region"] == "eu"


async def test_a_stream_is_printed_line_by_line_up_to_its_answer() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})
        await exchange.chunk(b'data: {"jsonrpc":"2.0","id":1,\ndata: "result":{}}\n\n')
        await exchange.end_stream()

    async with bridged(script) as (client, _):
        await client.say(id=1, method="tools/call", params={"name": "t", "_meta": META})
        assert (await client.hear())["method"] == "notifications/progress"
        assert await client.hear() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_a_modern_cancellation_closes_the_connection_of_its_request_and_nothing_else() -> None:
    gone, begun = asyncio.Event(), asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if exchange.message["id"] == 2:
            await exchange.result({})
            return
        await exchange.start_stream()
        begun.set()
        await exchange.until_gone()
        gone.set()

    async with bridged(script) as (client, server), asyncio.timeout(5):
        await client.say(id=1, method="tools/call", params={"name": "t", "_meta": META})
        await begun.wait()
        await client.say(method="notifications/cancelled", params={"requestId": 1})
        await gone.wait()
        await client.say(id=2, method="tools/call", params={"name": "t", "_meta": META})
        assert (await client.hear())["id"] == 2
        assert [exchange.method for exchange in server.seen] == ["POST", "POST"]


async def test_a_legacy_client_gets_a_session_that_it_knows_nothing_of() -> None:
    endpoint = Endpoint()
    async with bridged(endpoint.script) as (client, server):
        await client.begin()
        await client.say(id=1, method="tools/list")
        assert (await client.hear())["result"] == {"session": "s1"}
        request = server.seen[-1] if server.seen[-1].method == "POST" else server.seen[-2]
        assert request.headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in request.headers
        await client.relay.finish()
        await client.relay.aclose()
        assert endpoint.gone == {"s1"}


async def test_what_the_endpoint_says_outside_of_requests_reaches_the_client_and_the_stream_is_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relaying, "_PAUSE", 0.01)
    endpoint = Endpoint()
    async with bridged(endpoint.script) as (client, _), asyncio.timeout(5):
        await client.begin()
        stream = await endpoint.streams.get()
        await stream.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="e7")
        assert (await client.hear())["method"] == "notifications/tools/list_changed"
        await stream.end_stream()
        stream.close()
        again = await endpoint.streams.get()
        assert again.headers["last-event-id"] == "e7"
        await again.event({"jsonrpc": "2.0", "id": "q1", "method": "ping"})
        assert (await client.hear())["method"] == "ping"
        await client.say(id="q1", result={})
        answers = [(await endpoint.posted.get()).message for _ in range(2)]
        assert {"jsonrpc": "2.0", "id": "q1", "result": {}} in answers


async def test_an_endpoint_without_such_a_stream_is_not_asked_again() -> None:
    class Quiet(Endpoint):
        async def get(self, exchange: Exchange) -> None:
            await exchange.answer(405)
            await self.streams.put(exchange)

    endpoint = Quiet()
    async with bridged(endpoint.script) as (client, server), asyncio.timeout(5):
        await client.begin()
        await endpoint.streams.get()
        await client.say(id=1, method="tools/list")
        await client.hear()
        assert [exchange.method for exchange in server.seen].count("GET") == 1


async def test_a_session_that_is_gone_is_begun_again_for_the_client_once() -> None:
    endpoint = Endpoint()
    async with bridged(endpoint.script) as (client, server), asyncio.timeout(5):
        await client.begin()
        endpoint.gone.add("s1")
        await asyncio.gather(client.say(id=1, method="tools/list"), client.say(id=2, method="prompts/list"))
        answers = [await client.hear(), await client.hear()]
        assert {answer["id"]: answer["result"] for answer in answers} == {1: {"session": "s2"}, 2: {"session": "s2"}}
        hellos = [each for each in server.seen if each.method == "POST" and each.message.get("method") == "initialize"]
        assert len(hellos) == 2
        assert hellos[0].body == hellos[1].body
        assert client.silent


async def test_a_session_that_is_gone_at_once_again_is_an_error_of_the_request() -> None:
    class Closed(Endpoint):
        async def answer(self, exchange: Exchange) -> None:
            await exchange.answer(404)

    async with bridged(Closed().script) as (client, _):
        await client.begin()
        await client.say(id=1, method="tools/list")
        assert "ended again" in (await client.hear())["error"]["message"]


async def test_a_call_whose_stream_breaks_is_resumed_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "_PAUSE", 0.01)

    class Breaking(Endpoint):
        async def answer(self, exchange: Exchange) -> None:
            await exchange.start_stream()
            await exchange.chunk(b"id: p1\ndata:\n\n")
            await exchange.end_stream()
            exchange.close()

        async def get(self, exchange: Exchange) -> None:
            if exchange.headers.get("last-event-id") != "p1":
                await exchange.answer(405)
                return
            await exchange.start_stream()
            await exchange.event({"jsonrpc": "2.0", "id": 1, "result": {"late": True}}, id="p2")
            await exchange.end_stream()

    async with bridged(Breaking().script) as (client, _):
        await client.begin()
        await client.say(id=1, method="tools/call", params={"name": "t"})
        assert (await client.hear())["result"] == {"late": True}


async def test_a_stream_that_cannot_be_resumed_is_an_error_of_the_request() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.end_stream()

    async with bridged(script) as (client, _):
        await client.say(id=1, method="tools/call", params={"name": "t", "_meta": META})
        error = (await client.hear())["error"]
        assert "The stream ended before the answer. The request may have run" in error["message"]


@pytest.mark.parametrize(("status", "body"), [(503, b""), (502, b"<html>"), (200, b"{}"), (202, b"")])
async def test_what_is_no_answer_becomes_one_that_says_so(status: int, body: bytes) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(status, body, "text/html")

    async with bridged(script) as (client, _):
        await client.say(id=1, method="tools/list", params={"_meta": META})
        answer = await client.hear()
        assert (answer["id"], answer["error"]["message"]) == (
            1,
            f"The endpoint answered HTTP {status} without an answer to the request",
        )


async def test_an_error_of_the_endpoint_is_passed_on_whatever_its_status() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.error(-32602, "Unknown tool: t", 400)

    async with bridged(script) as (client, _):
        await client.say(id=1, method="tools/call", params={"name": "t", "_meta": META})
        assert (await client.hear())["error"] == {"code": -32602, "message": "Unknown tool: t"}


async def test_a_refused_credential_is_renewed_once_and_the_request_sent_again() -> None:
    class Renewing:
        def __init__(self) -> None:
            self.token = "old"
            self.challenges: list[Sequence[str]] = []

        async def headers(self) -> dict[str, str]:
            return {"Authorization": f"Bearer {self.token}"}

        async def renewed(self, status: int, challenges: Sequence[str], shown: Any) -> bool:
            self.challenges.append(challenges)
            self.token = "new"
            return bool(shown != await self.headers())

        async def aclose(self) -> None:
            """Nothing is held."""

    async def script(exchange: Exchange) -> None:
        if exchange.headers["authorization"] != "Bearer new":
            await exchange.answer(401, head={"WWW-Authenticate": 'Bearer realm="mcp"'})
        else:
            await exchange.result({})

    credential = Renewing()
    async with bridged(script, credential) as (client, _):
        await client.say(id=1, method="tools/list", params={"_meta": META})
        assert (await client.hear())["result"] == {}
        assert credential.challenges == [['Bearer realm="mcp"']]


async def test_requests_beyond_the_bound_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "MAX_OPEN", 2)
    free = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await free.wait()
        await exchange.result({})

    async with bridged(script) as (client, server), asyncio.timeout(5):
        for number in (1, 2):
            await client.say(id=number, method="tools/list", params={"_meta": META})
        waiting = TaskSet(lambda _, error: None)
        third = waiting.start(client.say(id=3, method="tools/list", params={"_meta": META}), "third")
        while len(server.seen) < 2:
            await asyncio.sleep(0)
        assert not third.done()
        free.set()
        await third
        assert {(await client.hear())["id"] for _ in range(3)} == {1, 2, 3}
