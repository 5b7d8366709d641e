"""The store that several gateways share: a Valkey or Redis server. The only home of redis, which the extra brings.

What must be one step is one script there, by the server's own clock. Keys are digests under one prefix, since what
they name is nobody else's business. Needs Redis 6.2 or any Valkey; one primary, no cluster mode.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import math
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Final, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from gateway.errors import ConfigError, Problem
from gateway.state import wire
from gateway.state.gcra import Allowance
from gateway.state.scripts import CHARGE, CLAIM, Script, numbers
from gateway.state.store import MAX_VALUE, Charge, ChargeResult, checked
from gateway.state.topics import Topics
from gateway.state.wire import CONNECT, Answer, Asking, Connection, Down, Faults, Part, Wire
from gateway.tasks import TaskSet

JOINING: Final = 1.0
"""Seconds that a subscriber waits for the server to know of it."""

_REASONS: Final = {"NoPermissionError": "not_permitted", "OutOfMemoryError": "memory", "ReadOnlyError": "read_only"}
"""Errors that the server answers with, in words."""

_DIGEST: Final = 20
"""Bytes of a key's digest."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is. ``url`` may hold a password and is never shown; ``ca`` is a file with authorities."""

    url: str = field(repr=False)
    ca: str = ""
    prefix: str = "mcpgw"


@dataclass(slots=True)
class _Links:
    """The two connections, and what waits for the answer to a ping on that of the topics."""

    commands: Wire
    topics: Wire
    echoes: Asking


class RedisStore:
    """Implements the verbs of ``Store`` without patience: each raises ``Down`` when the server does not do it at once.

    ``tasks`` runs the connections; ``lost`` is told a reason when one of them ends by itself.
    """

    def __init__(self, address: Address, tasks: TaskSet, lost: Callable[[str], None] = lambda _: None) -> None:
        """Prepare; connects to nothing.

        Raises:
            ConfigError: the library is not installed, or the authorities cannot be read.
        """
        library = _library()
        known = library.exceptions
        self._faults = Faults(known.ResponseError, known.AuthenticationError, known.RedisError)
        self._no_script: type[Exception] = known.NoScriptError
        self._dial: Callable[[], Connection] = _dialer(library, address)
        self._name = _Name(urlsplit(address.url).hostname or "")
        self._tasks = tasks
        self.lost = lost
        self.topics = Topics()
        self._prefix = f"{address.prefix}:"
        # The server does not tell its databases apart where topics are concerned.
        self._channels = f"{address.prefix}:{_database(address.url)}:"
        self._asking = Asking()
        self._links: _Links | None = None
        self._closing: list[Wire] = []
        self._joined: dict[str, asyncio.Event] = {}
        self._probe_key = f"probe:{secrets.token_hex(8)}"

    @property
    def connected(self) -> bool:
        """Whether both connections are there."""
        return self._links is not None and self._links.commands.open and self._links.topics.open

    async def connect(self) -> None:
        """Connect twice, and take up the subscriptions there are.

        Raises:
            Down: that does not work.
        """
        await self.drop()
        await self._name.resolve()
        asking, echoes = self._asking, Asking()
        commands = Wire(self._dial(), self._faults, asking.heard, self._lost)
        topics = Wire(self._dial(), self._faults, lambda answer: self._heard(answer, echoes), self._lost)
        self._links = _Links(commands, topics, echoes)
        await commands.connect(self._tasks)
        await topics.connect(self._tasks)
        for topic in (self._probe_key, *self.topics.names()):
            self._join(topic)

    async def drop(self) -> None:
        """Close the connections, whatever state they are in; who still waits for an answer gets ``Down``."""
        links, self._links = self._links, None
        asking, self._asking = self._asking, Asking()
        asking.fail("lost")
        for event in self._joined.values():
            event.clear()
        if links is not None:
            links.echoes.fail("lost")
            self._closing += [links.commands, links.topics]
        # What a cancelled call left open is closed by the next one.
        while self._closing:
            await self._closing[-1].aclose()
            self._closing.pop()

    async def aclose(self) -> None:
        """Close everything, for good."""
        await self.drop()
        self._name.close()

    def _lost(self, reason: str) -> None:
        self._asking.fail(reason)
        if self._links is not None:
            self._links.echoes.fail(reason)
        self.lost(reason)

    async def probe(self) -> None:
        """Do everything once that is done for calls.

        Raises:
            Down: something of it does not work, or is too slow.
        """
        links = self._links
        if links is None:
            raise Down("lost")
        key = self._probe_key
        # Answered after every subscription that was sent before.
        await links.echoes.ask(lambda: links.topics.send("PING"))
        heard, *_ = await asyncio.gather(
            self.publish(key, b""),
            self.charge([Charge(key, Allowance(1000, 1.0, 1000))]),
            self.put(f"{key}:fact", b"1", 1.0),
            self.claim(f"{key}:fact", b"1", 1.0),
            self.get(f"{key}:fact"),
            self.take(f"{key}:fact"),
            self.delete(f"{key}:fact"),
        )
        if not heard:
            raise Down("topics")

    async def charge(self, items: Sequence[Charge]) -> ChargeResult:
        """Count a call against every bucket or against none, by the server's clock; with the least patience."""
        keys = [self._key(item.key) for item in items]
        arguments = [part for item in items for part in numbers(item.allowance)]
        try:
            answer = await self._script(CHARGE, keys, *arguments, patience=wire.PATIENCE)
        except Down as error:
            # Too slow for a charge is not yet away.
            raise Down(wire.SLOW, broken=False) if error.reason == "timeout" else error from None
        if answer is None:
            return ChargeResult()
        if isinstance(answer, list) and len(answer) == 2:
            return ChargeResult(int(answer[0]), int(answer[1]))
        raise Down("protocol")

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value, in place of an earlier one."""
        checked(key, value)
        await self._ask("SET", self._key(key), value, "PX", _milliseconds(ttl))

    async def claim(self, key: str, value: bytes, ttl: float) -> bytes | None:
        """Keep a value unless one is alive, and return that one."""
        checked(key, value)
        return _bytes(await self._script(CLAIM, [self._key(key)], value, _milliseconds(ttl)))

    async def get(self, key: str) -> bytes | None:
        """Return a value that is still alive."""
        return _bytes(await self._ask("GET", self._key(key)))

    async def delete(self, key: str) -> None:
        """Forget a value."""
        await self._ask("DEL", self._key(key))

    async def take(self, key: str) -> bytes | None:
        """Return a value once."""
        return _bytes(await self._ask("GETDEL", self._key(key)))

    async def publish(self, topic: str, message: bytes) -> int:
        """Hand a message to everybody subscribed now, in every process; return how many processes that are."""
        checked(topic, message)
        answer = await self._ask("PUBLISH", self._channels + topic, message)
        return answer if isinstance(answer, int) else 0

    @asynccontextmanager
    async def subscribe(self, topic: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Receive a topic's messages while the block runs, also after a connection was lost; never raises ``Down``.

        The block begins when the server knows of it, or when that takes too long.
        """
        async with self.topics.listen(topic) as messages:
            try:
                if topic not in self._joined:
                    self._joined[topic] = asyncio.Event()
                    self._join(topic)
                await self._known(topic)
                yield messages
            finally:
                if self.topics.count(topic) == 1:
                    del self._joined[topic]
                    self._tell("UNSUBSCRIBE", topic)

    async def _known(self, topic: str) -> None:
        try:
            async with asyncio.timeout(JOINING if self.connected else 0):
                await self._joined[topic].wait()
        except TimeoutError:
            return

    def _join(self, topic: str) -> None:
        self._tell("SUBSCRIBE", topic)

    def _tell(self, command: str, topic: str) -> None:
        if self._links is not None and self._links.topics.open:
            try:
                self._links.topics.send(command, self._channels + topic)
            except Down as error:
                self._lost(error.reason)

    def _heard(self, answer: Answer, echoes: Asking) -> None:
        match answer:
            case [b"message", bytes(channel), bytes(message)] if len(message) <= MAX_VALUE:
                self.topics.deliver(self._topic(channel), message)
            case [b"subscribe", bytes(channel), _]:
                joined = self._joined.get(self._topic(channel))
                if joined is not None:
                    joined.set()
            case [b"pong", *_] | b"PONG":
                echoes.heard(b"PONG")
            case _:
                # An error too: a topic that we may not hear is one that the probe misses.
                return

    def _topic(self, channel: bytes) -> str:
        return channel.decode("utf-8", "replace").removeprefix(self._channels)

    def _key(self, key: str) -> str:
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).hexdigest()
        return f"{self._prefix}{key.partition(':')[0][:32]}:{digest}"

    async def _script(
        self, script: Script, keys: Sequence[str], *arguments: Part, patience: float | None = None
    ) -> Answer:
        try:
            return await self._ask("EVALSHA", script.sha1, len(keys), *keys, *arguments, patience=patience)
        except _Unknown:
            return await self._ask("EVAL", script.text, len(keys), *keys, *arguments, patience=patience)

    async def _ask(self, *command: Part, patience: float | None = None) -> Answer:
        links = self._links
        if links is None:
            raise Down("lost")
        answer = await self._asking.ask(lambda: links.commands.send(*command), patience)
        if isinstance(answer, self._no_script):
            raise _Unknown
        if isinstance(answer, Exception):
            raise Down(_REASONS.get(type(answer).__name__, "error"), broken=False)
        return answer


class _Name:
    """The server's host name, looked up in a thread of its own before anything is dialed.

    A resolver that does not answer would otherwise take one thread after another from the rest of the gateway.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._threads = ThreadPoolExecutor(1, "store name")
        self._looking: asyncio.Future[object] | None = None

    async def resolve(self) -> None:
        """Wait until the name has an address.

        Raises:
            Down: it has none, or that takes too long.
        """
        if not self._host:
            return
        if self._looking is None:
            lookup = partial(socket.getaddrinfo, self._host, None, type=socket.SOCK_STREAM)
            self._looking = asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        try:
            async with asyncio.timeout(CONNECT):
                await asyncio.shield(self._looking)
        except TimeoutError:
            # Asked again only when this one has ended.
            raise Down("timeout") from None
        except (OSError, UnicodeError):
            # The latter is a name that cannot be one.
            self._looking = None
            raise Down("unreachable") from None
        self._looking = None

    def close(self) -> None:
        """Let the thread go."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Unknown(Exception):
    """A script that the server does not have, or not any more."""


def _milliseconds(seconds: float) -> int:
    return max(math.ceil(seconds * 1000), 1)


def _bytes(answer: Answer) -> bytes | None:
    return answer if isinstance(answer, bytes) else None


_Options: TypeAlias = dict[str, str | int | float | None]


def _dialer(library: ModuleType, address: Address) -> Callable[[], Connection]:
    """Return what makes a connection that is not open yet."""
    parts = urlsplit(address.url)
    # Answers have no end of their own here: who asks has. Nothing is told of the library, nor tried again behind us.
    options: _Options = {
        "db": _database(address.url),
        "username": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT,
        "protocol": 2,
        "driver_info": None,
    }
    if parts.scheme == "unix":
        options["path"] = unquote(parts.path)
        return lambda: library.asyncio.UnixDomainSocketConnection(**options)
    options |= {"host": parts.hostname, "port": parts.port or 6379}
    if parts.scheme in ("redis", "valkey"):
        return lambda: library.asyncio.Connection(**options)
    options["ssl_ca_certs"] = address.ca or None
    if address.ca:
        try:
            ssl.create_default_context(cafile=address.ca)
        except OSError:
            raise ConfigError([Problem("cannot be read as certificates", path="state.ca")]) from None
    return lambda: library.asyncio.SSLConnection(**options)


def _database(url: str) -> int:
    parts = urlsplit(url)
    text = parse_qs(parts.query).get("db", ["0"])[0] if parts.scheme == "unix" else parts.path.strip("/")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _library() -> ModuleType:
    try:
        importlib.import_module("redis.asyncio")
        return importlib.import_module("redis")
    except ImportError:
        hint = "install aiohttp-mcp-gateway[redis]"
        raise ConfigError([Problem("this store needs the library redis", path="state.url", hint=hint)]) from None
