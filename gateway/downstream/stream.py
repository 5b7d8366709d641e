"""Bodies of HTTP answers, read under bounds: a whole one, or server-sent events as they come.

Knows bytes and limits; knows no JSON-RPC and sends nothing. Only identity coding is ever asked for, and anything
else is refused unread, so no answer can be larger than what travelled (S123, S124).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import aiohttp

from gateway.errors import DownstreamError, Reason
from gateway.protocol import sse

EVENTS_PER_SECOND: Final = 10_000
"""More events within one second end a stream."""

LINGER: Final = 0.25
"""Seconds a stream may take to end after its answer, so that its connection can be used again."""


def check_coding(response: aiohttp.ClientResponse) -> None:
    """Refuse a body that is compressed although nobody asked for it.

    Raises:
        DownstreamError: it is.
    """
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", ""):
        raise DownstreamError(Reason.PROTOCOL_ERROR, "the server compressed its answer unasked", may_have_run=True)


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read a whole body of at most ``limit`` bytes.

    Raises:
        DownstreamError: it is longer, or compressed.
        aiohttp.ClientError: the connection broke.
    """
    check_coding(response)
    if response.content_length is not None and response.content_length > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


async def drain(response: aiohttp.ClientResponse) -> None:
    """Let a stream end by itself, shortly; closed otherwise."""
    try:
        async with asyncio.timeout(LINGER):
            await response.content.readany()
    except (aiohttp.ClientError, TimeoutError):
        pass
    finally:
        if not response.content.at_eof():
            response.close()


class EventStream:
    """The events of one response. ``limit`` bounds the bytes of each; ``clock`` counts seconds."""

    def __init__(
        self, response: aiohttp.ClientResponse, limit: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        check_coding(response)
        self._content = response.content
        self._limit = limit
        self._parser = sse.Parser(limit)
        self._clock = clock
        self._second = 0
        self._count = 0

    @property
    def last_event_id(self) -> str:
        """What to resume after; empty where the server gave nothing."""
        return self._parser.last_event_id

    @property
    def retry_ms(self) -> int | None:
        """How long the server wants us to wait before resuming."""
        return self._parser.retry_ms

    async def read(self) -> list[bytes] | None:
        """Wait for the next messages; other events, comments and empty data are left out. None at the end.

        Raises:
            DownstreamError: an event over the limit, or a flood of events.
            aiohttp.ClientError: the connection broke.
        """
        events = await self.read_all()
        if events is None:
            return None
        return [event.data for event in events if event.name == "message" and event.data]

    async def read_all(self) -> list[sse.Event] | None:
        """Wait for the next events of any name. None at the end; raises what ``read`` does."""
        chunk = await self._content.readany()
        if not chunk:
            return None
        try:
            events = self._parser.feed(chunk)
        except sse.TooLarge:
            raise _too_large(self._limit) from None
        self._pace(len(events))
        return events

    def _pace(self, count: int) -> None:
        second = int(self._clock())
        self._count = count + (self._count if second == self._second else 0)
        self._second = second
        if self._count > EVENTS_PER_SECOND:
            raise DownstreamError(Reason.PROTOCOL_ERROR, "the server floods its stream with events", may_have_run=True)


def _too_large(limit: int) -> DownstreamError:
    return DownstreamError(Reason.TOO_LARGE, f"the server's answer is over {limit} bytes", may_have_run=True)
