from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.config.servers import Server
from gateway.downstream import http as module
from gateway.downstream import remote
from gateway.downstream.http import HttpTransport
from gateway.downstream.sessions import SessionTransport
from gateway.downstream.transport import Later, Reply, Request, Transport
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc, rawjson
from gateway.protocol.jsonrpc import ErrorObject, Id
from gateway.protocol.rawjson import Members
from tests.kit.http_server import Exchange, HttpServer, McpServer, Script, serving
from tests.kit.processes import WAIT, Counts, Recorder, call, eventually, plain, result

PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}}
PING = Request("ping", {}, timeout=WAIT)


def cancellation(identifier: Id) -> tuple[str, object]:
    return "notifications/cancelled", {"requestId": identifier}


@asynccontextmanager
async def talking(
    script: Script, inbox: Recorder | None = None, **settings: object
) -> AsyncIterator[tuple[HttpTransport, HttpServer]]:
    async with serving(script) as server:
        transport = HttpTransport("wiki", Server.model_validate({"url": server.url, **settings}))
        await transport.open(inbox or Recorder())
        try:
            yield transport, server
        finally:
            await transport.aclose()


async def failing(transport: Transport, request: Request = PING) -> DownstreamError:
    with pytest.raises(DownstreamError) as caught:
        await asyncio.wait_for(transport.request(request), WAIT)
    return caught.value


async def answer_of(script: Script, request: Request = PING) -> Reply:
    async with talking(script) as (transport, _):
        return await transport.request(request)


async def failure_of(script: Script, inbox: Recorder | None = None, **settings: object) -> DownstreamError:
    async with talking(script, inbox, **settings) as (transport, _):
        return await failing(transport)


async def test_a_request_is_one_post_with_its_headers() -> None:
    async with talking(lambda exchange: exchange.result({"ok": True})) as (transport, server):
        reply = await transport.request(Request("tools/list", {"a": 1}, {"Mcp-Method": "tools/list"}, timeout=WAIT))
        assert result(reply) == {"ok": True}
        assert (reply.error, reply.status) == (None, 200)
        assert reply.headers["content-type"] == "application/json"
        (seen,) = server.seen
        assert (seen.method, seen.target) == ("POST", "/mcp")
        assert seen.message == {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": 1}}
        assert seen.headers["accept"] == "application/json, text/event-stream"
        assert seen.headers["content-type"] == "application/json"
        assert seen.headers["mcp-method"] == "tools/list"


async def test_ids_are_never_used_twice_and_the_connection_is() -> None:
    async with talking(lambda exchange: exchange.result({})) as (transport, server):
        for _ in range(3):
            await transport.request(PING)
        assert [seen.message["id"] for seen in server.seen] == [1, 2, 3]
        assert server.connections == 1


async def test_who_asks_is_told_the_id_on_the_wire() -> None:
    told: list[Id] = []
    async with talking(lambda exchange: exchange.result({})) as (transport, server):
        for _ in range(2):
            await transport.request(Request("ping", {}, timeout=WAIT, on_id=told.append))
        assert told == [seen.message["id"] for seen in server.seen] == [1, 2]


async def test_an_answer_on_a_stream_frees_its_connection_too() -> None:
    server = McpServer(streams=True)
    async with talking(server.script) as (transport, http):
        for number in range(3):
            reply = await transport.request(call("echo", n=number))
            assert result(reply)["structuredContent"] == {"n": number}
            await eventually(lambda: not transport._tasks)
        assert http.connections == 1


async def test_notifications_on_a_requests_stream_are_its_own() -> None:
    inbox = Recorder()
    heard: list[object] = []

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event(PROGRESS)
        await exchange.event_result({})
        await exchange.end_stream()

    async with talking(script, inbox) as (transport, _):
        request = Request(
            "x", {}, timeout=WAIT, on_notification=lambda method, params: heard.append((method, plain(params)))
        )
        await transport.request(request)
        assert heard == [("notifications/progress", {"progressToken": 1, "progress": 2})]
        await transport.request(PING)
        assert inbox.notifications == heard


async def test_noise_on_a_stream_is_skipped_and_counted() -> None:
    """G018"""
    inbox = Recorder()

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(b": comment\n\nid: 7\ndata:\n\nevent: ping\ndata: {}\n\ndata: noise\n\ndata: [1]\n\n")
        await exchange.event({"a": 1})
        await exchange.event({"jsonrpc": "2.0", "id": "1", "result": {}})
        await exchange.event({"jsonrpc": "2.0", "id": 99, "result": {}})
        await exchange.event_result({"ok": 1})
        await exchange.end_stream()

    async with serving(script) as server:
        transport = HttpTransport("wiki", Server.model_validate({"url": server.url}))
        await transport.open(inbox)
        assert result(await transport.request(PING)) == {"ok": 1}
        await transport.aclose()
    assert inbox.kinds == ["bad_json", "bad_json", "not_jsonrpc", "unknown_id", "unknown_id"]


async def test_a_dial_that_is_forbidden_is_refused_and_counted() -> None:
    """S118"""
    counts = Counts()
    transport = HttpTransport("wiki", Server.model_validate({"url": "http://169.254.169.254/latest"}), counts)
    await transport.open(Recorder())
    with pytest.raises(DownstreamError, match="its address must not be dialed: link-local"):
        await transport.request(PING)
    await transport.aclose()
    assert counts.dials == ["wiki"]


@pytest.mark.parametrize("status", [200, 400, 404, 401, 500])
async def test_a_json_rpc_error_is_a_reply_whatever_the_status(status: int) -> None:
    reply = await answer_of(lambda exchange: exchange.error(-32022, "version", status, {"supported": []}))
    assert reply.status == status
    assert reply.result is None
    assert reply.error is not None
    assert (reply.error.code, reply.error.message) == (-32022, "version")


async def test_an_error_without_an_id_belongs_to_the_request_of_its_connection() -> None:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}
    for status in (200, 400):
        reply = await answer_of(lambda exchange, status=status: exchange.json(body, status))  # type: ignore[misc]  # Bound per round.
        assert reply.error == ErrorObject(-32700, "no")


UNUSABLE = [
    *((status, b"", "") for status in (202, 204, 304, 400, 401, 403, 404, 405, 429, 502, 503)),
    *((status, b"<html>", "text/html") for status in (202, 400, 401, 404, 502)),
    *((status, b"{", "application/json") for status in (202, 400, 401, 404, 502)),
    *((status, b'{"error":"no"}', "application/json") for status in (202, 400, 401, 404, 502)),
    *((status, b'{"jsonrpc":"2.0","id":1,"result":{}}', "application/json") for status in (400, 401, 404, 502)),
]


@pytest.mark.parametrize(("status", "body", "kind"), UNUSABLE)
async def test_a_status_without_a_message_is_the_dialects_to_interpret(status: int, body: bytes, kind: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.answer(status, body, kind, {"WWW-Authenticate": "Bearer", "Retry-After": "7"})

    reply = await answer_of(script)
    assert (reply.result, reply.error, reply.status) == (None, None, status)
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>hello</html>", "text/html"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', "text/plain"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', ""),
        (b"", "application/json"),
        (b'{"jsonrpc":"2.0","id":1,"result":{', "application/json"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}{}', "application/json"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}', "application/json"),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', "application/json"),
        (b'{"jsonrpc":"2.0","id":2,"result":{}}', "application/json"),
        (b'{"jsonrpc":"2.0","id":"1","result":{}}', "application/json"),
        (b'{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":""}}', "application/json"),
        (b'{"jsonrpc":"2.0","method":"notifications/message"}', "application/json"),
        (b"[]", "application/json"),
    ],
)
async def test_a_success_that_is_no_answer_is_a_protocol_error(body: bytes, kind: str) -> None:
    """S125"""
    error = await failure_of(lambda exchange: exchange.answer(200, body, kind))
    assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)


async def test_an_answer_over_the_limit_is_refused_without_filling_the_memory() -> None:
    """S123: 17 MiB where 16 are allowed."""

    async def script(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(17 * 16):
            await exchange.chunk(b" " * 65536)
        await exchange.end_stream()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = await failure_of(script)
    assert (error.reason, error.may_have_run) == (Reason.TOO_LARGE, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


async def test_an_event_over_the_limit_is_refused() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event_result({"text": "x" * 2000})
        await exchange.end_stream()

    assert (await failure_of(script, max_result=1000)).reason is Reason.TOO_LARGE


async def test_a_compressed_answer_is_refused() -> None:
    """S124"""
    error = await failure_of(
        lambda exchange: exchange.answer(200, b"\x1f", "application/json", {"Content-Encoding": "br"})
    )
    assert error.reason is Reason.PROTOCOL_ERROR


async def test_a_stream_that_ends_without_the_answer_is_a_disconnect() -> None:
    """G021: not a timeout."""

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event(PROGRESS, id="e1")
        await exchange.end_stream()

    async with talking(script) as (transport, server):
        error = await failing(transport)
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)
        assert error.message == "the server disconnected before answering"
        # Where closing a stream cancels, asking for the rest makes no sense.
        assert [seen.method for seen in server.seen] == ["POST"]


@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut"])
async def test_a_stream_closed_on_purpose_is_resumed_after_the_time_the_server_names(cut: bool) -> None:
    """2025-11-25 basic/transports: polling."""
    later: list[Exchange] = []

    async def script(exchange: Exchange) -> None:
        if exchange.method == "GET":
            later.append(exchange)
            await exchange.start_stream()
            if len(later) == 1:
                await exchange.event(PROGRESS, id="e2")
            else:
                await exchange.event({"jsonrpc": "2.0", "id": 1, "result": {"ok": 1}})
            await exchange.end_stream()
            return
        await exchange.start_stream()
        await exchange.chunk(b"id: e1\nretry: 10\ndata:\n\n")
        if cut:
            exchange.close()
        else:
            await exchange.end_stream()

    async with talking(script) as (transport, server):
        request = Request("x", {}, {"Mcp-Session-Id": "s1"}, timeout=WAIT, cancel=cancellation)
        assert result(await transport.request(request)) == {"ok": 1}
        assert [seen.method for seen in server.seen] == ["POST", "GET", "GET"]
        assert [seen.headers["last-event-id"] for seen in later] == ["e1", "e2"]
        assert {seen.headers["mcp-session-id"] for seen in later} == {"s1"}
        assert {seen.headers["accept"] for seen in later} == {"text/event-stream"}


async def test_resuming_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEFAULT_RETRY", 0.01)

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        if exchange.method == "POST":
            await exchange.chunk(b"id: e1\ndata:\n\n")
        await exchange.end_stream()

    async with talking(script) as (transport, server):
        error = await failing(transport, Request("x", {}, timeout=WAIT, cancel=cancellation))
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)
        assert len(server.seen) == 1 + module.MAX_RESUMES + 1


async def test_a_server_that_does_not_resume_ends_the_call() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.answer(405)
            return
        await exchange.start_stream()
        await exchange.chunk(b"id: e1\nretry: 1\ndata:\n\n")
        await exchange.end_stream()

    async with talking(script) as (transport, _):
        error = await failing(transport, Request("x", {}, timeout=WAIT, cancel=cancellation))
        assert (error.reason, "405" in error.message) == (Reason.UNAVAILABLE, True)


async def test_a_server_that_is_gone_when_asked_for_the_rest_may_have_run_the_call() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.method == "GET":
            exchange.close()
            return
        await exchange.start_stream()
        await exchange.chunk(b"id: e1\nretry: 1\ndata:\n\n")
        await exchange.end_stream()

    async with talking(script) as (transport, _):
        error = await failing(transport, Request("x", {}, timeout=WAIT, cancel=cancellation))
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)


async def test_a_timeout_closes_a_resumed_stream_too() -> None:
    gone = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if exchange.method == "POST" and "id" not in exchange.message:
            await exchange.answer(202)
            return
        await exchange.start_stream()
        await exchange.chunk(b"id: e1\nretry: 1\ndata:\n\n")
        if exchange.method == "GET":
            await exchange.until_gone()
            gone.set()
            exchange.close()
        else:
            await exchange.end_stream()

    async with talking(script) as (transport, _):
        error = await failing(transport, Request("x", {}, timeout=0.3, cancel=cancellation))
        assert error.reason is Reason.TIMEOUT
        await asyncio.wait_for(gone.wait(), WAIT)


async def silent(exchange: Exchange) -> None:
    await exchange.until_gone()


async def head_only(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n")
    await exchange.until_gone()


async def dripping(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n")
    while not exchange.reader.at_eof():
        await exchange.raw(b" ")
        await asyncio.sleep(0.01)


async def progressing(exchange: Exchange) -> None:
    await exchange.start_stream()
    while not exchange.reader.at_eof():
        await exchange.event(PROGRESS)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("script", [silent, head_only, dripping, progressing])
async def test_every_kind_of_slowness_ends_at_the_limit(script: Script) -> None:
    """S122"""
    async with talking(script) as (transport, _):
        error = await failing(transport, Request("x", {}, timeout=0.3))
        assert (error.reason, error.message, error.may_have_run) == (Reason.TIMEOUT, "no answer within 0.3 s", True)


async def test_without_a_limit_a_stream_lives_on() -> None:
    """G030: nothing of the client library's own limits is left."""
    async with talking(silent) as (transport, _):
        assert transport._client is not None
        timeout = transport._client._session.timeout
        assert (timeout.total, timeout.sock_read) == (None, None)


async def test_cancelling_closes_the_stream() -> None:
    """2026-07-28 streamable-http: closing is the cancellation."""
    gone = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event(PROGRESS)
        await exchange.until_gone()
        gone.set()
        exchange.close()

    inbox = Recorder()
    async with talking(script, inbox) as (transport, server):
        task = asyncio.gather(transport.request(PING))
        await asyncio.wait_for(inbox.heard.wait(), WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), WAIT)
        assert len(server.seen) == 1


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_where_closing_says_nothing_the_cancellation_is_posted(how: str) -> None:
    """2025-11-25 basic/transports: disconnection is no cancellation."""

    async def script(exchange: Exchange) -> None:
        if "id" not in exchange.message:
            await exchange.answer(202)
        else:
            await exchange.until_gone()
            exchange.close()

    async with talking(script) as (transport, server):
        request = Request("x", {}, {"Mcp-Session-Id": "s1"}, 0.2 if how == "timed out" else None, cancel=cancellation)
        task = asyncio.gather(transport.request(request), return_exceptions=True)
        await eventually(lambda: server.seen)
        if how == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        await eventually(lambda: len(server.seen) == 2)
        assert server.seen[1].message == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 1},
        }
        assert server.seen[1].headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ({"action": rawjson.raw("accept")}, {"result": {"action": "accept"}}),
        (ErrorObject(-32601, "no"), {"error": {"code": -32601, "message": "no"}}),
    ],
)
async def test_a_request_on_a_stream_is_answered_by_a_post(answer: ErrorObject, body: dict[str, object]) -> None:
    answered = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if "method" not in exchange.message:
            await exchange.answer(202)
            answered.set()
            return
        await exchange.start_stream()
        await exchange.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"m": 1}})
        await answered.wait()
        await exchange.event_result({})
        await exchange.end_stream()

    inbox = Recorder(answer)
    async with talking(script, inbox) as (transport, server):
        await transport.request(Request("x", {}, {"Mcp-Session-Id": "s1"}, WAIT))
        assert inbox.asks == [("elicitation/create", {"m": 1})]
        assert server.seen[1].message == {"jsonrpc": "2.0", "id": "q", **body}
        assert server.seen[1].headers["mcp-session-id"] == "s1"


async def test_a_request_on_a_calls_own_stream_is_that_calls_and_can_be_answered_later() -> None:
    answered = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        if "method" not in exchange.message:
            await exchange.answer(202)
            answered.set()
            return
        await exchange.start_stream()
        await exchange.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await answered.wait()
        await exchange.event_result({})
        await exchange.end_stream()

    later: Later = asyncio.get_running_loop().create_future()
    given: Later = asyncio.get_running_loop().create_future()
    asked: list[str] = []

    def ask(method: str, params: Members) -> Later:
        asked.append(method)
        return later

    inbox = Recorder()
    async with talking(script, inbox) as (transport, server):
        task = asyncio.gather(transport.request(Request("x", {}, {"Mcp-Session-Id": "s1"}, WAIT, on_ask=ask)))
        await eventually(lambda: asked == ["roots/list"])
        later.set_result({"roots": rawjson.raw([])})
        await task
        assert server.seen[1].message == {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}
        assert (inbox.asks, server.seen[1].headers["mcp-session-id"]) == ([], "s1")
        transport._ask(jsonrpc.ServerRequest("q", "roots/list", {}), {}, Request("x", {}, on_ask=lambda *_: given))
    # An answer that comes when the connection is gone has nowhere to go.
    given.set_result({"roots": rawjson.raw([])})
    await asyncio.sleep(0)
    assert len(server.seen) == 2


async def test_a_flood_of_requests_is_answered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_ASIDE", 3)

    async def script(exchange: Exchange) -> None:
        if "method" not in exchange.message:
            await exchange.until_gone()
            exchange.close()
            return
        await exchange.start_stream()
        for number in range(10):
            await exchange.event({"jsonrpc": "2.0", "id": number, "method": "ping"})
        await exchange.event_result({})
        await exchange.end_stream()

    inbox = Recorder()
    async with talking(script, inbox) as (transport, _):
        await transport.request(PING)
        assert inbox.kinds == ["answer_dropped"] * 7


async def test_a_short_body_breaks_only_its_own_connection() -> None:
    """G121"""

    async def script(exchange: Exchange) -> None:
        if exchange.connection == 1:
            await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            exchange.close()
        else:
            await exchange.result({})

    async with talking(script) as (transport, server):
        error = await failing(transport)
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)
        assert (await transport.request(PING)).result == {}
        assert server.connections == 2


async def test_a_long_body_is_no_answer_to_the_next_request() -> None:
    """G121: what is left over on a connection must not be taken for an answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n"
    forged = head + b'{"jsonrpc":"2.0","id":2,"result":{}}'

    async def script(exchange: Exchange) -> None:
        if exchange.connection == 1:
            await exchange.raw(forged.replace(b'"id":2', b'"id":1') + forged)
        else:
            await exchange.result({"real": True})

    async with talking(script) as (transport, _):
        await transport.request(PING)
        assert result(await transport.request(PING)) == {"real": True}


async def test_nothing_is_sent_twice() -> None:
    """S127: the server reads and closes; also on a connection that was used before."""
    deliveries: list[object] = []

    async def script(exchange: Exchange) -> None:
        deliveries.append(exchange.message["params"])
        if exchange.message["params"] == {"die": True}:
            exchange.close()
        else:
            await exchange.result({})

    async with talking(script) as (transport, _):
        await transport.request(PING)
        error = await failing(transport, Request("x", {"die": True}))
        assert error.may_have_run
        assert deliveries == [{}, {"die": True}]


async def test_a_notification_is_posted() -> None:
    async with talking(lambda exchange: exchange.answer(202)) as (transport, server):
        await transport.notify(Request("notifications/initialized", None, {"Mcp-Session-Id": "s"}))
        assert server.seen[0].message == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert server.seen[0].headers["mcp-session-id"] == "s"


async def test_a_notification_that_is_refused_is_an_error() -> None:
    async with talking(lambda exchange: exchange.answer(404)) as (transport, _):
        with pytest.raises(DownstreamError, match="status 404"):
            await transport.notify(Request("notifications/initialized", None))


async def test_a_notification_without_an_answer_times_out() -> None:
    async with talking(silent) as (transport, _):
        with pytest.raises(DownstreamError) as caught:
            await transport.notify(Request("notifications/initialized", None, timeout=0.2))
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.TIMEOUT, True)


async def test_a_stream_of_its_own_feeds_the_inbox_until_it_ends() -> None:
    opened: list[int] = []

    async def script(exchange: Exchange) -> None:
        if exchange.method == "POST":
            await exchange.answer(202)
            return
        await exchange.start_stream()
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await exchange.event({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        await exchange.event({"jsonrpc": "2.0", "id": 1, "result": {}})
        await exchange.chunk(b"data: noise\n\n")
        await exchange.end_stream()

    inbox = Recorder()
    async with talking(script, inbox) as (transport, server):
        assert isinstance(transport, SessionTransport)
        status = await transport.stream({"Mcp-Session-Id": "s1"}, lambda: opened.append(1))
        assert (status, opened) == (200, [1])
        assert inbox.notifications == [("notifications/tools/list_changed", {})]
        assert inbox.kinds == ["unknown_id", "bad_json"]
        await eventually(lambda: len(server.seen) == 2)
        assert server.seen[0].headers["accept"] == "text/event-stream"
        assert server.seen[1].message == {"jsonrpc": "2.0", "id": 5, "result": {}}
        assert server.seen[1].headers["mcp-session-id"] == "s1"


@pytest.mark.parametrize("status", [400, 404, 405, 500])
async def test_a_server_without_such_a_stream_is_asked_once(status: int) -> None:
    """G024"""
    async with talking(lambda exchange: exchange.answer(status)) as (transport, server):
        assert await transport.stream({}, lambda: pytest.fail("not open")) == status
        assert len(server.seen) == 1


async def test_something_else_than_a_stream_is_an_error() -> None:
    async with talking(lambda exchange: exchange.json({})) as (transport, _):
        with pytest.raises(DownstreamError) as caught:
            await transport.stream({}, lambda: pytest.fail("not open"))
        assert caught.value.reason is Reason.PROTOCOL_ERROR


async def test_the_next_stream_continues_after_the_last_event() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/x"}, id=f"e{exchange.headers['n']}")
        if exchange.headers["n"] == "1":
            exchange.close()
        else:
            await exchange.end_stream()

    async with talking(script) as (transport, server):
        with pytest.raises(DownstreamError):
            await transport.stream({"N": "1"}, lambda: None)
        for _ in range(2):
            await transport.stream({"N": "2"}, lambda: None)
        assert [seen.headers.get("last-event-id") for seen in server.seen] == [None, None, "e2"]


async def test_a_session_is_ended_with_delete() -> None:
    async with talking(lambda exchange: exchange.answer(204)) as (transport, server):
        assert await transport.end_session({"Mcp-Session-Id": "s"}) == 204
        assert (server.seen[0].method, server.seen[0].headers["mcp-session-id"]) == ("DELETE", "s")


async def test_closing_fails_what_is_in_flight() -> None:
    inbox = Recorder()
    async with talking(silent, inbox) as (transport, server):
        waiting = asyncio.gather(failing(transport, Request("x", {})))
        await eventually(lambda: server.seen)
        await transport.aclose()
        (error,) = await waiting
        assert (error.reason, error.may_have_run) == (Reason.UNAVAILABLE, True)
        await transport.aclose()
        assert (await failing(transport)).may_have_run is False
    assert inbox.reasons == []


async def test_an_error_never_shows_the_url() -> None:
    async with serving(silent) as server:
        url = f"http://user:s3cret@127.0.0.1:{server.port}/path-s3cret?key=s3cret"
    transport = HttpTransport("wiki", Server.model_validate({"url": url}), generation=4)
    assert transport.instance == "http#4"
    await transport.open(Recorder())
    error = await failing(transport)
    await transport.aclose()
    assert error.message == "the server cannot be reached: no connection: refused or unreachable"
    assert transport.key_digest == ""


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_scripted_server_speaks_both_eras(era: str) -> None:
    server = McpServer(era=era)
    async with talking(server.script) as (transport, _):
        headers: dict[str, str] = {}
        if era == "legacy":
            reply = await transport.request(Request("initialize", {"protocolVersion": "2025-11-25"}, timeout=WAIT))
            headers = {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
            await transport.notify(Request("notifications/initialized", None, headers))
        else:
            assert result(await transport.request(Request("server/discover", {}, timeout=WAIT)))["supportedVersions"]
        params = {"name": "echo", "arguments": {"a": 1}}
        reply = await transport.request(Request("tools/call", params, headers, WAIT))
        assert json.loads(result(reply)["content"][0]["text"]) == {"a": 1}
        assert server.calls == [{"a": 1}]


def array_for(identifier: object) -> list[object]:
    """An array of 2025-03-26: the answer between a notification and a question."""
    return [
        PROGRESS,
        {"jsonrpc": "2.0", "id": identifier, "result": {"ok": 1}},
        {"jsonrpc": "2.0", "id": "q", "method": "ping"},
    ]


@pytest.mark.parametrize("streamed", [True, False])
async def test_an_array_of_an_older_server_holds_the_answer_and_more(streamed: bool) -> None:
    """2025-03-26 basic/transports §Sending Messages."""
    posted: list[object] = []

    async def script(exchange: Exchange) -> None:
        posted.append(exchange.message)
        if "method" not in exchange.message:
            await exchange.answer(202)
        elif streamed:
            await exchange.start_stream()
            await exchange.event(array_for(exchange.message["id"]))
            await exchange.end_stream()
        else:
            await exchange.json(array_for(exchange.message["id"]))

    inbox = Recorder({})
    async with talking(script, inbox) as (transport, _):
        assert result(await transport.request(PING)) == {"ok": 1}
        await eventually(lambda: {"jsonrpc": "2.0", "id": "q", "result": {}} in posted)
        assert [method for method, _ in inbox.notifications] == ["notifications/progress"]
        assert inbox.violations == []


async def test_an_array_without_the_answer_is_none() -> None:
    error = await failure_of(lambda exchange: exchange.json([PROGRESS, PROGRESS]))
    assert (error.reason, error.may_have_run) == (Reason.PROTOCOL_ERROR, True)
    assert (await answer_of(lambda exchange: exchange.json([PROGRESS, PROGRESS], 404))).error is None
