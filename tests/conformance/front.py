"""A client in front of the gateway, for the official suite's servers behind it: raw messages, in either era.

It answers every question that a server asks: forms with the defaults in them, everything else with the least.
Knows no scenario; ``drive`` has them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import aiohttp

from gateway.protocol import headers
from tests.kit.wire import MODERN, header_value, modern_meta

Json: TypeAlias = dict[str, Any]
Between: TypeAlias = Callable[[], Awaitable[None]]

SECONDS: Final = 20.0
MAX_ROUNDS: Final = 8
CAPABILITIES: Final[Json] = {"roots": {}, "sampling": {}, "elicitation": {"form": {}}}
INFO: Final[Json] = {"name": "front", "version": "1.0.0"}
_NAMES: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Refused(Exception):
    """The gateway answered with an error, or with no JSON-RPC message; the text is what came."""


def answer(method: str, params: Json) -> Json:
    """Return what a user, a model and a file system would answer."""
    match method:
        case "elicitation/create":
            fields: Json = (params.get("requestedSchema") or {}).get("properties", {})
            content = {name: field.get("default", True) for name, field in fields.items() if _answerable(field)}
            return {"action": "accept", "content": content}
        case "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "words"}, "model": "none"}
        case "roots/list":
            return {"roots": []}
        case _:
            return {}


def _answerable(field: Json) -> bool:
    return "default" in field or field.get("type") == "boolean"


class Front:
    """What both eras have in common: one request after the other, each under an id of its own."""

    def __init__(self, http: aiohttp.ClientSession, url: str, version: str) -> None:
        self._http = http
        self._url = url
        self._version = version
        self._ids = itertools.count(1)

    async def open(self) -> None:
        """Greet."""

    async def close(self) -> None:
        """Say goodbye."""

    async def request(self, method: str, params: Json | None = None, between: Between | None = None) -> Json:
        """Send a request and return its result; ``between`` is awaited before a question is answered.

        Raises:
            Refused: there is no result.
        """
        raise NotImplementedError

    async def every(self, method: str, key: str) -> list[Json]:
        """Return the items of a list, page by page; none where the gateway does not offer it."""
        found: list[Json] = []
        params: Json = {}
        for _ in range(MAX_ROUNDS):
            try:
                result = await self.request(method, params)
            except Refused:
                return found
            found += result[key]
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}
        return found

    async def _post(self, body: Json, head: dict[str, str], between: Between | None = None) -> Json:
        """Send a message; return the answer to it, {} where it is none that is answered."""
        head = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": self._version, **head}
        async with self._http.post(self._url, json={"jsonrpc": "2.0", **body}, headers=head) as reply:
            self._received(reply)
            if reply.content_type != "text/event-stream":
                text = await reply.text()
                return _read(text, reply.status) if "id" in body and "method" in body else {}
            async for line in reply.content:
                if not line.startswith(b"data:") or not line[5:].strip():
                    continue
                message: Json = json.loads(line[5:])
                if "method" not in message:
                    return message
                if "id" in message:
                    await (between() if between is not None else asyncio.sleep(0))
                    await self._answered(message)
        raise Refused(f"the stream of {body['method']} ended without an answer")

    def _received(self, reply: aiohttp.ClientResponse) -> None:
        """Look at the headers of a response."""

    async def _answered(self, message: Json) -> None:
        """Answer a request of the server."""
        raise Refused(f"a request came that the era does not have: {message}")


class Legacy(Front):
    """A session: handshake, questions as requests on the stream of the call, goodbye."""

    def __init__(self, http: aiohttp.ClientSession, url: str, version: str) -> None:
        super().__init__(http, url, version)
        self._session: dict[str, str] = {}

    async def open(self) -> None:
        """Shake hands."""
        params = {"protocolVersion": self._version, "capabilities": CAPABILITIES, "clientInfo": INFO}
        result = await self.request("initialize", params)
        if result["protocolVersion"] != self._version:
            raise Refused(f"asked for {self._version}, got {result['protocolVersion']}")
        await self._post({"method": "notifications/initialized"}, self._session)

    async def close(self) -> None:
        """End the session."""
        async with self._http.delete(self._url, headers=self._session):
            return

    async def request(self, method: str, params: Json | None = None, between: Between | None = None) -> Json:
        """Send a request and return its result."""
        body = {"id": next(self._ids), "method": method, "params": params or {}}
        return _result(await self._post(body, self._session, between))

    def _received(self, reply: aiohttp.ClientResponse) -> None:
        if (named := reply.headers.get(headers.SESSION_ID)) is not None:
            self._session = {headers.SESSION_ID: named}

    async def _answered(self, message: Json) -> None:
        result = answer(message["method"], message.get("params") or {})
        await self._post({"id": message["id"], "result": result}, self._session)


class Modern(Front):
    """Every request stands alone: questions are results, and answers come with the next request."""

    def __init__(self, http: aiohttp.ClientSession, url: str, version: str) -> None:
        super().__init__(http, url, version)
        self._mirrored: dict[str, tuple[headers.ParamHeader, ...]] = {}

    async def request(self, method: str, params: Json | None = None, between: Between | None = None) -> Json:
        """Send a request, and as many more as it takes to answer what is asked; return the last result."""
        params = {**(params or {}), "_meta": modern_meta(CAPABILITIES)}
        for _ in range(MAX_ROUNDS):
            body = {"id": next(self._ids), "method": method, "params": params}
            result = _result(await self._post(body, self._head(method, params)))
            if result["resultType"] != "input_required":
                self._learn(result)
                return result
            await (between() if between is not None else asyncio.sleep(0))
            asked: dict[str, Json] = result.get("inputRequests", {})
            given = {key: answer(one["method"], one.get("params") or {}) for key, one in asked.items()}
            params = {key: value for key, value in params.items() if key != "requestState"}
            params["inputResponses"] = given
            params |= {"requestState": result["requestState"]} if "requestState" in result else {}
        raise Refused(f"{method} never came to an end")

    def _head(self, method: str, params: Json) -> dict[str, str]:
        head = {"Mcp-Method": method}
        if method in _NAMES:
            head["Mcp-Name"] = header_value(params[_NAMES[method]])
        if method == "tools/call":
            head |= headers.render(params.get("arguments"), self._mirrored.get(params["name"], ()))
        return head

    def _learn(self, result: Json) -> None:
        """Note which arguments of the listed tools travel in headers as well."""
        for tool in result.get("tools", []):
            self._mirrored[tool["name"]] = headers.param_headers(tool["inputSchema"])


def _read(text: str, status: int) -> Json:
    if not text.startswith("{"):
        raise Refused(f"status {status}: {text[:200]}")
    message: Json = json.loads(text)
    return message


def _result(message: Json) -> Json:
    if "result" not in message:
        raise Refused(json.dumps(message.get("error"))[:500])
    result: Json = message["result"]
    return result


@asynccontextmanager
async def front(url: str, version: str) -> AsyncIterator[Front]:
    """Connect a client of a version of the protocol for a block."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2**22) as http:
        client = (Modern if version == MODERN else Legacy)(http, url, version)
        await client.open()
        try:
            yield client
        finally:
            await client.close()
