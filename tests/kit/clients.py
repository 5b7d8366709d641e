"""HTTP and MCP clients that send exactly the bytes they are told to, over one socket each.

For what no library would send; ``wire`` has the well-behaved ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.protocol import sse
from tests.kit.wire import LEGACY, MODERN, header_value, modern_meta

Json: TypeAlias = dict[str, Any]
Headers: TypeAlias = Sequence[tuple[str, str]]

WAIT = 20.0
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole HTTP response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Json:
        """The JSON-RPC message of a plain answer, or the last one of a stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.events[-1]
        message: Json = json.loads(self.body)
        return message

    @property
    def events(self) -> list[Json]:
        """Every message of a stream."""
        return [json.loads(event.data) for event in sse.Parser(2**26).feed(self.body) if event.data]

    @property
    def result(self) -> Json:
        """The result; fails for an error."""
        assert "result" in self.message, self.message
        result: Json = self.message["result"]
        return result

    @property
    def code(self) -> int:
        """The error's code; fails for a result."""
        assert "error" in self.message, self.message
        return int(self.message["error"]["code"])

    @property
    def refusal(self) -> Json:
        """What the gateway says of a tool call it stopped."""
        refusal: Json = self.result["_meta"]["dev.mcp-gateway/refusal"]
        return refusal


def post(body: bytes | object, headers: Headers = (), path: str = "/mcp", host: str = "localhost") -> bytes:
    """Write a POST; ``headers`` go in as they are, also twice."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [("Host", host), ("Content-Length", str(len(data))), *headers]
    if not any(name.lower() == "content-type" for name, _ in headers):
        head.append(("Content-Type", "application/json"))
    return raw(f"POST {path} HTTP/1.1", head) + data


def raw(first: str, headers: Headers) -> bytes:
    """Write a request line and headers, in Latin-1."""
    return "".join(f"{line}\r\n" for line in (first, *(f"{key}: {value}" for key, value in headers), "")).encode(
        "latin-1"
    )


class Connection:
    """One socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes; a peer that has closed is found out by reading."""
        self.writer.write(data)
        try:
            await self.writer.drain()
        except ConnectionError:
            return

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read status line and headers.

        Raises:
            EOFError: the connection was closed instead.
        """
        async with asyncio.timeout(WAIT):
            try:
                block = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise EOFError from error
        first, *lines = block.decode("latin-1").split("\r\n")[:-2]
        pairs = [line.split(":", 1) for line in lines]
        return int(first.split(" ")[1]), {key.lower(): value.strip() for key, value in pairs}

    async def reply(self) -> Reply:
        """Read one whole response."""
        status, headers = await self.head()
        async with asyncio.timeout(WAIT):
            if "content-length" in headers:
                body = await self.reader.readexactly(int(headers["content-length"]))
            elif headers.get("transfer-encoding") == "chunked":
                body = b"".join([chunk async for chunk in self.chunks()])
            else:
                body = b""
        return Reply(status, headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read a chunked body piece by piece."""
        for _ in range(100_000):
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            data = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]

    async def messages(self, seconds: float | None = WAIT) -> AsyncIterator[Json]:
        """Read the messages of a stream whose head was read, each within so many seconds, if any."""
        parser = sse.Parser(2**26)
        chunks = self.chunks()
        for _ in range(100_000):
            try:
                async with asyncio.timeout(seconds):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            for event in parser.feed(chunk):
                if event.data:
                    yield json.loads(event.data)

    async def closed(self) -> bool:
        """Tell whether the peer closes the connection without another byte."""
        async with asyncio.timeout(WAIT):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def aclose(self) -> None:
        """Close the socket."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Connection]:
    """Open a socket to a loopback port for a block."""
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))
    try:
        yield connection
    finally:
        await connection.aclose()


async def ask(port: int, data: bytes) -> Reply:
    """Send bytes on a connection of their own and read one response."""
    async with connect(port) as connection:
        await connection.send(data)
        return await connection.reply()


def modern(method: str, params: Json | None = None, identifier: object = 1, **change: str | None) -> bytes:
    """Write a modern request. ``change`` replaces a header (``mcp_name="x"``) or leaves it out (None)."""
    params = {**(params or {})}
    params["_meta"] = {**modern_meta(), **params.get("_meta", {})}
    body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
    return post(body, modern_headers(method, params, change))


def modern_headers(method: str, params: Mapping[str, Any], change: Mapping[str, str | None] | None = None) -> Headers:
    """Return the standard headers of a modern request, with changes."""
    head: dict[str, str | None] = {"mcp-protocol-version": MODERN, "mcp-method": method}
    if method in _NAMES and isinstance(params.get(_NAMES[method]), str):
        head["mcp-name"] = header_value(params[_NAMES[method]])
    head |= {key.replace("_", "-"): value for key, value in (change or {}).items()}
    return [(key, value) for key, value in head.items() if value is not None]


@dataclass(slots=True)
class LegacySession:
    """A legacy client's session, once ``begin`` has made it."""

    port: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    version: str = LEGACY
    path: str = "/mcp"
    id: str = ""

    async def begin(self, capabilities: Json | None = None) -> Reply:
        """Shake hands."""
        params = {"protocolVersion": self.version, "capabilities": capabilities or {}, "clientInfo": {"name": "raw"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        reply = await ask(self.port, post(body, self.headers, self.path))
        self.id = reply.headers.get("mcp-session-id", "")
        return reply

    def head(self) -> Headers:
        """Return the headers of a request in the session."""
        return [*self.headers, ("Mcp-Session-Id", self.id), ("MCP-Protocol-Version", self.version)]

    def request(self, method: str, params: Json | None = None, identifier: object = 1) -> bytes:
        """Write a request."""
        body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}}
        return post(body, self.head(), self.path)

    def notification(self, method: str, params: Json | None = None) -> bytes:
        """Write a notification."""
        return post({"jsonrpc": "2.0", "method": method, "params": params or {}}, self.head(), self.path)

    def response(self, identifier: object, result: Json | None = None, error: Json | None = None) -> bytes:
        """Write the answer to a request of the server."""
        body: Json = {"jsonrpc": "2.0", "id": identifier}
        body |= {"result": result or {}} if error is None else {"error": error}
        return post(body, self.head(), self.path)

    def get(self) -> bytes:
        """Write the request for a stream."""
        return raw(f"GET {self.path} HTTP/1.1", [("Host", "localhost"), ("Accept", "text/event-stream"), *self.head()])

    def delete(self) -> bytes:
        """Write the request that ends the session."""
        return raw(f"DELETE {self.path} HTTP/1.1", [("Host", "localhost"), *self.head()])

    async def ask(self, method: str, params: Json | None = None, identifier: object = 1) -> Reply:
        """Send a request and read its answer."""
        return await ask(self.port, self.request(method, params, identifier))
