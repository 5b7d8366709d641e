"""A scripted transport: what a server answers is a table from method to handler; everything sent is kept to look at."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gateway.config.servers import Server
from gateway.downstream.dialect import Events, Peer
from gateway.downstream.lent import Lent
from gateway.downstream.transport import Answer, Inbox, Later, Owed, Reply, Request
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object, Value
from gateway.protocol.versions import Era

WAIT = 20.0
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}

Handler: TypeAlias = "Callable[[Sent], Reply | Awaitable[Reply]]"
Script: TypeAlias = Mapping[str, Handler]


def members(**values: Value) -> Members:
    """Encode values as the members of a result or params."""
    return {key: rawjson.raw(value) for key, value in values.items()}


def reply(status: int = 0, headers: Mapping[str, str] | None = None, **values: Value) -> Reply:
    """Return a result."""
    return Reply(members(**values), None, status, headers or {})


def failure(code: int, message: str = "no", data: Value = None, status: int = 0) -> Reply:
    """Return a JSON-RPC error."""
    return Reply(None, ErrorObject(code, message, None if data is None else rawjson.raw(data)), status)


def bare(status: int, headers: Mapping[str, str] | None = None) -> Reply:
    """Return an HTTP answer without a message."""
    return Reply(None, None, status, headers or {})


@dataclass(slots=True)
class Sent:
    """One message that reached the scripted server, with the id it has on the wire."""

    id: int
    request: Request
    transport: FakeTransport
    taken: bool = False

    @property
    def params(self) -> Object:
        value = rawjson.decode_value(rawjson.encode(self.request.params))
        return value if isinstance(value, dict) else {}

    @property
    def meta(self) -> Object:
        value = self.params.get("_meta", {})
        assert isinstance(value, dict)
        return value

    def notify(self, method: str, **values: Value) -> None:
        """Send a notification on this request's own stream."""
        assert self.request.on_notification is not None
        self.request.on_notification(method, members(**values))

    def ask(self, method: str, **values: Value) -> Answer | Later:
        """Send a request on this request's own stream."""
        assert self.request.on_ask is not None
        return self.request.on_ask(method, members(**values))


async def never(sent: Sent) -> Reply:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


def refuse(sent: Sent) -> Reply:
    """Know no such method."""
    return failure(-32601, "Method not found")


class FakeTransport:
    """A server's end and ours in one object."""

    def __init__(self, script: Script, kind: str = "stdio", name: str = "fake") -> None:
        self.script = dict(script)
        self.kind = kind
        self.name = name
        self.inbox: Inbox | None = None
        self.opened = self.closed = self.ended = False
        self.sent: list[Sent] = []
        self.notified: list[tuple[str, Object]] = []
        self.notices: list[Request] = []
        self.cancelled: list[tuple[str, Object]] = []
        self.refuses: DownstreamError | None = None
        self._pending: set[asyncio.Future[None]] = set()
        self._moved = asyncio.Event()
        self.owed = Owed()

    @property
    def key_digest(self) -> str:
        return ""

    @property
    def lent(self) -> Lent:
        return Lent()

    @property
    def last_words(self) -> str:
        return ""

    @property
    def instance(self) -> str:
        return self.name

    async def open(self, inbox: Inbox) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.inbox, self.opened = inbox, True

    async def request(self, request: Request) -> Reply:
        if self.ended or self.closed:
            raise DownstreamError(Reason.UNAVAILABLE, "the process is gone")
        sent = Sent(len(self.sent) + 1, request, self)
        if request.on_sent is not None:
            request.on_sent()
        self.sent.append(sent)
        try:
            async with asyncio.timeout(request.timeout) as timer:
                return await self._answer(sent)
        except TimeoutError:
            assert timer.expired()
            self._cancel(sent)
            raise DownstreamError(Reason.TIMEOUT, "no answer", may_have_run=True) from None
        except asyncio.CancelledError:
            self._cancel(sent)
            raise

    async def _answer(self, sent: Sent) -> Reply:
        """Run the handler, unless the server ends first."""
        loop = asyncio.get_running_loop()
        end: asyncio.Future[None] = loop.create_future()
        self._pending.add(end)
        handler = loop.create_task(self._handle(sent))
        try:
            both: set[asyncio.Future[object]] = {handler, end}  # type: ignore[arg-type]  # reason: only waited for.
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if handler.done():
                return handler.result()
            raise DownstreamError(Reason.UNAVAILABLE, "the process ended", may_have_run=True)
        finally:
            self._pending.discard(end)
            end.cancel()
            handler.cancel()
            await asyncio.wait({handler})

    async def _handle(self, sent: Sent) -> Reply:
        answer = self.script.get(sent.request.method, refuse)(sent)
        sent.taken = True
        self._moved.set()
        return await answer if inspect.isawaitable(answer) else answer

    def _cancel(self, sent: Sent) -> None:
        if sent.request.cancel is not None:
            method, params = sent.request.cancel(sent.id)
            value = rawjson.decode_value(rawjson.encode(params))
            assert isinstance(value, dict)
            self.cancelled.append((method, value))

    async def notify(self, request: Request) -> None:
        if self.ended:
            raise DownstreamError(Reason.UNAVAILABLE, "the process is gone")
        value = rawjson.decode_value(rawjson.encode(request.params or {}))
        assert isinstance(value, dict)
        self.notices.append(request)
        self.notified.append((request.method, value))

    async def aclose(self) -> None:
        self.closed = True
        self._break()

    def _break(self) -> None:
        for end in list(self._pending):
            if not end.done():
                end.set_result(None)

    # What a test does as the server.

    def end(self, reason: str = "exited with code 1") -> None:
        """End by itself, as a process does that exits."""
        self.ended = True
        self._break()
        if self.inbox is not None:
            self.inbox.closed(reason)

    def say(self, method: str, **values: Value) -> None:
        """Send a notification that names no request."""
        assert self.inbox is not None
        self.inbox.notification(method, members(**values))

    def ask(self, method: str, **values: Value) -> Answer | Later:
        """Send a request and return its answer, or where it will be."""
        assert self.inbox is not None
        return self.inbox.ask(method, members(**values))

    def methods(self) -> list[str]:
        """Return the methods of all requests so far."""
        return [sent.request.method for sent in self.sent]

    def of(self, method: str) -> list[Sent]:
        """Return the requests of one method so far."""
        return [sent for sent in self.sent if sent.request.method == method]

    async def reached(self, method: str, count: int = 1) -> Sent:
        """Wait until so many requests of a method are in their handlers; returns the last of them."""
        async with asyncio.timeout(WAIT):
            while len([sent for sent in self.of(method) if sent.taken]) < count:
                self._moved.clear()
                await self._moved.wait()
        return self.of(method)[count - 1]


class FakeHttp(FakeTransport):
    """The same with what HTTP has besides: a stream to listen on, and an end of sessions."""

    def __init__(self, script: Script, stream: Callable[[Mapping[str, str]], Awaitable[int]] | None = None) -> None:
        super().__init__(script, kind="http")
        self.streams: list[Mapping[str, str]] = []
        self.deleted: list[Mapping[str, str]] = []
        self._stream = stream

    async def stream(self, headers: Mapping[str, str], on_open: Callable[[], None]) -> int:
        self.streams.append(headers)
        if self._stream is None:
            return 405
        on_open()
        return await self._stream(headers)

    async def end_session(self, headers: Mapping[str, str]) -> int:
        self.deleted.append(headers)
        return 200


CAPABILITIES: Object = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
INFO: Object = {"name": "scripted", "version": "1.0"}


def discover(sent: Sent) -> Reply:
    """Answer ``server/discover`` as a modern server."""
    return reply(
        resultType="complete",
        supportedVersions=["2026-07-28"],
        capabilities=CAPABILITIES,
        _meta={"io.modelcontextprotocol/serverInfo": INFO},
        instructions="Be kind.",
    )


def initialize(sent: Sent) -> Reply:
    """Answer ``initialize`` as a legacy server."""
    return reply(protocolVersion=sent.params["protocolVersion"], capabilities=CAPABILITIES, serverInfo=INFO)


def listen(sent: Sent) -> Awaitable[Reply]:
    """Acknowledge a listen request and keep it open."""
    identifier: Object = {"io.modelcontextprotocol/subscriptionId": sent.id}
    sent.transport.say(
        "notifications/subscriptions/acknowledged", _meta=identifier, notifications=sent.params["notifications"]
    )
    return never(sent)


def echo(sent: Sent) -> Reply:
    """Answer ``tools/call`` with its arguments."""
    return reply(content=[], structuredContent=sent.params.get("arguments"))


def but(base: Script, changes: Script) -> Script:
    """Return a script with some answers replaced."""
    return {**base, **changes}


MODERN: Script = {"server/discover": discover, "subscriptions/listen": listen, "tools/call": echo}
LEGACY: Script = {"initialize": initialize, "tools/call": echo}


@dataclass(slots=True)
class Heard:
    """What a dialect handed up."""

    changed: list[frozenset[Kind]] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def events(self) -> Events:
        return Events(self.changed.append, self.updated.append, self.violations.append)


def peer(transport: FakeTransport, heard: Heard | None = None, **config: object) -> Peer:
    """Return a peer named ``a`` over a transport; ``config`` are keys of its section."""
    made = server(**config)
    return Peer("a", transport, made.timeouts, tuple(made.asks), (heard or Heard()).events)


def server(**config: object) -> Server:
    """Return a server's config."""
    base: dict[str, object] = {} if "url" in config else {"command": "scripted"}
    return Server.model_validate(base | config)


def call(name: str = "echo", method: str = "tools/call", **changes: object) -> Call:
    """Return a call of server ``a``; ``changes`` are fields of ``Call``."""
    made = Call(
        id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        rpc_id=1,
        method=method,
        params={"name": name, "arguments": {}},
        target=Target(Kind.TOOL, "a", name),
        principal=principal("bot"),
        caller=Caller(Era.MODERN, "2026-07-28"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # reason: changes are Call's own fields.


def principal(name: str) -> Principal:
    """Return the principal of a configured key."""
    return Principal(f"key:{name}", "key", name)


@dataclass(slots=True)
class Client:
    """The client's side of a call: what came back on its stream."""

    heard: list[tuple[str, Object]] = field(default_factory=list)

    def exchange(self) -> Exchange:
        return Exchange(notify=self._take)

    def _take(self, method: str, params: Members) -> None:
        self.heard.append((method, {key: rawjson.decode_value(item) for key, item in params.items()}))


class Farm:
    """Makes scripted transports, all of one script or each of its own, and keeps them in order."""

    def __init__(self, *scripts: Script, http: bool = False) -> None:
        self._scripts = scripts
        self._http = http
        self.made: list[FakeTransport] = []

    def __call__(self, name: str, config: Server) -> FakeTransport:
        script = self._scripts[min(len(self.made), len(self._scripts) - 1)]
        transport = FakeHttp(script) if self._http else FakeTransport(script, name=f"{name}#{len(self.made) + 1}")
        self.made.append(transport)
        return transport

    @property
    def live(self) -> list[FakeTransport]:
        """Return the transports that are open."""
        return [transport for transport in self.made if transport.opened and not transport.closed]
