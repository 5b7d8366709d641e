"""SSE responses on real sockets: headers, heartbeats, bounds, ends (S12, S19, G019, G020)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias, cast

import pytest
from aiohttp import web

from gateway.endpoint import stream as streams
from gateway.endpoint.connection import Bounds, Server
from gateway.endpoint.stream import QUEUE_BYTES, EventStream, StreamCap
from gateway.tasks import TaskSet
from gateway.telemetry.metrics import Metrics
from tests.kit.clients import connect, raw

Use: TypeAlias = Callable[[EventStream], Awaitable[web.StreamResponse]]
GET = raw("GET / HTTP/1.1", [("Host", "localhost")])


@asynccontextmanager
async def streaming(use: Use, metrics: Metrics | None = None) -> AsyncIterator[int]:
    """Serve a stream that ``use`` works with."""
    tasks = TaskSet(lambda name, error: pytest.fail(f"{name}: {error!r}"))

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        return await use(EventStream(request, {"X-Own": "1"}, "call", tasks, metrics or Metrics()))

    runner = web.ServerRunner(Server(handler, Bounds(), lambda reason: None), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await tasks.aclose()
        await runner.cleanup()


async def test_events_arrive_in_order_and_the_last_one_ends_the_stream() -> None:
    async def use(stream: EventStream) -> web.StreamResponse:
        begun = [stream.started]
        stream.send(b'{"n":1}')
        begun.append(stream.started)
        assert begun == [False, True]
        stream.send(b'{"n":2}')
        return await stream.finish(b'{"n":3}')

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        reply = await connection.reply()
        assert [event["n"] for event in reply.events] == [1, 2, 3]
        assert reply.body.startswith(b"event: message\ndata: ")
        assert reply.headers["content-type"] == "text/event-stream"
        assert "no-cache" in reply.headers["cache-control"]
        assert "no-store" in reply.headers["cache-control"]
        assert reply.headers["x-accel-buffering"] == "no"
        assert (reply.headers["x-own"], reply.headers["server"]) == ("1", "mcp-gateway")
        await connection.send(GET)
        assert (await connection.reply()).status == 200


async def test_a_stream_may_end_without_any_event() -> None:
    async def use(stream: EventStream) -> web.StreamResponse:
        return await stream.finish(None)

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        assert (await connection.reply()).body == b""


async def test_headers_are_there_before_the_first_event_and_silence_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.02)

    async def use(stream: EventStream) -> web.StreamResponse:
        stream.start()
        return await stream.wait_ended()

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        assert (await connection.head())[0] == 200
        async with asyncio.timeout(5):
            chunks = connection.chunks()
            assert [await anext(chunks) for _ in range(3)] == [b": keep-alive\n\n"] * 3


async def test_a_response_that_is_late_begins_and_one_that_is_not_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.02)
    begun = asyncio.Event()
    monkeypatch.setattr(EventStream, "start", lambda stream: begun.set())
    tasks = TaskSet(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    stream = EventStream(cast("web.BaseRequest", object()), {}, "call", tasks, Metrics())
    with stream.begun_when_late():
        await asyncio.sleep(0)
    await asyncio.sleep(0.04)
    assert not begun.is_set()
    with stream.begun_when_late():
        async with asyncio.timeout(5):
            await begun.wait()


async def test_heartbeats_are_sent_more_often_than_clients_give_up() -> None:
    assert streams.HEARTBEAT < 10


async def test_a_stream_that_is_no_longer_allowed_ends_with_the_next_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.02)

    async def use(stream: EventStream) -> web.StreamResponse:
        stream.still_allowed = lambda: False
        stream.start()
        return await stream.wait_ended()

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        assert (await connection.reply()).body == b""


async def test_a_message_that_may_be_lost_is_where_there_is_no_room_and_the_client_stays() -> None:
    async def use(stream: EventStream) -> web.StreamResponse:
        stream.offer(json.dumps("x" * QUEUE_BYTES).encode())
        for number in range(30):
            stream.offer(json.dumps(f"{number:05}" * 2_000).encode())
        return await stream.finish(b'"end"')

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        events: list[str] = (await connection.reply()).events  # type: ignore[assignment]  # reason: texts, here.
    numbers = [int(event[:5]) for event in events[:-1]]
    assert numbers == list(range(len(numbers)))
    assert 20 < len(numbers) < 30
    assert events[-1] == "end"


async def test_a_client_whose_queue_is_full_is_dropped() -> None:
    metrics = Metrics()

    async def use(stream: EventStream) -> web.StreamResponse:
        event = json.dumps("x" * 10_000).encode()
        for _ in range(QUEUE_BYTES // 10_000 + 2):
            stream.send(event)
        assert not stream.open
        stream.send(event)
        return await stream.finish(b"{}")

    async with streaming(use, metrics) as port, connect(port) as connection:
        await connection.send(GET)
        assert await connection.closed()
    assert 'streams_closed_total{kind="call",reason="slow_client"} 1.0' in metrics.render("")[0].decode()


async def test_a_large_last_event_is_no_reason_to_drop_anyone() -> None:
    async def use(stream: EventStream) -> web.StreamResponse:
        stream.send(b"1")
        return await stream.finish(json.dumps("x" * (4 * QUEUE_BYTES)).encode())

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        body = (await connection.reply()).body
        assert len(body) > 4 * QUEUE_BYTES


async def test_ending_sends_what_is_queued_first() -> None:
    async def use(stream: EventStream) -> web.StreamResponse:
        stream.send(b'{"n":1}')
        stream.end()
        stream.send(b'{"n":2}')
        return await stream.wait_ended()

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        assert (await connection.reply()).events == [{"n": 1}]


@pytest.mark.parametrize("end", [EventStream.end, EventStream.abandon])
async def test_a_stream_that_never_began_is_over_at_once(end: Callable[[EventStream], None]) -> None:
    async def use(stream: EventStream) -> web.StreamResponse:
        end(stream)
        stream.start()
        assert not stream.started
        return await stream.wait_ended()

    async with streaming(use) as port, connect(port) as connection:
        await connection.send(GET)
        assert (await connection.reply()).status == 200


async def test_the_gauge_counts_open_streams() -> None:
    metrics = Metrics()
    started, release = asyncio.Event(), asyncio.Event()

    async def use(stream: EventStream) -> web.StreamResponse:
        stream.send(b'{"n":1}')
        started.set()
        await release.wait()
        return await stream.finish(None)

    def gauge() -> str:
        lines = metrics.render("")[0].decode().splitlines()
        return next(line for line in lines if line.startswith('mcp_gateway_streams{kind="call"}')).split()[-1]

    async with streaming(use, metrics) as port, connect(port) as connection:
        await connection.send(GET)
        await connection.head()
        assert gauge() == "1.0"
        release.set()
        assert [message async for message in connection.messages()] == [{"n": 1}]
        async with asyncio.timeout(5):
            while gauge() != "0.0":
                await asyncio.sleep(0)


def test_a_principal_has_so_many_streams_and_no_more() -> None:
    cap = StreamCap(2)
    assert [cap.acquire("a") for _ in range(3)] == [True, True, False]
    assert cap.acquire("b")
    cap.release("a")
    assert cap.acquire("a")
