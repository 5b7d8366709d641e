"""The HTTP+SSE transport of 2024-11-05 over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.config.servers import Server
from gateway.downstream import remote
from gateway.downstream.connection import Connection
from gateway.downstream.guardian import Guardian
from gateway.downstream.http import HttpTransport
from gateway.downstream.meters import NoMeters
from gateway.downstream.sessions import SessionTransport
from gateway.downstream.setup import Setup
from gateway.downstream.sse import SseTransport
from gateway.downstream.transport import Request
from gateway.downstream.transports import Transports
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange as CallExchange
from gateway.model.outcome import Complete
from gateway.protocol.jsonrpc import ErrorObject, Id
from gateway.protocol.rawjson import decode_value
from gateway.protocol.versions import Era
from tests.kit.http_server import Exchange, Json, McpServer, Script, serving
from tests.kit.processes import WAIT, Counts, Recorder, call, eventually, result, said
from tests.kit.sse_server import SseServer
from tests.kit.transport import call as client_call

PING = Request("ping", {}, timeout=WAIT)


def cancellation(identifier: Id) -> tuple[str, object]:
    return "notifications/cancelled", {"requestId": identifier}


async def silent(server: SseServer, message: Json) -> None:
    """Accept a message and say nothing."""


@asynccontextmanager
async def talking(
    server: SseServer, inbox: Recorder | None = None, counts: Counts | None = None, **settings: object
) -> AsyncIterator[SseTransport]:
    async with serving(server.script) as http:
        transport = SseTransport("old", Server.model_validate({"url": http.url, **settings}), counts)
        await transport.open(inbox or Recorder())
        try:
            yield transport
        finally:
            await transport.aclose()


async def failing(transport: SseTransport, request: Request = PING) -> DownstreamError:
    with pytest.raises(DownstreamError) as caught:
        await asyncio.wait_for(transport.request(request), WAIT)
    return caught.value


async def refusal(script: Script) -> DownstreamError:
    async with serving(script) as http:
        transport = SseTransport("old", Server.model_validate({"url": http.url}))
        with pytest.raises(DownstreamError) as caught:
            await asyncio.wait_for(transport.open(Recorder()), WAIT)
        return caught.value


async def test_messages_go_where_the_stream_says_and_answers_come_on_it() -> None:
    server = SseServer()
    sent: list[bool] = []
    async with talking(server) as transport:
        reply = await transport.request(
            Request(
                "tools/call", {"name": "echo", "arguments": {"n": 1}}, timeout=WAIT, on_sent=lambda: sent.append(True)
            )
        )
        assert said(reply) == '{"n": 1}'
        await transport.notify(Request("notifications/initialized", None, timeout=WAIT))
        assert server.targets == ["/messages?session=1"] * 2
        assert [message["method"] for message in server.said] == ["tools/call", "notifications/initialized"]
        assert (sent, transport.kind, transport.instance, transport.last_words) == ([True], "sse", "sse#1", "")
        assert (transport.key_digest, isinstance(transport, SessionTransport)) == ("", False)


async def test_answers_find_their_calls_in_any_order() -> None:
    held: list[Json] = []

    async def hold(server: SseServer, message: Json) -> None:
        held.append(message)

    server = SseServer(handlers={"tools/call": hold})
    async with talking(server) as transport:
        async with asyncio.timeout(WAIT), asyncio.TaskGroup() as group:
            tasks = [group.create_task(transport.request(call("echo", n=number))) for number in range(3)]
            await eventually(lambda: len(held) == 3)
            for message in reversed(held):
                await server.say({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]["arguments"]})
        assert [result(task.result()) for task in tasks] == [{"n": number} for number in range(3)]


async def test_an_answer_may_come_before_the_post_is_accepted() -> None:
    server = SseServer()
    release = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await server.script(exchange)
            return
        await server.say({"jsonrpc": "2.0", "id": exchange.message["id"], "result": {"early": True}})
        await release.wait()
        await exchange.answer(202)

    async with serving(script) as http:
        transport = SseTransport("old", Server.model_validate({"url": http.url}))
        await transport.open(Recorder())
        assert result(await transport.request(PING)) == {"early": True}
        release.set()
        await transport.aclose()


async def test_errors_notifications_and_questions_of_the_server() -> None:
    async def busy(server: SseServer, message: Json) -> None:
        await server.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}})
        await server.say({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await server.say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": "no"}})

    server, inbox = SseServer(handlers={"tools/call": busy}), Recorder({})
    async with talking(server, inbox) as transport:
        reply = await transport.request(call("echo"))
        assert reply.error == ErrorObject(-32000, "no")
        assert inbox.notifications == [("notifications/progress", {"progressToken": 1})]
        await eventually(lambda: {"jsonrpc": "2.0", "id": "q", "result": {}} in server.said)
        inbox.answer = ErrorObject(-32601, "Method not found")
        await server.say({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})
        refused = {"jsonrpc": "2.0", "id": "r", "error": {"code": -32601, "message": "Method not found"}}
        await eventually(lambda: refused in server.said)


async def test_noise_is_skipped_and_counted() -> None:
    """G018."""

    async def noisy(server: SseServer, message: Json) -> None:
        await server.raw(b": comment\n\nevent: ping\ndata: {}\n\ndata: noise\n\n")
        await server.say({"a": 1})
        await server.say({"jsonrpc": "2.0", "id": 99, "result": {}})
        await server.say({"jsonrpc": "2.0", "id": str(message["id"]), "result": {}})
        await server.say({"jsonrpc": "2.0", "id": message["id"], "result": {"ok": 1}})
        await server.say({"jsonrpc": "2.0", "id": message["id"], "result": {"ok": 2}})

    inbox, counts = Recorder(), Counts()
    async with talking(SseServer(handlers={"ping": noisy}), inbox, counts) as transport:
        assert result(await transport.request(PING)) == {"ok": 1}
        kinds = ["bad_json", "not_jsonrpc", "unknown_id", "unknown_id", "unknown_id"]
        await eventually(lambda: inbox.kinds == kinds)


async def test_an_answer_that_is_no_message_fails_its_call_at_once() -> None:
    async def broken(server: SseServer, message: Json) -> None:
        await server.say({"jsonrpc": "2.0", "id": message["id"], "result": [1]})

    async with talking(SseServer(handlers={"ping": broken})) as transport:
        error = await failing(transport)
        assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)


async def test_a_refused_post_is_an_answer_without_a_message() -> None:
    async with talking(SseServer(accepts=401)) as transport:
        reply = await transport.request(PING)
        assert (reply.status, reply.result, reply.error) == (401, None, None)
        with pytest.raises(DownstreamError, match="refused a notification with status 401"):
            await transport.notify(Request("notifications/initialized", None))


async def test_a_call_that_takes_too_long_is_cancelled() -> None:
    server = SseServer(handlers={"tools/call": silent})
    async with talking(server) as transport:
        request = Request("tools/call", {"name": "echo"}, timeout=0.1, cancel=cancellation)
        error = await failing(transport, request)
        assert (error.reason, error.may_have_run) == (Reason.TIMEOUT, True)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await eventually(lambda: note in server.said)


async def test_whoever_stops_waiting_cancels_the_call() -> None:
    server = SseServer(handlers={"tools/call": silent})
    async with talking(server) as transport:
        request = Request("tools/call", {"name": "echo"}, cancel=cancellation)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(transport.request(request))
            await eventually(lambda: len(server.said) == 1)
            waiting.cancel()
        assert waiting.cancelled()
        await eventually(lambda: server.said[-1]["method"] == "notifications/cancelled")


async def test_so_many_answers_are_under_way_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_ASIDE", 2)
    server, inbox = SseServer(), Recorder({})
    async with talking(server, inbox) as transport:
        asks = b"".join(b'data: {"jsonrpc":"2.0","id":"%d","method":"ping"}\n\n' % number for number in range(5))
        await server.raw(asks)
        await eventually(lambda: inbox.kinds == ["answer_dropped"] * 3)
        await eventually(lambda: len(server.said) == 2)
        assert result(await transport.request(PING)) == {}


async def test_the_end_of_the_stream_ends_the_transport_and_fails_calls_in_flight() -> None:
    async def ends(server: SseServer, message: Json) -> None:
        await server.end()

    inbox = Recorder()
    async with talking(SseServer(handlers={"ping": ends}), inbox) as transport:
        error = await failing(transport)
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)
        async with asyncio.timeout(WAIT):
            await inbox.over.wait()
        assert inbox.reasons == ["the server closed its stream"]
        assert "connection is closed" in (await failing(transport)).message


async def test_a_stream_that_breaks_or_sends_too_much_ends_the_transport() -> None:
    async def aborts(server: SseServer, message: Json) -> None:
        server.streams[-1].writer.transport.abort()

    async def floods(server: SseServer, message: Json) -> None:
        await server.raw(b"data: " + b"x" * 70_000 + b"\n\n")

    for handler, reason in ((aborts, Reason.UNAVAILABLE), (floods, Reason.TOO_LARGE)):
        inbox = Recorder()
        async with talking(SseServer(handlers={"ping": handler}), inbox, max_result=65536) as transport:
            assert (await failing(transport)).reason is reason
            await eventually(lambda: len(inbox.reasons) == 1)  # noqa: B023 - awaited within the turn.


async def test_closing_fails_calls_and_says_nothing_of_an_end() -> None:
    server, inbox = SseServer(handlers={"ping": silent}), Recorder()
    async with talking(server, inbox) as transport:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(failing(transport))
            await eventually(lambda: len(server.said) == 1)
            await transport.aclose()
        assert waiting.result().reason is Reason.UNAVAILABLE
        assert inbox.reasons == []


@pytest.mark.parametrize(
    "endpoint",
    ["http://evil.example/messages", "https://127.0.0.1/x", "http://u:p@127.0.0.1/x", "", "http://[bad", "//evil/x"],
)
async def test_an_endpoint_elsewhere_is_refused(endpoint: str) -> None:
    """The gateway's headers and bodies go nowhere but to the configured origin."""
    server = SseServer(endpoint=endpoint)

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(f"event: endpoint\ndata: {server.endpoint}\n\n".encode())
        await exchange.end_stream()

    error = await refusal(script)
    assert error.reason in (Reason.PROTOCOL_ERROR, Reason.UNAVAILABLE)
    assert not error.may_have_run
    assert "evil" not in error.message


async def test_servers_without_such_a_stream_cannot_be_opened() -> None:
    async def ends(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(b"data: {}\n\n")
        await exchange.end_stream()

    assert "HTTP status 405" in (await refusal(lambda exchange: exchange.answer(405))).message
    assert (await refusal(lambda exchange: exchange.json({}))).reason is Reason.PROTOCOL_ERROR
    assert "before it named" in (await refusal(ends)).message


@asynccontextmanager
async def connected(script: Script, **settings: object) -> AsyncIterator[Connection]:
    async with serving(script) as http:
        server = Server.model_validate({"url": http.url, **settings})
        connection = Connection(Setup("old", server, Transports(Guardian(), NoMeters())))
        try:
            await connection.open()
            yield connection
        finally:
            await connection.aclose()


@pytest.mark.parametrize("transport", ["auto", "sse"])
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_an_old_server_is_met_listed_and_called(transport: str, protocol: str) -> None:
    """2025-11-25 basic/transports §Backwards Compatibility."""
    server = SseServer()
    async with connected(server.script, transport=transport, protocol=protocol) as connection:
        assert (connection.hello.era, connection.hello.version) == (Era.LEGACY, "2024-11-05")
        assert len((await connection.page(Kind.TOOL, None)).items) == 1
        outcome = await connection.call(client_call(), CallExchange())
        assert isinstance(outcome, Complete)
        assert decode_value(outcome.result["content"]) == [{"type": "text", "text": "{}"}]
        assert connection.facts().transport == "sse"
        assert ("/mcp" in server.targets) is (transport == "auto")
        assert "mcp-session-id" not in server.streams[-1].headers


async def test_the_end_of_its_stream_ends_the_connection() -> None:
    server = SseServer()
    async with connected(server.script, transport="sse") as connection:
        await server.end()
        async with asyncio.timeout(WAIT):
            await connection.over.wait()
        assert (connection.is_up, connection.reason) == (False, "the server closed its stream")


async def test_a_server_with_the_new_transport_is_not_asked_for_the_old_one() -> None:
    server = McpServer(era="legacy")
    async with connected(server.script) as connection:
        assert connection.facts().transport == HttpTransport.kind
        assert server.listeners == []


@pytest.mark.parametrize(("transport", "gets"), [("auto", 1), ("http", 0)])
async def test_a_server_that_has_neither_is_refused_with_what_it_said_first(transport: str, gets: int) -> None:
    methods: list[str] = []

    async def script(exchange: Exchange) -> None:
        methods.append(exchange.method)
        await exchange.answer(404)

    with pytest.raises(DownstreamError, match="HTTP status 404"):
        async with connected(script, transport=transport, protocol="legacy"):
            pass
    assert methods.count("GET") == gets


async def test_an_array_of_an_older_server_holds_the_answer_and_more() -> None:
    async def batching(server: SseServer, message: Json) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
        await server.say([note, {"jsonrpc": "2.0", "id": message["id"], "result": {"ok": 1}}])

    inbox = Recorder()
    async with talking(SseServer(handlers={"ping": batching}), inbox) as transport:
        assert result(await transport.request(PING)) == {"ok": 1}
        assert inbox.notifications == [("notifications/progress", {})]
