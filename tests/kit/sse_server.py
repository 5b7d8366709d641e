"""An MCP server with the HTTP+SSE transport of 2024-11-05, for ``http_server.serving``.

GET opens the stream, whose first event names where to POST; every answer comes on the stream.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.kit.http_server import Exchange, Json

Handler: TypeAlias = "Callable[[SseServer, Json], Awaitable[None]]"


@dataclass
class SseServer:
    """``handlers`` replace the answer to a method. ``said`` holds every message that was POSTed, in order."""

    endpoint: str = "/messages?session=1"
    version: str = "2024-11-05"
    accepts: int = 202
    handlers: dict[str, Handler] = field(default_factory=dict)
    said: list[Json] = field(default_factory=list)
    streams: list[Exchange] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    async def script(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.start_stream()
            await exchange.chunk(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
            self.streams.append(exchange)
            await exchange.until_gone()
            exchange.close()
            return
        self.targets.append(exchange.target)
        if exchange.target == "/mcp":
            await exchange.answer(405)
            return
        message = exchange.message
        self.said.append(message)
        handler = self.handlers.get(message.get("method", ""))
        if handler is not None:
            await exchange.answer(self.accepts)
            await handler(self, message)
            return
        await exchange.answer(self.accepts, b"Accepted", "text/plain")
        if "method" in message and "id" in message and self.accepts < 300:
            await self.say({"jsonrpc": "2.0", "id": message["id"], "result": self._result(message)})

    def _result(self, message: Json) -> Json:
        match message["method"]:
            case "initialize":
                info = {"name": "old", "version": "1.0"}
                return {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                return {"tools": [{"name": "echo", "description": "echo", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                text = json.dumps(message["params"].get("arguments"))
                return {"content": [{"type": "text", "text": text}]}
            case _:
                return {}

    async def say(self, value: object) -> None:
        """Send a message on the newest stream."""
        await self.raw(b"event: message\ndata: " + json.dumps(value).encode() + b"\n\n")

    async def raw(self, data: bytes) -> None:
        """Send bytes on the newest stream."""
        await self.streams[-1].chunk(data)

    async def end(self) -> None:
        """End the newest stream."""
        await self.streams[-1].end_stream()
        self.streams[-1].close()
