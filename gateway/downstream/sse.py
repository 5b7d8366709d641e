"""The HTTP+SSE transport of 2024-11-05: one stream for all that the server says, a POST for each message to it.

The stream's first event names where to POST; every answer comes on the stream, matched by its id as on a pipe.
Knows ids, bodies and the stream, not MCP. A message is never sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import aiohttp

from gateway.config.servers import Server
from gateway.downstream.client import HttpClient, failure
from gateway.downstream.meters import Meters
from gateway.downstream.remote import EVENTS, GET, Remote
from gateway.downstream.stream import EventStream
from gateway.downstream.transport import Departure, Inbox, Reply, Request
from gateway.downstream.waitlist import Waiting, Waitlist
from gateway.errors import DownstreamError, Reason
from gateway.protocol import jsonrpc
from gateway.protocol.jsonrpc import Invalid
from gateway.protocol.rawjson import JsonError

_ENDPOINT: Final = "endpoint"


class SseTransport(Remote):
    """One server's stream."""

    kind = "sse"

    def __init__(self, name: str, server: Server, meters: Meters | None = None, generation: int = 1) -> None:
        super().__init__(name, server, meters, generation)
        self._waitlist = Waitlist(self.owed, lambda body: self._aside(body, {}))

    async def open(self, inbox: Inbox) -> None:
        """Open the stream and wait until it names where messages go; the caller bounds the time.

        Raises:
            DownstreamError: no stream, or it names no place at its own origin; nothing is left behind.
        """
        client = self._prepare()
        try:
            response = await client.send("GET", GET, None, Departure())
            events = await self._greeted(client, response)
        except BaseException:
            # Cancelled too: a start that is given up leaves no connection behind.
            await self.aclose()
            raise
        self._inbox = inbox
        self._waitlist.begin(inbox)
        self._tasks.start(self._read(response, events), f"stream-{self._name}")

    async def _greeted(self, client: HttpClient, response: aiohttp.ClientResponse) -> EventStream:
        """Read up to the ``endpoint`` event; messages cannot come before it."""
        if response.status != 200:
            response.close()
            raise DownstreamError(Reason.UNAVAILABLE, f"the server answered GET with HTTP status {response.status}")
        if response.content_type != EVENTS:
            response.close()
            raise DownstreamError(Reason.PROTOCOL_ERROR, "the server answered GET with something else than a stream")
        events = EventStream(response, self._server.max_result)
        try:
            while (batch := await events.read_all()) is not None:
                for event in batch:
                    if event.name == _ENDPOINT:
                        client.post_to(event.data.decode("utf-8", "replace").strip())
                        return events
        except aiohttp.ClientError as error:
            raise failure(error, False) from None
        raise DownstreamError(Reason.UNAVAILABLE, "the server closed its stream before it named an endpoint")

    async def request(self, request: Request) -> Reply:
        """POST a request and wait for its answer on the stream.

        A POST whose status is no success comes back as a reply with neither result nor error.

        Raises:
            DownstreamError: ``unavailable``, ``timeout``, ``too_large`` or ``protocol_error``.
        """
        self._live()
        post: asyncio.Task[None] | None = None

        async def send(body: bytes, waiting: Waiting) -> None:
            nonlocal post
            # Beside the wait, since servers may answer before they accept.
            post = self._tasks.start(self._carry(body, request.headers, waiting), f"post-{self._name}")

        try:
            return await self._waitlist.request(request, send)
        finally:
            if post is not None:
                post.cancel()

    async def _carry(self, body: bytes, headers: Mapping[str, str], waiting: Waiting) -> None:
        """POST one request; what goes wrong is its answer."""
        try:
            status, head = await self._post(body, headers, waiting.departure)
        except DownstreamError as error:
            waiting.settle(error)
        else:
            if status >= 300:
                waiting.settle(Reply(None, None, status, head))

    async def aclose(self) -> None:
        """Close the stream, which ends the session; calls in flight fail. Safe to call twice."""
        self._waitlist.fail(DownstreamError(Reason.UNAVAILABLE, "the connection was closed"))
        await super().aclose()

    async def _read(self, response: aiohttp.ClientResponse, events: EventStream) -> None:
        """Read the stream to its end, which is the end of this transport."""
        end = DownstreamError(Reason.UNAVAILABLE, "the server closed its stream")
        try:
            while (batch := await events.read()) is not None:
                for part in (part for data in batch for part in jsonrpc.parts(data)):
                    self._take(part)
        except aiohttp.ClientError as error:
            end = failure(error, True)
        except DownstreamError as error:
            end = error
        finally:
            response.close()
        self._inbox = None
        client, self._client = self._client, None
        self._waitlist.finish(end)
        if client is not None:
            await client.aclose()

    def _take(self, data: bytes) -> None:
        try:
            message = jsonrpc.split(data)
        except Invalid as error:
            self._waitlist.garbled("not_jsonrpc", data, error.id)
        except JsonError:
            self._waitlist.garbled("bad_json", data, jsonrpc.claimed_id(data))
        else:
            self._waitlist.take(message)
