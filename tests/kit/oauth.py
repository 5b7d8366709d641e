"""An authorization server and a protected MCP server in one, scripted: what they say is in plain attributes.

Everything runs at one loopback origin or, with ``elsewhere``, the authorization server at another one.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp

from gateway.downstream.oauth.metadata import PKCE
from tests.kit import tokens
from tests.kit.http_server import Exchange, HttpServer, McpServer, serving

Json: TypeAlias = dict[str, Any]
LOOPBACK = ["127.0.0.0/8", "::1/128"]


@dataclass
class Idp:
    """An authorization server that says yes to everybody. ``forms`` are the token requests that arrived.

    ``metadata`` is added to what it says of itself; ``issues`` to each token answer; ``refuses`` is an error word
    that it answers token requests with. ``good`` are the access tokens it gave out.
    """

    url: str = ""
    mark: str = ""
    """Added to each code, token and client secret that it makes up."""
    metadata: Json = field(default_factory=dict)
    issues: Json = field(default_factory=lambda: {"expires_in": 3600, "refresh_token": "refresh-1"})
    refuses: str = ""
    answers: list[tuple[str, str]] = field(default_factory=list)
    """Added to what a browser is sent back with, such as ``("iss", …)``."""
    forms: list[Json] = field(default_factory=list)
    proofs: list[str] = field(default_factory=list)
    registered: list[Json] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)
    codes: dict[str, Json] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    scopes: dict[str, str] = field(default_factory=dict)
    """What was asked for each access token, by the browser or the token request."""

    _asked: str = ""

    async def script(self, exchange: Exchange) -> bool:
        """Answer a request for this server; tell whether it was one."""
        path, _, query = exchange.target.partition("?")
        self.seen.append(path)
        match path:
            case "/.well-known/oauth-authorization-server":
                await exchange.json(self.document())
            case "/jwks":
                await exchange.answer(200, tokens.key_set(), "application/json")
            case "/register":
                self.registered.append(exchange.message)
                names = {"client_id": f"client-{len(self.registered)}", "client_secret": f"secret{self.mark}"}
                await exchange.json(names, 201)
            case "/authorize":
                await self._authorize(exchange, dict(parse_qsl(query)))
            case "/token":
                await self._token(exchange)
            case _:
                return False
        return True

    def document(self) -> Json:
        """Return the metadata."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": [PKCE],
            **self.metadata,
        }

    async def _authorize(self, exchange: Exchange, asked: Json) -> None:
        code = f"code-{len(self.codes) + 1}{self.mark}"
        self.codes[code] = asked
        self.states.append(asked["state"])
        back = urlencode([("code", code), ("state", asked["state"]), *self.answers])
        await exchange.answer(302, head={"Location": f"{asked['redirect_uri']}?{back}"})

    async def _token(self, exchange: Exchange) -> None:
        form = dict(parse_qsl(exchange.body.decode()))
        self.forms.append(form)
        self.proofs.append(exchange.headers.get("authorization", ""))
        if self.refuses or not self._holds(form):
            await exchange.json({"error": self.refuses or "invalid_grant", "error_description": "canary"}, 400)
            return
        self.good.append(f"access-{len(self.good) + 1}{self.mark}")
        self.scopes[self.good[-1]] = form.get("scope", self._asked)
        await exchange.json({"access_token": self.good[-1], "token_type": "Bearer", **self.issues})

    def _holds(self, form: Json) -> bool:
        if form["grant_type"] != "authorization_code":
            return True
        asked = self.codes.pop(form["code"], None)
        self._asked = (asked or {}).get("scope", "")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return asked is not None and (asked["code_challenge"], asked["redirect_uri"]) == (
            challenge,
            form["redirect_uri"],
        )


@dataclass
class Protected:
    """An MCP server that wants one of the tokens that ``idp`` gave. ``sent`` are the Authorization headers it saw.

    ``scope`` is what its challenge names; ``needs`` a scope without which calls are refused with 403.
    """

    idp: Idp
    mcp: McpServer = field(default_factory=McpServer)
    url: str = ""
    resource: str = ""
    scope: str = ""
    needs: str = ""
    sent: list[str] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)

    async def script(self, exchange: Exchange) -> None:
        """Answer one request."""
        if exchange.target.startswith("/.well-known/oauth-protected-resource"):
            resource = self.resource or self.url
            await exchange.json({"resource": resource, "authorization_servers": [self.idp.url]})
            return
        if not exchange.target.startswith("/mcp"):
            if not await self.idp.script(exchange):
                await exchange.answer(404)
            return
        sent = exchange.headers.get("authorization", "")
        self.sent.append(sent)
        token = sent.removeprefix("Bearer ")
        if token not in self.idp.good or token in self.revoked:
            await self._challenge(exchange, 401, {"scope": self.scope} if self.scope else {})
        elif self.needs and exchange.message.get("method") == "tools/call" and not self._has(token):
            await self._challenge(exchange, 403, {"error": "insufficient_scope", "scope": self.needs})
        else:
            await self.mcp.script(exchange)

    def _has(self, token: str) -> bool:
        return self.needs in self.idp.scopes[token].split(" ")

    async def _challenge(self, exchange: Exchange, status: int, words: Json) -> None:
        place = f"{urlsplit(self.url)._replace(path='').geturl()}/.well-known/oauth-protected-resource/mcp"
        said = ", ".join(f'{key}="{value}"' for key, value in {"resource_metadata": place, **words}.items())
        body = json.dumps({"error": "unauthorized"}).encode()
        await exchange.answer(status, body, "application/json", {"WWW-Authenticate": f"Bearer {said}"})


@asynccontextmanager
async def protected(era: str = "modern", **words: Any) -> AsyncIterator[Protected]:
    """Serve a protected server and its authorization server, at one origin, for a block."""
    server = Protected(Idp(), McpServer(era), **words)
    async with serving(server.script) as http:
        server.url = http.url
        server.idp.url = http.url.removesuffix("/mcp")
        yield server


@asynccontextmanager
async def elsewhere() -> AsyncIterator[tuple[Idp, HttpServer]]:
    """Serve an authorization server at an origin of its own for a block."""
    idp = Idp()

    async def script(exchange: Exchange) -> None:
        if not await idp.script(exchange):
            await exchange.answer(404)

    async with serving(script) as http:
        idp.url = http.url.removesuffix("/mcp")
        yield idp, http


async def consent(url: str) -> tuple[int, str]:
    """Open a page as a browser does, cookies, redirects and all; returns status and text of where it ends."""
    timeout = aiohttp.ClientTimeout(total=5)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=jar) as browser, browser.get(url) as page:
        return page.status, await page.text()
