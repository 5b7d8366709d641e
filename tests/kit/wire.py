"""MCP clients that do nothing behind one's back: raw JSON-RPC over HTTP or a pipe, in either era."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import aiohttp

Json: TypeAlias = dict[str, Any]
EraName: TypeAlias = Literal["modern", "legacy"]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
INFO = {"name": "wire", "version": "1.0.0"}
MAX_PAGES = 20
_NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def modern_meta(capabilities: Json | None = None) -> Json:
    """Return the ``_meta`` of a modern request."""
    prefix = "io.modelcontextprotocol/"
    return {
        f"{prefix}protocolVersion": MODERN,
        f"{prefix}clientInfo": INFO,
        f"{prefix}clientCapabilities": capabilities or {},
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request ended: HTTP status (200 on a pipe), the JSON-RPC message, and what came before it."""

    status: int
    message: Json
    notices: list[Json] = field(default_factory=list)

    @property
    def result(self) -> Json:
        """The result; fails for an error."""
        assert "result" in self.message, self.message
        result: Json = self.message["result"]
        return result

    @property
    def error(self) -> Json:
        """The error; fails for a result."""
        assert "error" in self.message, self.message
        error: Json = self.message["error"]
        return error

    @property
    def refusal(self) -> Json:
        """What the gateway says of a call that it stopped; fails for any other result."""
        refusal: Json = self.result["_meta"]["dev.mcp-gateway/refusal"]
        assert self.result["isError"] is True
        return refusal


class Client(Protocol):
    """What both transports offer."""

    async def request(self, method: str, params: Json | None = None, request_id: str | None = None) -> Answer:
        """Send one request and wait for its answer."""


async def every(client: Client, method: str, key: str) -> list[Json]:
    """Return all pages of a list."""
    found: list[Json] = []
    params: Json = {}
    for _ in range(MAX_PAGES):
        result = (await client.request(method, params)).result
        found += result[key]
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}
    raise AssertionError(f"{method} has more than {MAX_PAGES} pages")


async def call(client: Client, name: str, arguments: Json | None = None) -> Answer:
    """Call a tool."""
    return await client.request("tools/call", {"name": name, "arguments": arguments or {}})


class HttpClient:
    """One client of an MCP endpoint."""

    def __init__(self, session: aiohttp.ClientSession, url: str, era: EraName, key: str = "") -> None:
        self._session = session
        self._url = url
        self._modern = era == "modern"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._ids = 0
        self.session_id = ""

    @property
    def head(self) -> dict[str, str]:
        """Headers for a body sent with ``post``."""
        return {"Content-Type": "application/json", **self._head("", {})}

    async def open(self) -> None:
        """Shake hands, in the legacy era."""
        if self._modern:
            return
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}
        answer = await self.request("initialize", params)
        assert answer.result["protocolVersion"] == LEGACY
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with self._session.post(
            self._url, json=body, headers=self._head("notifications/initialized", {})
        ) as done:
            assert done.status == 202

    async def close(self) -> None:
        """End the session, in the legacy era."""
        if self.session_id:
            async with self._session.delete(self._url, headers=self._head("", {})):
                self.session_id = ""

    async def request(self, method: str, params: Json | None = None, request_id: str | None = None) -> Answer:
        """Send one request and read its answer, from JSON or from a stream."""
        self._ids += 1
        number = request_id or f"wire-{self._ids}"
        params = dict(params or {})
        if self._modern:
            params["_meta"] = {**modern_meta(), **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        async with self._session.post(self._url, json=body, headers=self._head(method, params)) as reply:
            self.session_id = reply.headers.get("Mcp-Session-Id", self.session_id)
            if reply.content_type == "text/event-stream":
                return await self._stream(reply, number)
            text = await reply.text()
            return Answer(reply.status, json.loads(text) if text.startswith("{") else {})

    async def post(self, body: str, headers: dict[str, str]) -> tuple[int, str]:
        """Send exactly these bytes and headers; returns status and text."""
        async with self._session.post(self._url, data=body, headers=headers) as reply:
            return reply.status, await reply.text()

    async def _stream(self, reply: aiohttp.ClientResponse, number: str) -> Answer:
        notices: list[Json] = []
        async for raw in reply.content:
            line = raw.decode().rstrip("\r\n")
            if not line.startswith("data:") or not line[5:].strip():
                continue
            message = json.loads(line[5:])
            if message.get("id") == number and "method" not in message:
                return Answer(reply.status, message, notices)
            notices.append(message)
        return Answer(reply.status, {}, notices)

    def _head(self, method: str, params: Json) -> dict[str, str]:
        head = {"Accept": "application/json, text/event-stream", **self._headers}
        if not self._modern:
            legacy = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self.session_id}
            return head | (legacy if self.session_id else {})
        head |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if method in _NAMES:
            head["Mcp-Name"] = header_value(str(params[_NAMES[method]]))
        return head


def header_value(text: str) -> str:
    """Write a name as a header value (2026-07-28 streamable-http §Value Encoding)."""
    if text.isascii() and text.isprintable() and text == text.strip() and text:
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


class StdioClient:
    """One client of a server on a pipe, one request at a time."""

    def __init__(self, process: asyncio.subprocess.Process, era: EraName) -> None:
        self._process = process
        self._modern = era == "modern"
        self._ids = 0

    async def open(self) -> None:
        """Shake hands, in the legacy era."""
        if self._modern:
            return
        await self.request("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO})
        await self.notify("notifications/initialized", {})

    async def send(self, method: str, request_id: str, params: Json) -> None:
        """Send a request whose answer, if any, is left among the notices of the next one."""
        meta = {"_meta": modern_meta()} if self._modern else {}
        await self._send({"id": request_id, "method": method, "params": {**params, **meta}})

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        await self._send({"method": method, "params": params})

    async def _send(self, message: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._process.stdin.drain()

    async def request(self, method: str, params: Json | None = None, request_id: str | None = None) -> Answer:
        """Send one request and read lines until its answer."""
        assert self._process.stdout is not None
        self._ids += 1
        number = request_id or f"wire-{self._ids}"
        params = dict(params or {})
        if self._modern:
            params["_meta"] = {**modern_meta(), **params.get("_meta", {})}
        await self._send({"id": number, "method": method, "params": params})
        notices: list[Json] = []
        async with asyncio.timeout(15):
            while line := await self._process.stdout.readline():
                message = json.loads(line)
                if message.get("id") == number and "method" not in message:
                    return Answer(200, message, notices)
                notices.append(message)
        raise AssertionError(f"the server ended before it answered {method}")


@asynccontextmanager
async def http_client(url: str, era: EraName, key: str = "") -> AsyncIterator[HttpClient]:
    """Connect to an endpoint for a block."""
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2**22) as session:
        client = HttpClient(session, url, era, key)
        await client.open()
        try:
            yield client
        finally:
            await client.close()


@asynccontextmanager
async def stdio_client(
    command: Sequence[str | Path], era: EraName, cwd: Path, environment: dict[str, str] | None = None
) -> AsyncIterator[StdioClient]:
    """Run a server for a block and talk to it."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=cwd,
        env=environment,
        limit=2**24,
    )
    try:
        client = StdioClient(process, era)
        await client.open()
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]  # reason: asyncio closes a child's pipes only with it.
