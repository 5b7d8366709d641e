"""A scripted HTTP server on raw asyncio: a test says byte by byte what is answered, and sees what arrived.

``HttpServer`` calls ``script(exchange)`` for each request; helpers below write the usual answers. Keep-alive works
as long as the script writes complete answers. ``McpServer`` is a small MCP server on top, of either era.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Head: TypeAlias = dict[str, str]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
SESSION = "mcp-session-id"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@dataclass
class Exchange:
    """One request that arrived, and the way to answer it. Header names are lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    connection: int
    closed: bool = False

    @property
    def message(self) -> Json:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, status: int, body: bytes = b"", kind: str = "", head: Head | None = None) -> None:
        """Write a complete answer; ``head`` are more headers."""
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}"]
        if kind:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name}: {value}" for name, value in (head or {}).items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def json(self, value: object, status: int = 200, head: Head | None = None) -> None:
        await self.answer(status, json.dumps(value).encode(), "application/json", head)

    async def result(self, result: Json, head: Head | None = None) -> None:
        await self.json({"jsonrpc": "2.0", "id": self.message["id"], "result": result}, head=head)

    async def error(self, code: int, message: str = "no", status: int = 200, data: object = None) -> None:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        await self.json({"jsonrpc": "2.0", "id": self.message.get("id"), "error": error}, status)

    async def start_stream(self, head: Head | None = None) -> None:
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in (head or {}).items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, value: object, **fields: object) -> None:
        head = "".join(f"{name}: {text}\n" for name, text in fields.items())
        await self.chunk(f"{head}data: {json.dumps(value)}\n\n".encode())

    async def event_result(self, result: Json) -> None:
        await self.event({"jsonrpc": "2.0", "id": self.message["id"], "result": result})

    async def end_stream(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def until_gone(self) -> None:
        """Wait until the peer has closed the connection."""
        while await self.reader.read(65536):
            pass

    def close(self) -> None:
        self.closed = True
        self.writer.close()


Script: TypeAlias = Callable[[Exchange], Awaitable[None]]


@dataclass
class HttpServer:
    """What arrived so far; made by ``serving``."""

    script: Script
    scheme: str = "http"
    port: int = 0
    connections: int = 0
    seen: list[Exchange] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while (exchange := await _read(reader, writer, number)) is not None:
                self.seen.append(exchange)
                await self.script(exchange)
                if exchange.closed:
                    return
        except ConnectionError:
            return
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> Exchange | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Exchange(method, target, headers, body, reader, writer, number)


@asynccontextmanager
async def serving(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[HttpServer]:
    """Serve on a free loopback port until the block is left; open connections are cut then."""
    server = HttpServer(script, "https" if context is not None else "http")
    running: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await server.serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            running.discard(task)

    listener = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context, limit=2**24)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        tasks = list(running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await listener.wait_closed()


@dataclass
class McpServer:
    """A small MCP server over HTTP: use its ``script`` with ``serving``.

    ``era`` is ``modern`` or ``legacy``; legacy gives sessions out and forgets those in ``ended``. ``streams`` makes
    it answer calls with a stream of events. ``calls`` holds the arguments of every tools/call that arrived. ``asks``
    are methods that a legacy server asks its client for on the stream of each call; the answers are its result.
    """

    era: str = "modern"
    name: str = "scripted"
    streams: bool = False
    asks: tuple[str, ...] = ()
    declared: list[Json] = field(default_factory=list)
    extra: int = 0
    sessions: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    calls: list[Json] = field(default_factory=list)
    listeners: list[tuple[Exchange, object]] = field(default_factory=list)
    responses: list[Json] = field(default_factory=list)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def script(self, exchange: Exchange) -> None:
        if self.era == "legacy" and not await self._admitted(exchange):
            return
        match exchange.method:
            case "POST":
                await self._post(exchange)
            case "GET" if self.era == "legacy":
                await exchange.start_stream()
                self.listeners.append((exchange, None))
                await exchange.until_gone()
                exchange.close()
            case "DELETE" if self.era == "legacy":
                self.ended.add(exchange.headers[SESSION])
                await exchange.answer(204)
            case _:
                await exchange.answer(405)

    async def _admitted(self, exchange: Exchange) -> bool:
        if exchange.method == "POST" and exchange.message.get("method") in ("initialize", "server/discover"):
            return True
        session = exchange.headers.get(SESSION)
        if session in self.sessions and session not in self.ended:
            return True
        status = 400 if session is None else 404
        await exchange.json(
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}, status
        )
        return False

    async def _post(self, exchange: Exchange) -> None:
        message = exchange.message
        method, params = message.get("method"), message.get("params") or {}
        if method is None or "id" not in message:
            self.responses += [message] if method is None else []
            self.answered.set()
            await exchange.answer(202)
            return
        modern = self.era == "modern"
        cache: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if modern else {}
        info = {"name": self.name, "version": "1.0"}
        capabilities = {"tools": {"listChanged": True}}
        match method:
            case "initialize" if not modern:
                self.declared.append(params.get("capabilities", {}))
                self.sessions.append(f"session-{len(self.sessions) + 1}")
                hello: Json = {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info}
                await exchange.result(hello, {"Mcp-Session-Id": self.sessions[-1]})
            case "server/discover" if modern:
                hello = {**cache, "_meta": {"io.modelcontextprotocol/serverInfo": info}, "capabilities": capabilities}
                await exchange.result({**hello, "supportedVersions": [MODERN]})
            case "ping" if not modern:
                await exchange.result({})
            case "tools/list":
                await exchange.result({**cache, "tools": self._tools()})
            case "tools/call":
                await self._call(exchange, params)
            case "subscriptions/listen" if modern:
                await self._listen(exchange, params)
            case _:
                await exchange.error(-32601, "Method not found", 404 if modern else 200)

    def _tools(self) -> list[Json]:
        names = ["echo", *(f"extra{number}" for number in range(self.extra))]
        return [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in names]

    async def _call(self, exchange: Exchange, params: Json) -> None:
        arguments = params.get("arguments") or {}
        self.calls.append(arguments)
        done: Json = {"resultType": "complete"} if self.era == "modern" else {}
        result = {**done, "content": [{"type": "text", "text": json.dumps(arguments)}], "structuredContent": arguments}
        if self.asks:
            await self._ask(exchange, arguments)
            return
        if not self.streams:
            await exchange.result(result)
            return
        await exchange.start_stream()
        token = (params.get("_meta") or {}).get("progressToken")
        if token is not None:
            step = {"progressToken": token, "progress": 1}
            await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": step})
        await exchange.event_result(result)
        await exchange.end_stream()

    async def _ask(self, exchange: Exchange, arguments: Json) -> None:
        await exchange.start_stream()
        given: list[Json] = []
        for number, method in enumerate(self.asks):
            identifier = f"{len(self.calls)}-{number}"
            question = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": arguments}
            await exchange.event(question)
            while not (found := [each for each in self.responses if each["id"] == identifier]):
                self.answered.clear()
                await self.answered.wait()
            given += found
        await exchange.event_result({"content": [], "structuredContent": {"given": given, "of": arguments}})
        await exchange.end_stream()

    async def _listen(self, exchange: Exchange, params: Json) -> None:
        identifier = exchange.message["id"]
        await exchange.start_stream()
        agreed = {key: True for key in params["notifications"] if key == "toolsListChanged"}
        said = {"_meta": {SUBSCRIPTION: identifier}, "notifications": agreed}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": said})
        self.listeners.append((exchange, identifier))
        await exchange.until_gone()
        exchange.close()

    async def change(self) -> None:
        """Add a tool and tell everybody who listens."""
        self.extra += 1
        for exchange, identifier in self.listeners:
            params = {} if identifier is None else {"_meta": {SUBSCRIPTION: identifier}}
            if not exchange.writer.is_closing():
                await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params})
