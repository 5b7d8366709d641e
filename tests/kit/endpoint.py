"""An endpoint with scripted insides: real HTTP, real authentication and catalog, and a chain that a test writes."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

from gateway.auth.authenticate import Authenticator
from gateway.auth.throttle import Throttle
from gateway.catalog import guidance
from gateway.catalog.build import build
from gateway.catalog.index import Index
from gateway.config.access import Client
from gateway.config.root import Config, Listen, LoadedConfig
from gateway.downstream.oauth.consents import Consents
from gateway.endpoint.body import BodyLimits
from gateway.endpoint.connection import Bounds
from gateway.endpoint.server import Endpoint
from gateway.endpoint.services import ChangeListener, OwnListener, TaskListener, UpdateListener
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Catalog, Definition, Kind, Listing, Route
from gateway.model.exchange import Exchange, InstanceFacts
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Outcome
from gateway.model.principal import Principal
from gateway.pipeline import extensions, resources
from gateway.pipeline.resources import Resolved
from gateway.policy.limits import InFlight, RequestBudget
from gateway.protocol import rawjson
from gateway.protocol.versions import Era
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Post
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.spans import OFF, Tracer
from tests.kit.definitions import definition, listing, stdio, tool

ALICE_KEY = "mcpgw_alice000_" + "a" * 43
BOB_KEY = "mcpgw_bob00000_" + "b" * 43
ALICE = [("Authorization", f"Bearer {ALICE_KEY}")]
BOB = [("Authorization", f"Bearer {BOB_KEY}")]
SEALER = Sealer([b"s" * 32])
ECHO_SCHEMA: rawjson.Object = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "text": {"type": "string"}},
}

Run: TypeAlias = Callable[[Call, Exchange], Awaitable[Outcome]]
Hides: TypeAlias = Callable[[Principal, Target], bool]


async def echo(call: Call, exchange: Exchange) -> Outcome:
    """Answer with what arrived."""
    exchange.mark_dispatched()
    exchange.instance = InstanceFacts(call.target.server, "stdio", "pid:1#1", "f00d", pin="ok")
    text = rawjson.encode({"server": call.target.server, "params": call.params}).decode()
    return Complete({"content": rawjson.raw([{"type": "text", "text": text}])})


def shows_all(principal: Principal, target: Target) -> bool:
    """Hide nothing."""
    return False


NOTES = (
    tool("add", description="Adds."),
    tool("region", inputSchema=ECHO_SCHEMA),
    definition(Kind.PROMPT, "greet"),
    definition(Kind.RESOURCE, "note://one", title="one"),
    definition(Kind.TEMPLATE, "note://{id}", title="note"),
)
OFFERED: dict[str, rawjson.Value] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
}


def config(**sections: object) -> Config:
    """Return a config of a loopback endpoint with a server ``notes``."""
    base: dict[str, object] = {"listen": Listen(port=0), "servers": {"notes": stdio()}}
    return Config(**(base | sections))  # type: ignore[arg-type]  # reason: sections are Config's own fields.


def keyed(**sections: object) -> Config:
    """Return a config with the clients alice and bob."""
    clients = {
        name: Client(key_sha256=[hashlib.sha256(key.encode()).hexdigest()])
        for name, key in (("alice", ALICE_KEY), ("bob", BOB_KEY))
    }
    return config(clients=clients, **sections)


@dataclass(slots=True)
class FakeMoment:
    """A snapshot whose chain is the test's own function."""

    loaded: LoadedConfig
    catalog: Catalog
    authenticator: Authenticator
    digest: str = "d1"
    chain: Run = echo
    hides: Hides = shows_all
    sieve: Callable[[rawjson.Members], rawjson.Members | None] = dict
    own: tuple[str, ...] = ()
    portraits: dict[str, FakeMoment] = field(default_factory=dict)
    """What single principals see instead, by id."""
    looked: list[str] = field(default_factory=list)
    """Who asked what it sees, by id."""

    def of(self, principal: Principal) -> FakeMoment:
        self.looked.append(principal.id)
        return self.portraits.get(principal.id, self)

    @property
    def config(self) -> Config:
        return self.loaded.config

    def _sees(self, principal: Principal, view: str | None, target: Target) -> bool:
        if view is not None and f"{target.server}/{target.name}" not in self.config.views[view].include:
            return False
        return not self.hides(principal, target)

    def listed(self, kind: Kind, principal: Principal, view: str | None) -> tuple[Route, ...]:
        routes = self.catalog.by_kind.get(kind, ())
        return tuple(route for route in routes if self._sees(principal, view, target_of(route)))

    def resolve(self, kind: Kind, exposed: str, principal: Principal, view: str | None) -> Route | None:
        route = self.catalog.by_name.get((kind, exposed))
        return route if route is not None and self._sees(principal, view, target_of(route)) else None

    async def find(self, query: str, limit: int, principal: Principal, view: str | None) -> list[Route]:
        return Index.of(self.listed(Kind.TOOL, principal, view)).ranked(query)[:limit]

    def resolve_uri(self, uri: str, principal: Principal, view: str | None) -> Resolved:
        return resources.resolve(
            self.catalog, self.config.servers, uri, lambda target: self._sees(principal, view, target)
        )

    def bare_uri(self, route: Route, principal: Principal, view: str | None) -> str:
        if route.kind is Kind.RESOURCE:
            return self.shown_uri(route.server, route.name, principal, view)
        rivals = self.catalog.by_uri.get((route.kind, route.name), ())
        seen = [rival for rival in rivals if self._sees(principal, view, target_of(rival))]
        return route.name if len(seen) < 2 else resources.qualified(route.server, route.name)

    def shown_uri(self, server: str, uri: str, principal: Principal, view: str | None) -> str:
        return resources.shown(self.catalog, server, uri, lambda target: self._sees(principal, view, target))

    def offers(self, era: Era, principal: Principal, view: str | None) -> rawjson.Object:
        return extensions.offered(self.catalog, era, lambda target: self._sees(principal, view, target))

    def guidance(self, principal: Principal, view: str | None) -> str:
        return guidance.told(self.catalog, lambda target: self._sees(principal, view, target))

    def owner(self, method: str, principal: Principal, caller: Caller) -> Target | None:
        return extensions.owner(
            self.catalog,
            method,
            caller.capabilities,
            caller.era,
            lambda target: self._sees(principal, caller.view, target),
        )

    def sift(self, server: str, task: rawjson.Members, done: Callable[[rawjson.Members | None], None], /) -> None:
        done(self.sieve(task))

    async def run(self, call: Call, exchange: Exchange) -> Outcome:
        return await self.chain(call, exchange)


def target_of(route: Route) -> Target:
    """Return a route's target."""
    return Target(route.kind, route.server, route.name, route.definition.annotations)


def moment(
    settings: Config | None = None, lists: Mapping[str, tuple[Definition, ...] | Listing] | None = None
) -> FakeMoment:
    """Return a snapshot of a config and of what its servers list; tuples become modern listings."""
    settings = settings or config()
    listings = {
        name: found if isinstance(found, Listing) else listing(name, *found, era="modern", capabilities=OFFERED)
        for name, found in (lists or {"notes": NOTES}).items()
    }
    servers = {name: settings.servers.get(name, stdio()) for name in listings}
    settings = settings.model_copy(update={"servers": servers})
    loaded = LoadedConfig(config=settings, path=Path("gateway.yaml"), digest="00")
    catalog = build(settings.naming, servers, listings)
    return FakeMoment(loaded, catalog, Authenticator(loaded, lambda: datetime.now(UTC)))


@dataclass(slots=True)
class FakeFeed:
    """What servers tell of tasks: by a test's own word."""

    listeners: list[TaskListener] = field(default_factory=list)
    watched: Counter[tuple[str, str]] = field(default_factory=Counter)
    refuses: set[str] = field(default_factory=set)

    def task_news(self, listener: TaskListener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def watch_task(self, server: str, task: str) -> None:
        if server in self.refuses:
            raise DownstreamError(Reason.OVERLOADED, "too many tasks")
        self.watched[server, task] += 1

    def unwatch_task(self, server: str, task: str) -> None:
        self.watched[server, task] -= 1

    def tell(self, news: TaskNews) -> None:
        """Publish a change."""
        for listener in tuple(self.listeners):
            listener(news)


@dataclass(slots=True)
class FakeOwnLists:
    """The lists of single principals: changes by a test's own word."""

    listeners: list[OwnListener] = field(default_factory=list)
    waited: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    followed: Counter[str] = field(default_factory=Counter)

    async def ready(self, principal: Principal) -> None:
        self.waited.append(principal.id)

    def refresh(self, principal: Principal) -> None:
        self.refreshed.append(principal.id)

    def follow(self, principal: Principal) -> Callable[[], None]:
        self.followed[principal.id] += 1
        return lambda: self.followed.subtract([principal.id])

    def changes(self, listener: OwnListener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def changed(self, server: str, whose: str | None, *kinds: Kind) -> None:
        """Publish a change."""
        for listener in tuple(self.listeners):
            listener(server, whose, frozenset(kinds))


@dataclass(slots=True)
class FakeServices:
    """What the endpoint asks of the gateway; keeps what it was told."""

    now: FakeMoment
    sealer: Sealer = SEALER
    metrics: Metrics = field(default_factory=Metrics)
    throttle: Throttle = field(init=False)
    budget: RequestBudget = field(init=False)
    consents: Consents = field(default_factory=Consents)
    in_flight: InFlight = field(default_factory=lambda: InFlight(64))
    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    refused: list[Call] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    listeners: list[ChangeListener] = field(default_factory=list)
    updated: list[UpdateListener] = field(default_factory=list)
    pages: list[UpdateListener] = field(default_factory=list)
    reloaded: list[Callable[[], None]] = field(default_factory=list)
    wished: Counter[tuple[str, str]] = field(default_factory=Counter)
    unwished: asyncio.Event = field(default_factory=asyncio.Event)
    refuses: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    lists: list[tuple[str, int]] = field(default_factory=list)
    floods: list[tuple[str, str]] = field(default_factory=list)
    is_draining: bool = False
    slow: asyncio.Event | None = None
    """Until it is set, servers do not take what they are told."""
    pool: FakeFeed = field(default_factory=FakeFeed)
    personal: FakeOwnLists = field(default_factory=FakeOwnLists)
    tracer: Tracer = OFF
    store: Store = field(default_factory=MemoryStore)
    post: Post = field(default_factory=lambda: Post(MemoryStore(), SEALER, new_replica_id(), alone=True))

    def __post_init__(self) -> None:
        self.throttle = Throttle(self.now.config.auth.throttle.failures)
        self.budget = RequestBudget(MemoryStore(), self.now.config.limits.requests)

    def current(self) -> FakeMoment:
        return self.now

    def draining(self) -> bool:
        return self.is_draining

    def changes(self, listener: ChangeListener) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def changed(self, server: str, *kinds: Kind) -> None:
        """Publish a change."""
        for listener in self.listeners:
            listener(server, frozenset(kinds))

    def resource_updates(self, listener: UpdateListener) -> Callable[[], None]:
        self.updated.append(listener)
        return lambda: self.updated.remove(listener)

    def resource_changed(self, server: str, uri: str) -> None:
        """Publish an update."""
        for listener in self.updated:
            listener(server, uri)

    def elicitations(self, listener: UpdateListener) -> Callable[[], None]:
        self.pages.append(listener)
        return lambda: self.pages.remove(listener)

    def reloads(self, listener: Callable[[], None]) -> Callable[[], None]:
        self.reloaded.append(listener)
        return lambda: self.reloaded.remove(listener)

    def reload(self, now: FakeMoment) -> None:
        """Put another snapshot in force and say so."""
        self.now = now
        for listener in self.reloaded:
            listener()

    def subscribe(self, server: str, uri: str) -> None:
        if uri in self.refuses:
            raise DownstreamError(Reason.OVERLOADED, "too many")
        self.wished[server, uri] += 1

    def unsubscribe(self, server: str, uri: str) -> None:
        self.wished[server, uri] -= 1
        if not self.wished[server, uri]:
            del self.wished[server, uri]
        self.unwished.set()

    async def subscribed(self, servers: Iterable[str]) -> None:
        told = sorted(servers)
        self.told += told
        if told and self.slow is not None:
            await self.slow.wait()

    async def security_event(self, event: str, fields: dict[str, object]) -> None:
        self.events.append((event, fields))

    async def denied(self, call: Call) -> None:
        self.refused.append(call)

    def listed(self, draft: Call, items: int) -> None:
        self.lists.append((draft.method, items))

    def limited(self, principal: Principal, caller: Caller) -> None:
        self.floods.append((principal.id, caller.era.value))

    async def end_session(self, session_id: str) -> None:
        self.ended.append(session_id)


@dataclass(frozen=True, slots=True)
class Site:
    """A served endpoint."""

    port: int
    endpoint: Endpoint
    services: FakeServices

    @property
    def moment(self) -> FakeMoment:
        return self.services.now


@asynccontextmanager
async def serving(
    now: FakeMoment | None = None,
    bounds: Bounds | None = None,
    limits: BodyLimits | None = None,
    services: FakeServices | None = None,
) -> AsyncIterator[Site]:
    """Serve an endpoint on a free loopback port for a block."""
    services = services or FakeServices(now or moment())
    endpoint = Endpoint(services, bounds, limits)
    runner = web.ServerRunner(endpoint.server, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield Site(int(runner.addresses[0][1]), endpoint, services)
    finally:
        endpoint.close_streams()
        await endpoint.aclose()
        await runner.cleanup()


class Gate:
    """A chain that holds every call until it is opened; knows which began and which were cancelled."""

    def __init__(self) -> None:
        self.began: asyncio.Queue[Call] = asyncio.Queue()
        self.cancelled: asyncio.Queue[Call] = asyncio.Queue()
        self.opened = asyncio.Event()

    async def __call__(self, call: Call, exchange: Exchange) -> Outcome:
        self.began.put_nowait(call)
        exchange.mark_dispatched()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled.put_nowait(call)
            raise
        return await echo(call, exchange)


async def soon(queue: asyncio.Queue[Call]) -> Call:
    """Take the next call of a queue, within the time limit."""
    async with asyncio.timeout(5):
        return await queue.get()
