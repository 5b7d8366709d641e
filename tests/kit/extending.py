"""Clients of both eras that declare extensions, and servers that have some."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Final

from tests.kit import wire
from tests.kit.clients import Json, LegacySession, Reply, ask, modern
from tests.kit.extension_server import UI
from tests.kit.gateway import ROOT
from tests.kit.wire import EraName

APPS: Final[Json] = {"extensions": {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}}
ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")


def extended(name: str, era: str, extensions: Json | None = None, *options: str, **config: object) -> Json:
    """Return the config of a server with extensions."""
    script = str(ROOT / "tests" / "kit" / "extension_server.py")
    told = ["--name", name, "--era", era, "--extensions", json.dumps(extensions or {}), *options]
    return {"command": sys.executable, "args": ["-I", "-S", script, *told], **config}


@dataclass(slots=True)
class Talker:
    """One client of a gateway, which declares these capabilities in the way of its era."""

    port: int
    era: EraName
    capabilities: Json = field(default_factory=dict)
    headers: list[tuple[str, str]] = field(default_factory=list)
    session: LegacySession | None = None
    offered: Json = field(default_factory=dict)

    async def begin(self) -> Json:
        """Meet the gateway; returns the capabilities it offers."""
        if self.era == "modern":
            self.offered = (await self.ask("server/discover")).result["capabilities"]
        else:
            self.session = LegacySession(self.port, self.headers)
            self.offered = (await self.session.begin(self.capabilities)).result["capabilities"]
        return self.offered

    def request(self, method: str, params: Json | None = None, identifier: object = 1) -> bytes:
        """Write a request."""
        if self.session is not None:
            return self.session.request(method, params, identifier)
        given = dict(params or {})
        given["_meta"] = {**wire.modern_meta(self.capabilities), **given.get("_meta", {})}
        return with_headers(modern(method, given, identifier), self.headers)

    async def ask(self, method: str, params: Json | None = None) -> Reply:
        """Send a request and read its answer."""
        return await ask(self.port, self.request(method, params))

    async def call(self, name: str, arguments: Json | None = None, meta: Json | None = None) -> Reply:
        """Call a tool."""
        own = {"_meta": meta} if meta else {}
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}, **own})

    async def told(self, name: str, meta: Json | None = None) -> Json:
        """Call a tool and return the JSON in its text."""
        found: Json = json.loads((await self.call(name, meta=meta)).result["content"][0]["text"])
        return found


async def talker(port: int, era: EraName, capabilities: Json | None = None, key: str = "") -> Talker:
    """Return a client that has met the gateway."""
    made = Talker(port, era, capabilities or {}, [("Authorization", f"Bearer {key}")] if key else [])
    await made.begin()
    return made


def with_headers(request: bytes, headers: list[tuple[str, str]]) -> bytes:
    """Add headers to a request that is written already."""
    first, rest = request.split(b"\r\n", 1)
    return b"\r\n".join([first, *(f"{name}: {value}".encode() for name, value in headers), rest])
