"""Several replicas in one process: each with servers, post and log of its own, around a store that all share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from gateway.config.servers import Server
from gateway.downstream.guardian import Guardian
from gateway.downstream.hooks import Hooks
from gateway.downstream.pool import Pool, PoolOptions
from gateway.downstream.setup import MakeTransport
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.replicas.elsewhere import Elsewhere
from gateway.replicas.hosting import Hosting
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Post
from gateway.state.memory import MemoryStore
from gateway.state.sealing import Sealer
from gateway.tasks import TaskSet

SEALER = Sealer([b"k" * 32])


class SharedMemory(MemoryStore):
    """What replicas share. ``up``: it is there; ``loses`` says which messages never arrive, by topic and number.

    To topics that are ``deserted`` nobody listens any more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up = True
        self.loses: Callable[[str, int], bool] = lambda topic, number: False
        self.deserted: set[str] = set()
        self.published: list[tuple[str, bytes]] = []

    @property
    def reaches_others(self) -> bool:
        return self.up

    async def publish(self, topic: str, message: bytes) -> int:
        self.published.append((topic, message))
        if not self.up or topic in self.deserted:
            return 0
        if self.loses(topic, len(self.published)):
            return 1
        return await super().publish(topic, message)

    async def get(self, key: str) -> bytes | None:
        return await super().get(key) if self.up else None

    async def take(self, key: str) -> bytes | None:
        return await super().take(key) if self.up else None


@dataclass
class Moved:
    """Where a call went, as one replica's log has it."""

    rows: list[tuple[str, str, bool]] = field(default_factory=list)
    taken: list[tuple[str, str]] = field(default_factory=list)

    def moved(self, call: Call, exchange: Exchange, replica: str, *, held: bool) -> None:
        self.rows.append((call.id, replica, held))

    async def take_over(self, call: Call, exchange: Exchange, replica: str) -> None:
        self.taken.append((call.id, replica))


@dataclass
class Replica:
    """One of several."""

    pool: Pool
    post: Post
    servers: Elsewhere
    hosting: Hosting
    tasks: TaskSet
    moved: Moved
    lapsed: list[Outcome]
    crashes: list[str]

    async def call(self, call: Call, exchange: Exchange | None = None) -> Outcome:
        """Pass a call on, in bounded time."""
        async with asyncio.timeout(20):
            return await self.servers.call(call, exchange or Exchange())

    async def kill(self) -> None:
        """End it as a crash would: nobody hears of it."""
        await self.tasks.aclose()

    async def stop(self) -> None:
        """End it in order: its servers first."""
        await self.pool.aclose()
        await self.hosting.drain(2)
        await self.tasks.aclose()


@asynccontextmanager
async def replica(
    store: MemoryStore,
    servers: Mapping[str, Server],
    guardian: Guardian,
    make_transport: MakeTransport | None = None,
    *,
    alone: bool = False,
) -> AsyncIterator[Replica]:
    """Run one replica for a block."""
    lapsed: list[Outcome] = []
    crashes: list[str] = []
    tasks = TaskSet(lambda name, error: crashes.append(f"{name}: {error!r}"))
    post = Post(store, SEALER, new_replica_id(), alone=alone)
    hooks = Hooks(on_ended=lambda call, exchange, outcome: lapsed.append(outcome))
    pool = Pool(PoolOptions(guardian, make_transport, hooks=hooks, replica=post.replica))
    moved = Moved()
    made = Replica(
        pool,
        post,
        Elsewhere(pool, post, tasks, moved.take_over),
        Hosting(pool, post, moved, tasks),
        tasks,
        moved,
        lapsed,
        crashes,
    )
    pool.apply(servers)
    tasks.start(post.run(), "post")
    if not alone:
        await post.listening.wait()
    try:
        yield made
    finally:
        await made.stop()
    assert not crashes, crashes


@asynccontextmanager
async def replicas(
    count: int, servers: Mapping[str, Server], guardian: Guardian, make_transport: MakeTransport | None = None
) -> AsyncIterator[tuple[SharedMemory, list[Replica]]]:
    """Run several replicas of the same servers for a block; yields what they share, and them."""
    store = SharedMemory()
    async with AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(replica(store, servers, guardian, make_transport)) for _ in range(count)
        ]
        yield store, made
