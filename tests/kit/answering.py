"""One client for both eras that answers what it is asked: the same call reads the same whichever era is spoken.

A modern client comes back with the answers; a legacy one answers on the side while its call is open. Sends nothing else
behind one's back, and no headers but those that the era wants.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import aiohttp

from gateway.protocol import sse
from tests.kit.wire import INFO, LEGACY, MAX_PAGES, MODERN, EraName, header_value, modern_meta

Json: TypeAlias = dict[str, Any]
Answerer: TypeAlias = Callable[[str, Json], Awaitable[Json]]
"""Takes method and params of a question and returns the result; it may wait."""

MAX_ROUNDS: Final = 8
SECONDS: Final = 30
_NAMES: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_PREFIX: Final = "io.modelcontextprotocol/"


async def answers_nothing(method: str, params: Json) -> Json:
    """Fail: this client was to be asked nothing."""
    raise AssertionError(f"asked {method}: {params}")


@dataclass(frozen=True, slots=True)
class Manner:
    """How a client presents itself, and how it answers."""

    capabilities: Json = field(default_factory=dict)
    answer: Answerer = answers_nothing
    key: str = ""


@dataclass(slots=True)
class Ended:
    """How a request ended: HTTP status and answer, and the notifications and questions that came before."""

    status: int = 0
    message: Json = field(default_factory=dict)
    notices: list[Json] = field(default_factory=list)
    questions: list[tuple[str, Json]] = field(default_factory=list)
    rounds: int = 1

    @property
    def result(self) -> Json:
        """The result; fails for an error."""
        assert "result" in self.message, (self.status, self.message)
        result: Json = self.message["result"]
        return result

    @property
    def error(self) -> Json:
        """The error; fails for a result."""
        assert "error" in self.message, self.message
        error: Json = self.message["error"]
        return error

    @property
    def structured(self) -> Any:
        """The structured content of a tool's result."""
        assert not self.result.get("isError"), self.result
        return self.result["structuredContent"]

    @property
    def refusal(self) -> Json:
        """What the gateway says of a call that it stopped."""
        assert self.result["isError"] is True
        refusal: Json = self.result["_meta"]["dev.mcp-gateway/refusal"]
        return refusal

    def told(self, method: str) -> list[Json]:
        """Return the params of the notifications of one method."""
        return [notice.get("params", {}) for notice in self.notices if notice["method"] == method]


class AnsweringClient:
    """One client of an MCP endpoint."""

    def __init__(self, http: aiohttp.ClientSession, url: str, era: EraName, manner: Manner) -> None:
        self.era = era
        self.session_id = ""
        self._http = http
        self._url = url
        self._manner = manner
        self._level: str | None = None
        self._ids = itertools.count(1)

    async def open(self) -> Ended | None:
        """Shake hands, in the legacy era."""
        if self.era == "modern":
            return None
        params = {"protocolVersion": LEGACY, "capabilities": self._manner.capabilities, "clientInfo": INFO}
        hello = await self.request("initialize", params)
        await self.notify("notifications/initialized", {})
        return hello

    async def close(self) -> None:
        """End the session, in the legacy era."""
        if self.session_id:
            async with self._http.delete(self._url, headers=self.head()) as reply:
                assert reply.status == 204

    async def log_at(self, level: str) -> None:
        """Hear log messages from this level on."""
        self._level = level
        if self.era == "legacy":
            await self.request("logging/setLevel", {"level": level})

    async def call(self, name: str, arguments: Json | None = None, **more: Any) -> Ended:
        """Call a tool; ``more`` as for ``request``."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}}, **more)

    async def request(
        self,
        method: str,
        params: Json | None = None,
        identifier: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Ended:
        """Send a request and answer what is asked until its own answer is there."""
        number = next(self._ids) if identifier is None else identifier
        params, ended = dict(params or {}), Ended()
        if self.era == "legacy":
            await self._exchange(method, params, number, ended, headers or {})
            return ended
        params["_meta"] = {**self.meta(), **params.get("_meta", {})}
        for _ in range(MAX_ROUNDS):
            await self._exchange(method, params, number, ended, headers or {})
            result = ended.message.get("result") or {}
            if result.get("resultType") != "input_required":
                return ended
            asked: dict[str, Json] = result.get("inputRequests") or {}
            given = await asyncio.gather(*(self._answer(item, ended) for item in asked.values()))
            params["inputResponses"] = dict(zip(asked, given, strict=True))
            params["requestState"] = result["requestState"]
            ended.rounds += 1
            number = f"{number}+" if identifier is not None else next(self._ids)
        raise AssertionError(f"asked more than {MAX_ROUNDS} times")

    async def once(self, method: str, params: Json) -> Ended:
        """Send a request of the modern era and leave what it asks for open."""
        ended = Ended()
        await self._exchange(method, params | {"_meta": self.meta()}, next(self._ids), ended, {})
        return ended

    async def every(self, method: str, key: str) -> list[Json]:
        """Return all pages of a list."""
        found, params = [], dict[str, str]()
        for _ in range(MAX_PAGES):
            result = (await self.request(method, params)).result
            found += result[key]
            if "nextCursor" not in result:
                return found
            params = {"cursor": result["nextCursor"]}
        raise AssertionError(f"{method} has more than {MAX_PAGES} pages")

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        await self._aside({"method": method, "params": params})

    async def _exchange(
        self, method: str, params: Json, number: object, ended: Ended, headers: Mapping[str, str]
    ) -> None:
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        head = {**self.head(method, params), **headers}
        async with asyncio.timeout(SECONDS), self._http.post(self._url, json=body, headers=head) as reply:
            ended.status = reply.status
            self.session_id = reply.headers.get("Mcp-Session-Id", self.session_id)
            if reply.content_type == "text/event-stream":
                await self._stream(reply, number, ended)
            else:
                text = await reply.text()
                ended.message = json.loads(text) if text.startswith("{") else {}

    async def _stream(self, reply: aiohttp.ClientResponse, number: object, ended: Ended) -> None:
        parser = sse.Parser(2**24)
        ended.message = {}
        async with asyncio.TaskGroup() as answering:
            async for chunk in reply.content.iter_any():
                for event in parser.feed(chunk):
                    message = json.loads(event.data) if event.data else {}
                    if "method" not in message:
                        ended.message = message or ended.message
                        assert not message or message["id"] == number, message
                    elif "id" in message:
                        answering.create_task(self._reply(message, ended))
                    else:
                        ended.notices.append(message)

    async def _answer(self, question: Json, ended: Ended) -> Json:
        params: Json = question.get("params") or {}
        ended.questions.append((question["method"], params))
        return await self._manner.answer(question["method"], params)

    async def _reply(self, question: Json, ended: Ended) -> None:
        await self._aside({"id": question["id"], "result": await self._answer(question, ended)})

    async def _aside(self, message: Json) -> None:
        head = self.head(message.get("method", ""))
        async with self._http.post(self._url, json={"jsonrpc": "2.0", **message}, headers=head) as reply:
            assert reply.status == 202, (reply.status, await reply.text())

    async def listen(
        self, news: News, ready: asyncio.Event, watch: tuple[str, ...], tasks: tuple[str, ...] = ()
    ) -> None:
        """Take what belongs to no request, until cancelled; ``ready`` once nothing more is missed.

        Tasks must be named in the modern era alone; the legacy one tells each session of its own.
        """
        if self.era == "legacy":
            async with self._http.get(self._url, headers=self.head()) as reply:
                assert reply.status == 200, reply.status
                for uri in watch:
                    assert (await self.request("resources/subscribe", {"uri": uri})).result == {}
                ready.set()
                await _read(reply, news, ready)
            return
        wishes: Json = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
        wishes |= {"resourceSubscriptions": list(watch)} if watch else {}
        wishes |= {"taskIds": list(tasks)} if tasks else {}
        params = {"notifications": wishes, "_meta": self.meta()}
        body = {"jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen", "params": params}
        async with self._http.post(self._url, json=body, headers=self.head("subscriptions/listen")) as reply:
            assert reply.status == 200, reply.status
            await _read(reply, news, ready)

    def meta(self) -> Json:
        """Return the ``_meta`` of a modern request."""
        level = {} if self._level is None else {f"{_PREFIX}logLevel": self._level}
        return modern_meta(self._manner.capabilities) | level

    def head(self, method: str = "", params: Json | None = None) -> dict[str, str]:
        """Return the headers of a request."""
        head = {"Accept": "application/json, text/event-stream"}
        head |= {"Authorization": f"Bearer {self._manner.key}"} if self._manner.key else {}
        if self.era == "legacy":
            session = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self.session_id}
            return head | (session if self.session_id else {})
        head |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if method in _NAMES:
            head["Mcp-Name"] = header_value(str((params or {})[_NAMES[method]]))
        return head


async def _read(reply: aiohttp.ClientResponse, news: News, ready: asyncio.Event) -> None:
    parser = sse.Parser(2**24)
    async for chunk in reply.content.iter_any():
        for event in parser.feed(chunk):
            message = json.loads(event.data) if event.data else {}
            if message.get("method") == "notifications/subscriptions/acknowledged":
                ready.set()
            elif message:
                news.take(message)


@asynccontextmanager
async def answering(url: str, era: EraName, manner: Manner | None = None) -> AsyncIterator[AnsweringClient]:
    """Connect to an endpoint for a block."""
    timeout = aiohttp.ClientTimeout(total=SECONDS * 4)
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2**20) as http:
        client = AnsweringClient(http, url, era, manner or Manner())
        await client.open()
        try:
            yield client
        finally:
            await client.close()


class News:
    """What a client heard outside of calls, in order: ``all`` of it, and ``heard``, what nobody waited for yet."""

    def __init__(self) -> None:
        self.heard: list[Json] = []
        self.all: list[Json] = []
        self._came = asyncio.Event()

    def take(self, message: Json) -> None:
        """Note a message."""
        self.heard.append(message)
        self.all.append(message)
        self._came.set()

    async def of(self, method: str, seconds: float = 5.0) -> Json:
        """Wait for a message of one method, and forget all up to it."""
        async with asyncio.timeout(seconds):
            while True:
                for index, message in enumerate(self.heard):
                    if message["method"] == method:
                        del self.heard[: index + 1]
                        return message
                self._came.clear()
                await self._came.wait()

    async def every(self, methods: set[str], seconds: float = 5.0) -> None:
        """Wait until each of these methods was heard, in whatever order, and forget all that was."""
        async with asyncio.timeout(seconds):
            while not methods <= {message["method"] for message in self.heard}:
                self._came.clear()
                await self._came.wait()
        self.heard.clear()


@asynccontextmanager
async def hearing(
    client: AnsweringClient, *, watch: tuple[str, ...] = (), tasks: tuple[str, ...] = ()
) -> AsyncIterator[News]:
    """Hear for a block, in the words of the client's era, of all changes of lists, and of these resources and tasks."""
    async with asyncio.TaskGroup() as group:
        news, ready = News(), asyncio.Event()
        reading = group.create_task(client.listen(news, ready, watch, tasks))
        try:
            async with asyncio.timeout(SECONDS):
                await ready.wait()
            yield news
        finally:
            reading.cancel()
