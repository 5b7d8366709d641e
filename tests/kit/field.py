"""What the field faults are reproduced with: odd servers, a gateway beside them, and what it tells its listeners."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kit import wire
from tests.kit.clients import LegacySession, connect, modern_headers, post
from tests.kit.gateway import Gateway, Json
from tests.kit.wire import EraName

KIT = Path(__file__).parent
NAMES = ["_x", "123_y", "a.b", "a/b", "naïve", "x y", "t" * 60, "t" * 59 + "u"]
TOOL: Json = {
    "name": "rich",
    "title": "Rich",
    "description": "Line\u2028separator",
    "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
    "annotations": {"readOnlyHint": True, "x-own": [1, None]},
    "inputSchema": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}},
        "properties": {
            "z": {"$ref": "#/definitions/node"},
            "q": {"type": "string"},
            "limit": {"type": "integer", "default": 10, "minimum": 1},
        },
        "oneOf": [{"required": ["q"]}, {"required": ["z"]}],
        "if": {"required": ["z"]},
        "then": {"required": ["z"]},
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "execution": {"taskSupport": "forbidden"},
    "_meta": {"com.example/k": {"v": 1}},
    "x-future": {"a": [True, 1.0]},
}


def field(folder: Path, *options: str, **config: object) -> Json:
    """Return the config of a server that writes what it is told to, working in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["-I", "-S", str(KIT / "field_server.py"), *options]
    return {"command": sys.executable, "args": command, "cwd": str(folder), **config}


def scripted(*modes: str, **config: object) -> Json:
    """Return the config of a scripted server."""
    return {"command": sys.executable, "args": ["-I", "-S", str(KIT / "stdio_server.py"), *modes], **config}


def lines(file: Path, method: str) -> list[Json]:
    """Return what a server was sent of one method."""
    heard = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
    return [message for message in heard if message.get("method") == method]


def result_line(result: Json) -> str:
    """Return the line that answers a call with a result."""
    return f'{{"jsonrpc":"2.0","id":{{ID}},"result":{json.dumps(result, ensure_ascii=False)}}}\n'


def text_of(answer: wire.Answer) -> str:
    """Return the first text of a result."""
    return str(answer.result["content"][0]["text"])


@asynccontextmanager
async def serving_beside(folder: Path, config: Mapping[str, object], *up: str) -> AsyncIterator[Gateway]:
    """Run a gateway without blocking the loop, on which its servers run, and wait for those that are ``up``."""
    gateway = Gateway(folder, config)
    try:
        await asyncio.to_thread(gateway.start)
        await asyncio.to_thread(gateway.await_servers, *up)
        yield gateway
    finally:
        await asyncio.to_thread(gateway.stop)


async def until(ask: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until the answer is true."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(ask):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def listening(gateway: Gateway, era: EraName, key: str = "") -> AsyncIterator[list[str]]:
    """Hear of changes in a block; the list holds the methods that came, in order."""
    head = [("Authorization", f"Bearer {key}")] if key else []
    heard: list[str] = []
    async with connect(gateway.port) as connection, asyncio.TaskGroup() as group:
        if era == "modern":
            params = {"notifications": {"toolsListChanged": True}, "_meta": wire.modern_meta()}
            message = {"jsonrpc": "2.0", "id": "L1", "method": "subscriptions/listen", "params": params}
            await connection.send(post(message, [*modern_headers("subscriptions/listen", params), *head]))
        else:
            session = LegacySession(gateway.port, head)
            await session.begin()
            await connection.send(session.get())
        assert (await connection.head())[0] == 200
        # How long nothing may come is for the test to say.
        messages = connection.messages(None)
        if era == "modern":
            assert (await anext(messages))["method"] == "notifications/subscriptions/acknowledged"

        async def read() -> None:
            async for message in messages:
                method: str = message["method"]
                heard.append(method)

        reading = group.create_task(read())
        try:
            yield heard
        finally:
            reading.cancel()


async def heard_of_cancellations(session: LegacySession, server: str) -> list[object]:
    """Return the ids of the calls that a server was told are cancelled."""
    reply = await session.ask("tools/call", {"name": f"{server}__cancelled", "arguments": {}}, f"asked {server}")
    found: list[object] = json.loads(reply.result["content"][0]["text"])
    return found


async def say(
    gateway: Gateway, server: str, *pieces: object, era: EraName = "modern", meta: Json | None = None
) -> wire.Answer:
    """Have a server write pieces of text, and return what the client gets."""
    params: Json = {"name": f"{server}__say", "arguments": {"write": list(pieces)}}
    async with wire.http_client(gateway.url, era) as client, asyncio.timeout(10):
        return await client.request("tools/call", params | ({"_meta": meta} if meta else {}))
