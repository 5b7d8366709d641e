from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gateway.downstream import stream as module
from gateway.downstream.stream import EventStream, drain, read_body
from gateway.errors import DownstreamError, Reason
from tests.kit.http_server import Exchange, Script, serving


@asynccontextmanager
async def response_of(script: Script) -> AsyncIterator[aiohttp.ClientResponse]:
    async with (
        serving(script) as server,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(server.url) as response,
    ):
        yield response


def streaming(*chunks: bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        for chunk in chunks:
            await exchange.chunk(chunk)
        await exchange.end_stream()

    return script


async def everything(stream: EventStream) -> list[bytes]:
    found: list[bytes] = []
    while (batch := await stream.read()) is not None:
        found += batch
    return found


async def test_a_body_up_to_the_limit_is_read() -> None:
    async with response_of(lambda exchange: exchange.json("x" * 98)) as response:
        assert await read_body(response, 100) == b'"' + b"x" * 98 + b'"'


async def test_a_longer_body_is_refused_by_its_announced_length() -> None:
    """S123"""
    async with response_of(
        lambda exchange: exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n")
    ) as response:
        with pytest.raises(DownstreamError, match="over 100 bytes") as caught:
            await read_body(response, 100)
        assert caught.value.reason is Reason.TOO_LARGE


async def test_a_longer_body_is_refused_as_it_comes() -> None:
    async with response_of(streaming(*[b"x" * 30] * 4)) as response:
        with pytest.raises(DownstreamError, match="over 100 bytes"):
            await read_body(response, 100)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip"])
async def test_a_compressed_answer_is_refused_unread(coding: str) -> None:
    """S124: nothing was asked for, so nothing is inflated."""
    async with response_of(
        lambda exchange: exchange.answer(200, b"\x1f\x8b", head={"Content-Encoding": coding})
    ) as answer:
        with pytest.raises(DownstreamError) as caught:
            await read_body(answer, 100)
        assert caught.value.reason is Reason.PROTOCOL_ERROR
        with pytest.raises(DownstreamError):
            EventStream(answer, 100)


async def test_messages_come_out_whatever_else_is_on_the_stream() -> None:
    """G017, G018: several data lines, no event name, other names, comments, the priming event without data."""
    chunks = [b"id: 1\ndata:\n\n", b": comment\n\n", b'data: {"a":\ndata: 1}\n\n', b"event: ping\ndata: x\n\n"]
    chunks += [b"event: message\ndata: tw", b"o\n\nretry: 500\n\n", b"data: cut"]
    async with response_of(streaming(*chunks)) as response:
        stream = EventStream(response, 100)
        assert await everything(stream) == [b'{"a":\n1}', b"two"]
        assert (stream.last_event_id, stream.retry_ms) == ("1", 500)


async def test_a_long_event_is_read_up_to_the_limit() -> None:
    """G022, S123: aiohttp's own line reader stops at 512 KiB."""
    async with response_of(streaming(b"data: " + b"x" * 2**20 + b"\n\n")) as response:
        assert await everything(EventStream(response, 2**21)) == [b"x" * 2**20]


async def test_an_event_over_the_limit_ends_the_stream() -> None:
    async with response_of(streaming(*[b"x" * 60] * 4)) as response:
        with pytest.raises(DownstreamError) as caught:
            await everything(EventStream(response, 100))
        assert caught.value.reason is Reason.TOO_LARGE


LINES = b"data: %b\n\n" % (b"x" * 92) * 500
"""Events of 100 bytes, so that one read brings about a thousand."""


async def test_a_flood_of_events_ends_the_stream() -> None:
    """S123"""
    async with response_of(streaming(*[LINES] * 21)) as response:
        with pytest.raises(DownstreamError, match="floods") as caught:
            await everything(EventStream(response, 100, lambda: 5.0))
        assert caught.value.reason is Reason.PROTOCOL_ERROR


async def test_as_many_events_over_a_longer_time_are_fine() -> None:
    seconds = iter(range(1000))
    async with response_of(streaming(*[LINES] * 60)) as response:
        assert len(await everything(EventStream(response, 100, lambda: float(next(seconds))))) == 30_000


async def test_events_of_any_name_can_be_read() -> None:
    script = streaming(b"event: endpoint\ndata: /x\n\n", b"data: 1\n\nevent: ping\ndata:\n\n")
    async with response_of(script) as response:
        stream, found = EventStream(response, 100), list[tuple[str, bytes]]()
        while (batch := await stream.read_all()) is not None:
            found += [(event.name, event.data) for event in batch]
    assert found == [("endpoint", b"/x"), ("message", b"1"), ("ping", b"")]


async def test_a_stream_that_ends_shortly_is_left_to_and_another_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER", 0.05)

    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.until_gone()
        exchange.close()

    async with response_of(streaming()) as response:
        await drain(response)
        assert response.content.at_eof()
    async with response_of(endless) as response:
        await drain(response)
        assert not response.content.at_eof()
        assert response.closed
