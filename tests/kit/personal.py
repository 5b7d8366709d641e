"""A server that lists by who asks: a caller's token says who that is, and a table what it may have there."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tests.kit import tokens
from tests.kit.gateway import Gateway, serving
from tests.kit.http_server import Exchange, McpServer
from tests.kit.http_server import serving as http_serving
from tests.kit.oauth import LOOPBACK, Idp, Protected
from tests.kit.wire import EraName

Json: TypeAlias = dict[str, Any]
GATEWAY = ""
"""Who the gateway itself is to such a server."""
POLICIES = [{"name": "all", "clients": ["*"], "allow": ["*/*", "any:*/**"]}]


def tool(name: str, description: str = "") -> Json:
    """Return a tool as a server lists it."""
    return {"name": name, "description": description or f"Does {name}.", "inputSchema": {"type": "object"}}


@dataclass
class Listing(McpServer):
    """Lists the tools of ``lists`` by name of the caller, and notes who listed and called what.

    Lists of those in ``slow`` are not answered until their event is set; those in ``broken`` get an error.
    """

    lists: dict[str, list[Json]] = field(default_factory=dict)
    slow: dict[str, asyncio.Event] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    instructions: dict[str, str] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)
    called: list[tuple[str, str]] = field(default_factory=list)

    async def serve(self, exchange: Exchange, who: str) -> None:
        """Answer one request of somebody."""
        message = exchange.message if exchange.method == "POST" else {}
        method = message.get("method")
        if method == "tools/call":
            self.called.append((who, message["params"]["name"]))
        if method != "tools/list":
            await self.script(exchange)
            return
        self.listed.append(who)
        if who in self.slow:
            await self.slow[who].wait()
        if who in self.broken:
            await exchange.error(-32603, "broken")
            return
        cache: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if self.era == "modern" else {}
        await exchange.result({**cache, "tools": self.lists.get(who, [])})


@dataclass
class Personal(Protected):
    """The protected server that such lists are behind. ``owners`` says whose a token is that nobody's was given for."""

    lists: Listing = field(default_factory=Listing)
    owners: dict[str, str] = field(default_factory=dict)

    async def script(self, exchange: Exchange) -> None:
        """Answer one request; whose token it is says whose lists are meant."""
        who = self._owner(exchange.headers.get("authorization", "").removeprefix("Bearer "))
        if not exchange.target.startswith("/mcp") or who is None:
            await super().script(exchange)
        else:
            self.sent.append(exchange.headers["authorization"])
            await self.lists.serve(exchange, who)

    def _owner(self, token: str) -> str | None:
        """Return who a token was given for, None where it is none of ours."""
        if token not in self.idp.good or token in self.revoked:
            return None
        form = self.idp.forms[self.idp.good.index(token)]
        subject = form.get("subject_token", "")
        if not subject:
            return self.owners.get(token, GATEWAY)
        part = subject.split(".")[1]
        return str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sub"])


@asynccontextmanager
async def personal(era: EraName = "modern", **lists: list[Json]) -> AsyncIterator[Personal]:
    """Serve such a server and its authorization server for a block; ``lists`` are by caller, ``own`` the gateway's."""
    known = {(GATEWAY if who == "own" else who): tools for who, tools in lists.items()}
    server = Personal(Idp(), lists=Listing(era, lists=known))
    async with http_serving(server.script) as http:
        server.url = http.url
        server.idp.url = http.url.removesuffix("/mcp")
        yield server


def config(server: Personal, **settings: Any) -> Json:
    """Return the config of a gateway in front of it, as server ``crm``, whose callers' tokens are exchanged."""
    way = {"client_id": "me", "client_secret": "pw", "issuer": server.idp.url}
    crm: Json = {
        "url": server.url,
        "allow_networks": LOOPBACK,
        "auth": {"token_exchange": way},
        "catalog": "principal",
        **settings,
    }
    return {
        "servers": {"crm": crm},
        "listen": {"public_url": tokens.AUDIENCE},
        "auth": {
            "jwt": {"issuer": server.idp.url, "audience": tokens.AUDIENCE, "jwks_url": f"{server.idp.url}/jwks"},
        },
        "policies": POLICIES,
    }


def key_of(server: Personal, name: str) -> str:
    """Return the token that somebody comes to the gateway with."""
    return tokens.token({"iss": server.idp.url, "sub": name})


@asynccontextmanager
async def gateway(folder: Path, settings: Json) -> AsyncIterator[Gateway]:
    """Run a gateway for a block, while the loop goes on serving what is behind it."""
    context = serving(folder, settings)
    running = await asyncio.to_thread(context.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)
