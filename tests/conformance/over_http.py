"""The reference server over streamable HTTP: headers, sessions, streams and their resumption.

``python -m tests.conformance.over_http ERA PORT``, where ERA is dual, modern or legacy; at ``127.0.0.1:PORT/mcp``.
Written from the specification, so that what the gateway and this server agree on is the protocol and no shared library.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.conformance import contents, eras
from tests.conformance.contents import Json
from tests.conformance.deeds import Fault, Tell, World, no_break
from tests.conformance.eras import LEGACY, Line, Session

RETRY_MS: Final = 50
SESSION: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"
_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_STREAM: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}


def event(message: Json | None, identifier: str | None = None) -> bytes:
    """Write one event; without a message it is the one that primes a stream for resumption."""
    head = f"id: {identifier}\n" if identifier else ""
    if message is None:
        return f"{head}retry: {RETRY_MS}\ndata: \n\n".encode()
    return f"{head}data: {json.dumps(message)}\n\n".encode()


@dataclass(slots=True)
class Stream:
    """The events that answer one POST of the legacy era; whoever reads them may come back for the rest."""

    name: str
    events: list[bytes] = field(default_factory=list)
    done: bool = False
    breaks: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: Json | None, *, last: bool = False) -> None:
        """Add an event."""
        self.events.append(event(message, f"{self.name}-{len(self.events)}"))
        self.done = last
        self._news.set()

    def end(self) -> None:
        """End without an answer."""
        self.done = True
        self._news.set()

    async def break_off(self) -> None:
        """Send whoever reads now away."""
        self.breaks += 1
        self._news.set()

    async def follow(self, start: int) -> AsyncIterator[bytes]:
        """Yield what there is from ``start`` on and what comes, until the end or a break."""
        breaks = self.breaks
        while True:
            self._news.clear()
            for piece in self.events[start:]:
                yield piece
                start += 1
            if self.done or self.breaks != breaks:
                return
            await self._news.wait()


@dataclass(slots=True)
class Client:
    """A legacy client's session."""

    session: Session = field(default_factory=Session)
    streams: dict[str, Stream] = field(default_factory=dict)
    asked: dict[str, asyncio.Future[Json]] = field(default_factory=dict)
    tasks: dict[object, asyncio.Task[None]] = field(default_factory=dict)


def _decoded(value: str) -> str:
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Fault(-32020, "A header is no base64", status=400) from None


def _same(request: web.Request, header: str, wanted: str | None) -> None:
    found = request.headers.get(header)
    if (None if found is None else _decoded(found.strip())) != wanted:
        raise Fault(-32020, f"The header {header} does not match the body", status=400)


def check_headers(request: web.Request, tools: list[Json], method: str, params: Json) -> None:
    """Hold the standard headers and those of annotated arguments against the body (2026-07-28 Streamable HTTP)."""
    meta = params.get("_meta") or {}
    if isinstance(meta.get(f"{eras.META}protocolVersion"), str):
        _same(request, VERSION, meta[f"{eras.META}protocolVersion"])
    _same(request, "Mcp-Method", method)
    if method in _NAMED:
        _same(request, "Mcp-Name", str(params.get(_NAMED[method])))
    if method != "tools/call":
        return
    for tool in tools:
        if tool["name"] == params.get("name"):
            for argument, schema in tool["inputSchema"]["properties"].items():
                if header := schema.get(contents.FROM_HEADER):
                    value = (params.get("arguments") or {}).get(argument)
                    _same(request, f"Mcp-Param-{header}", None if value is None else str(value))


class Front:
    """The endpoint."""

    def __init__(self, world: World, era: str) -> None:
        self.world = world
        self.era = era
        self._clients: dict[str, Client] = {}

    def app(self) -> web.Application:
        """Return the application that serves it at ``/mcp``."""
        app = web.Application(middlewares=[local_only])
        app.router.add_post("/mcp", self.post)
        app.router.add_get("/mcp", self.get)
        app.router.add_delete("/mcp", self.delete)
        return app

    def _is_legacy(self, request: web.Request, message: Json) -> bool:
        version = request.headers.get(VERSION)
        old = version in LEGACY or (version is None and (SESSION in request.headers or _is(message, "initialize")))
        return self.era == "legacy" or (self.era == "dual" and old)

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Take one message."""
        message: Json = await request.json()
        if self._is_legacy(request, message):
            return await self._legacy(request, message)
        if "id" not in message:
            return web.Response(status=202)
        try:
            return await self._modern(request, message)
        except Fault as fault:
            return web.json_response(eras.answered(message["id"], fault), status=fault.status)

    async def _modern(self, request: web.Request, message: Json) -> web.StreamResponse:
        params = message.get("params") or {}
        method: str = message["method"]
        eras.checked_meta(params if VERSION not in request.headers else _of_version(params, request))
        check_headers(request, self.world.tools(), method, params)
        eras.checked_meta(params)
        if method == eras.LISTEN:
            return await self._listen(request, message["id"], params.get("notifications") or {})
        response: web.StreamResponse | None = None

        async def notify(kind: str, said: Json) -> None:
            nonlocal response
            if response is None:
                response = await _started(request)
            await response.write(event({"jsonrpc": "2.0", "method": kind, "params": said}))

        try:
            outcome: Json | Fault = await eras.modern(self.world, method, params, Line(notify, headers=request.headers))
        except Fault as fault:
            outcome = fault
        answer = eras.answered(message["id"], outcome)
        if response is None:
            return web.json_response(answer, status=outcome.status if isinstance(outcome, Fault) else 200)
        await response.write(event(answer))
        return response

    async def _listen(self, request: web.Request, identifier: object, wishes: Json) -> web.StreamResponse:
        response = await _started(request)
        await response.write(event(eras.acknowledged(identifier, wishes)))

        async def tell(message: Json) -> None:
            if eras.wished(wishes, message):
                await response.write(event(eras.subscribed(identifier, message)))

        await self._until_closed(tell)
        return response

    async def _until_closed(self, tell: Tell) -> None:
        """Keep a listener for as long as its request lasts: it is cancelled when the client goes."""
        self.world.listeners.append(tell)
        try:
            await asyncio.Event().wait()
        finally:
            self.world.listeners.remove(tell)

    async def _legacy(self, request: web.Request, message: Json) -> web.StreamResponse:
        if _is(message, "initialize"):
            client, head = Client(), {SESSION: secrets.token_hex(16)}
            self._clients[head[SESSION]] = client
            result = await eras.legacy(self.world, client.session, message, Line(_silent))
            return web.json_response(eras.answered(message["id"], result), headers=head)
        client = self._client(request)
        if "method" not in message:
            if (waiting := client.asked.pop(str(message.get("id")), None)) is not None:
                waiting.set_result(message)
            return web.Response(status=202)
        if "id" not in message:
            if _is(message, "notifications/cancelled"):
                going = client.tasks.get((message.get("params") or {}).get("requestId"))
                if going is not None:
                    going.cancel()
            return web.Response(status=202)
        return await self._streamed(request, client, message)

    async def _streamed(self, request: web.Request, client: Client, message: Json) -> web.StreamResponse:
        """Answer on a stream that outlives the connection (2025-11-25 Streamable HTTP, resumability)."""
        stream = Stream(secrets.token_hex(4))
        client.streams[stream.name] = stream
        if request.headers.get(VERSION) == LEGACY[0]:
            stream.put(None)
        line = self._line(request, client, stream, message)
        task = asyncio.get_running_loop().create_task(self._carry_out(client, stream, message, line))
        client.tasks[message["id"]] = task
        task.add_done_callback(lambda _: client.tasks.pop(message["id"], None))
        return await _played(request, stream, 0)

    def _line(self, request: web.Request, client: Client, stream: Stream, message: Json) -> Line:
        async def notify(method: str, params: Json) -> None:
            stream.put({"jsonrpc": "2.0", "method": method, "params": params})

        async def ask(method: str, params: Json) -> Json:
            identifier = f"{stream.name}-ask-{len(stream.events)}"
            waiting = client.asked[identifier] = asyncio.get_running_loop().create_future()
            stream.put({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
            return eras.result_of(await waiting)

        async def afterword(result: Json) -> None:
            # The stream of the call may be gone; what is late comes where there is one.
            await self.world.tell(eras.answered(message["id"], result))

        resumable = request.headers.get(VERSION) == LEGACY[0]
        return Line(notify, ask, stream.break_off if resumable else no_break, afterword, request.headers)

    async def _carry_out(self, client: Client, stream: Stream, message: Json, line: Line) -> None:
        try:
            outcome: Json | Fault = await eras.legacy(self.world, client.session, message, line)
        except Fault as fault:
            outcome = fault
        except asyncio.CancelledError:
            stream.end()
            raise
        stream.put(eras.answered(message["id"], outcome), last=True)

    def _client(self, request: web.Request) -> Client:
        identifier = request.headers.get(SESSION)
        if identifier is None:
            raise web.HTTPBadRequest(text="A session is needed.")
        if identifier not in self._clients:
            raise web.HTTPNotFound(text="No such session.")
        return self._clients[identifier]

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Open the stream of changes, or go on with a broken one."""
        if self.era == "modern":
            raise web.HTTPMethodNotAllowed("GET", ["POST"])
        client = self._client(request)
        if last := request.headers.get("Last-Event-ID"):
            name, _, number = last.rpartition("-")
            if name not in client.streams:
                raise web.HTTPNotFound(text="No such stream.")
            return await _played(request, client.streams[name], int(number) + 1)
        response = await _started(request)

        async def tell(message: Json) -> None:
            if eras.watched(client.session, message):
                await response.write(event(message))

        await self._until_closed(tell)
        return response

    async def delete(self, request: web.Request) -> web.Response:
        """End a session."""
        for task in tuple(self._client(request).tasks.values()):
            task.cancel()
        del self._clients[request.headers[SESSION]]
        return web.Response(status=204)


def _is(message: Json, method: str) -> bool:
    return message.get("method") == method


def _of_version(params: Json, request: web.Request) -> Json:
    """Return params whose version is one that is spoken if header and body differ: that is another error."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or meta.get(f"{eras.META}protocolVersion") == request.headers[VERSION]:
        return params
    if not isinstance(meta.get(f"{eras.META}protocolVersion"), str):
        return params
    return {**params, "_meta": {**meta, f"{eras.META}protocolVersion": eras.MODERN}}


async def _silent(method: str, params: Json) -> None:
    """Plain answers have no room for notifications."""


async def _started(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers=_STREAM)
    await response.prepare(request)
    return response


async def _played(request: web.Request, stream: Stream, start: int) -> web.StreamResponse:
    response = await _started(request)
    async for piece in stream.follow(start):
        await response.write(piece)
    return response


@web.middleware
async def local_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a rebound name sends: this server is for its own machine."""
    origin = request.headers.get("Origin", "")
    hosts = [request.headers.get("Host", ""), *([origin.partition("://")[2]] if origin else [])]
    if any(_name(host) not in _LOCAL for host in hosts):
        raise web.HTTPForbidden
    return await handler(request)


def _name(host: str) -> str:
    return host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host


async def serve(world: World, era: str, port: int) -> None:
    """Serve on loopback until cancelled."""
    runner = web.AppRunner(Front(world, era).app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(World(), sys.argv[1], int(sys.argv[2])))
