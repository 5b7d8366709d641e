"""What one gateway of several needs to act as one with the others: its id, its post, and calls passed on both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from gateway.audit import record
from gateway.audit.log import AuditLog
from gateway.downstream.pool import Pool
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.pipeline.dispatch import Servers
from gateway.protocol.rawjson import Object
from gateway.replicas.elsewhere import Elsewhere
from gateway.replicas.hosting import Hosting
from gateway.replicas.identity import new_replica_id
from gateway.replicas.post import Post
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

LISTENING_WITHIN: Final = 2.0
"""Seconds that a start waits for the post to arrive; it arrives later where the store is away."""
FAREWELL: Final = 3.0
"""Seconds in which the outcomes of calls that ended with this gateway are fetched by those who wait for them."""

Describe: TypeAlias = Callable[[Call, Exchange], Object]
"""Says who asked for what, as all audit records of a call do."""

_log = get_logger("replicas")


class Neighbours:
    """The other replicas, as one of them knows them."""

    def __init__(self, store: Store, sealer: Sealer, *, alone: bool) -> None:
        self.post = Post(store, sealer, new_replica_id(), alone=alone)
        self._tasks = TaskSet(on_crash(_log))
        self._hosting: Hosting | None = None

    @property
    def replica(self) -> str:
        """The id of this process among all replicas, for as long as it runs."""
        return self.post.replica

    def connect(self, pool: Pool, describe: Describe, log: AuditLog) -> Servers:
        """Return the servers of all replicas; those here serve others from now on."""
        ledger = _Ledger(describe, log)
        self._hosting = Hosting(pool, self.post, ledger, self._tasks)
        return Elsewhere(pool, self.post, self._tasks, ledger.taken_over)

    async def start(self) -> None:
        """Receive letters from now on, or as soon as the store is there."""
        if self.post.alone:
            return
        self._tasks.start(self.post.run(), "post")
        try:
            async with asyncio.timeout(LISTENING_WITHIN):
                await self.post.listening.wait()
        except TimeoutError:
            _log.warning("post_not_listening")

    async def drain(self, seconds: float) -> None:
        """Wait until no call of another replica runs here, at most so long."""
        if self._hosting is not None:
            await self._hosting.drain(seconds)

    async def aclose(self) -> None:
        """Let those who wait elsewhere fetch what ended, then receive nothing more."""
        await self.drain(FAREWELL)
        await self._tasks.aclose()


class _Ledger:
    """Writes down where a call of this log is."""

    def __init__(self, describe: Describe, log: AuditLog) -> None:
        self._describe = describe
        self._log = log

    def moved(self, call: Call, exchange: Exchange, replica: str, *, held: bool) -> None:
        """Record that a call goes on at another replica, or waits here once more."""
        self._log.note(record.call_moved(self._describe(call, exchange), call.round, replica, held=held))

    async def taken_over(self, call: Call, exchange: Exchange, replica: str) -> None:
        """Record that a call of another replica's log goes on for a client here, whose log has its end from now on.

        Raises:
            AuditUnavailable: it cannot be recorded, so the call must stay where it is.
        """
        entry = record.call_moved(self._describe(call, exchange), call.round, replica, held=True)
        await self._log.append(entry, durable=True)
