"""Real processes in tests: the scripted server's config, a recording inbox, and looking at what still lives."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from gateway.config.servers import Server
from gateway.downstream.guardian import Guardian
from gateway.downstream.meters import NoMeters
from gateway.downstream.stdio import StdioTransport
from gateway.downstream.transport import Answer, Later, Reply, Request
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members, Value

Json: TypeAlias = dict[str, Any]

SCRIPT = str(Path(__file__).with_name("stdio_server.py"))
WAIT = 20.0


def scripted(*modes: str, **settings: Any) -> Server:
    """Config of the scripted stdio server with these modes."""
    return Server(command=sys.executable, args=["-I", "-S", SCRIPT, *modes], **settings)


@dataclass
class Recorder:
    """An inbox that keeps everything and answers every request with ``answer``."""

    answer: Answer | Later = field(default_factory=dict)
    notifications: list[tuple[str, Value]] = field(default_factory=list)
    asks: list[tuple[str, Value]] = field(default_factory=list)
    violations: list[tuple[str, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def notification(self, method: str, params: Members) -> None:
        self.notifications.append((method, plain(params)))
        self.heard.set()

    def ask(self, method: str, params: Members) -> Answer | Later:
        self.asks.append((method, plain(params)))
        return self.answer

    def violation(self, kind: str, detail: str) -> None:
        self.violations.append((kind, detail))

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.over.set()

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.violations]


@dataclass
class Counts(NoMeters):
    """Meters that add up what transports tell."""

    stderr_bytes: dict[str, int] = field(default_factory=dict)
    dials: list[str] = field(default_factory=list)

    def stderr(self, server: str, size: int) -> None:
        self.stderr_bytes[server] = self.stderr_bytes.get(server, 0) + size

    def blocked(self, server: str) -> None:
        self.dials.append(server)


def plain(members: Members) -> Value:
    return rawjson.decode_value(rawjson.encode(members))


def result(reply: Reply) -> Json:
    """The result of a reply as values."""
    assert reply.result is not None, reply.error
    value: Json = json.loads(rawjson.encode(reply.result))
    return value


def said(reply: Reply) -> str:
    """The text of a tool result."""
    text: str = result(reply)["content"][0]["text"]
    return text


def call(tool: str, timeout: float | None = WAIT, **arguments: Value) -> Request:
    return Request("tools/call", {"name": tool, "arguments": arguments}, timeout=timeout)


@asynccontextmanager
async def guarded() -> AsyncIterator[Guardian]:
    guardian = Guardian()
    await guardian.start()
    try:
        yield guardian
    finally:
        await guardian.aclose()


@asynccontextmanager
async def running(*modes: str, inbox: Recorder | None = None, **settings: Any) -> AsyncIterator[StdioTransport]:
    """A started scripted server, ended afterwards."""
    async with guarded() as guardian:
        transport = StdioTransport("files", scripted(*modes, **settings), guardian)
        await transport.open(inbox or Recorder())
        try:
            yield transport
        finally:
            await transport.aclose()


def alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


async def eventually(condition: Callable[[], object], seconds: float = WAIT) -> None:
    """Wait until something outside the loop has come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        await asyncio.sleep(0.01)
