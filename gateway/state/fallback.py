"""The shared store without its outages: while it is away or slow, this process counts by itself, never not at all.

A failure opens a circuit, so that no call waits twice; a probe closes it. What was put here meanwhile stays good
here; what was deleted meanwhile is deleted there afterwards. Knows no protocol of the store and nobody to tell.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeVar

from gateway.audience import Audience
from gateway.state.memory import MemoryStore
from gateway.state.redis import RedisStore
from gateway.state.store import Charge, ChargeResult
from gateway.state.wire import SLOW, Down
from gateway.tasks import TaskSet, outcome

HEARTBEAT: Final = 1.0
"""Seconds between two probes of a store that works: an outage is known before a call meets it."""

PROBE: Final = 0.25
"""Seconds between two probes of one that does not."""

DOUBT: Final = 0.1
MOST_DOUBTS: Final = 4
"""Seconds between two probes of one that was too slow for a charge, and after how many of those it counts as away.

Meanwhile charges are local at once; a moment in which a busy machine did not get to it is no outage."""

STEADY: Final = 2
MOST_STEADY: Final = 8
"""Probes in a row after which it works again, and how many that becomes for one that keeps failing."""

CALM: Final = 30.0
"""Seconds for which it has to work so that the next failure is a first one again."""

MAX_OWED: Final = 10_000
"""Deletions that are remembered for afterwards, the newest."""

BATCH: Final = 100
"""Deletions that are asked for at once then: thousands, one after the other, would take longer than a recovery may."""

MAX_UNSURE: Final = 10_000
"""Values that are remembered as kept here although they may be there too, as no answer came; the newest."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether the shared store is used, and since when; ``reason`` is one word for why not."""

    up: bool
    reason: str
    since: datetime


class FallbackStore:
    """Implements ``Store`` over a shared one and this process's own.

    ``told`` hears of every change. ``clock`` gives monotonic seconds.
    """

    def __init__(
        self, shared: RedisStore, told: Callable[[Standing], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._shared.lost = self._fell
        self._local = MemoryStore(clock)
        self._told = told
        self._clock = clock
        self._look = asyncio.Event()
        self._owed: dict[str, None] = {}
        self._unsure: dict[str, None] = {}
        self._returns = Audience[()]()
        self._needed = STEADY
        self._doubts = 0
        self._rose_at = -CALM
        self._watching: asyncio.Task[None] | None = None
        self.standing = Standing(up=False, reason="starting", since=datetime.now(UTC))

    async def start(self, tasks: TaskSet) -> None:
        """Connect, if that works at once, and keep watch from then on."""
        reason = await self._probed()
        self._change(up=not reason, reason=reason)
        self._watching = tasks.start(self._watch(), "store watch")

    async def aclose(self) -> None:
        """Close the connections."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        self.standing = replace(self.standing, up=False, reason="closed")
        await self._shared.aclose()

    @property
    def reaches_others(self) -> bool:
        """Whether the shared store is used now."""
        return self.standing.up

    async def charge(self, items: Sequence[Charge], now: float) -> ChargeResult:
        """Count a call against every bucket or against none; by this process's own buckets while there are no others.

        Those begin full, so that N processes admit at most N times the limit.
        """
        if not self._doubts:
            try:
                return await self._try(self._shared.charge(items))
            except Down as error:
                self._doubts += error.reason == SLOW
        return await self._local.charge(items, now)

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Keep a value; here alone while there is no other place."""
        asked = self.standing.up
        try:
            await self._try(self._shared.put(key, value, ttl))
        except Down as error:
            # An earlier value that is to be deleted there still is: it would hide this one.
            await self._local.put(key, value, ttl)
            if asked and error.broken:
                # It said nothing, not even no.
                _remember(self._unsure, key, MAX_UNSURE)
        else:
            self._owed.pop(key, None)
            self._unsure.pop(key, None)
            await self._local.delete(key)

    async def claim(self, key: str, value: bytes, ttl: float) -> bytes | None:
        """Keep a value unless one is alive; of two processes without a shared store, each has a first caller."""
        held = await self._local.get(key)
        if held is not None:
            return held
        try:
            held = await self._try(self._shared.claim(key, value, ttl))
        except Down:
            return await self._local.claim(key, value, ttl)
        if held is None:
            self._owed.pop(key, None)
        return held

    async def get(self, key: str) -> bytes | None:
        """Return a value that is still alive, as far as it can be seen now."""
        try:
            value = await self._try(self._shared.get(key))
        except Down:
            value = None
        else:
            if value is None and key in self._unsure:
                # It was there, as far as can be told, and another process has deleted it: so it is gone here, too.
                del self._unsure[key]
                await self._local.delete(key)
        return value if value is not None else await self._local.get(key)

    async def delete(self, key: str) -> None:
        """Forget a value here, and there at once or afterwards."""
        await self._local.delete(key)
        try:
            await self._try(self._shared.delete(key))
        except Down:
            _remember(self._owed, key, MAX_OWED)

    async def take(self, key: str) -> bytes | None:
        """Return a value once; one that may lie in both places only from where all can take it."""
        kept = await self._local.take(key)
        if key in self._unsure:
            kept = None
        try:
            value = await self._try(self._shared.take(key))
        except Down:
            value = None
        return value if value is not None else kept

    async def publish(self, topic: str, message: bytes) -> int:
        """Hand a message to everybody subscribed in any process; while that cannot be, to those in this one."""
        if not self.standing.up:
            return self._shared.topics.deliver(topic, message)
        try:
            return await self._try(self._shared.publish(topic, message))
        except Down:
            # It may have got there all the same, so that handing it on here could do so twice.
            return 0

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Receive a topic's messages while the block runs, also before and after an outage."""
        return self._shared.subscribe(topic)

    def returned(self, listener: Callable[[], None]) -> None:
        """Hear whenever the shared store is there again, which may have forgotten everything."""
        self._returns.add(listener)

    async def _try(self, verb: Coroutine[object, object, T]) -> T:
        """Let the shared store do it.

        Raises:
            Down: it does not; from now on it is not asked any more if that will go on.
        """
        if not self.standing.up:
            verb.close()
            raise Down(self.standing.reason)
        try:
            return await verb
        except Down as error:
            if error.broken:
                self._fell(error.reason)
            # Otherwise the probe finds out whether it is this one thing or everything.
            self._look.set()
            raise

    def _fell(self, reason: str) -> None:
        self._look.set()
        if not self.standing.up:
            return
        calm = self._clock() - self._rose_at >= CALM
        self._needed = STEADY if calm else min(self._needed * 2, MOST_STEADY)
        self._change(up=False, reason=reason)

    def _change(self, *, up: bool, reason: str = "") -> None:
        self.standing = Standing(up, reason, datetime.now(UTC))
        self._doubts = 0
        if up:
            self._rose_at = self._clock()
        self._told(self.standing)
        if up:
            self._returns.tell()

    async def _watch(self) -> None:
        """Probe for ever: seldom while it works, often while it does not."""
        steady = 0
        while True:
            pause = HEARTBEAT if self.standing.up else PROBE * random.uniform(0.8, 1.2)
            await self._pause(pause)
            was_up = self.standing.up
            reason = await self._probed()
            if reason:
                steady = 0
                if reason == SLOW and was_up and self._doubts < MOST_DOUBTS:
                    self._doubts += 1
                    continue
                self._fell(reason)
                await self._shared.drop()
                continue
            self._doubts = 0
            steady = 0 if was_up else steady + 1
            if steady >= self._needed:
                steady = 0
                await self._rise()

    async def _probed(self) -> str:
        """Connect where that is needed, and do everything once; return in one word why that does not work, or "".

        Whatever answers at that address, the watch goes on.
        """
        found = await outcome(self._reach())
        return found.reason if isinstance(found, Down) else "error" if found is not None else ""

    async def _reach(self) -> None:
        if not self._shared.connected:
            await self._shared.connect()
        await self._shared.probe()

    async def _rise(self) -> None:
        """Use it again, once it forgets what was to be forgotten."""
        while self._owed:
            keys = list(islice(self._owed, BATCH))
            try:
                await asyncio.gather(*(self._shared.delete(key) for key in keys))
            except Down:
                return
            for key in keys:
                self._owed.pop(key, None)
        self._change(up=True)

    async def _pause(self, seconds: float) -> None:
        if self._doubts:
            await asyncio.sleep(DOUBT if self._doubts > 1 else 0)
        elif not self.standing.up:
            # Every call would ask for a look now; the probe has its own pace.
            await asyncio.sleep(seconds)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._look.wait()
        self._look.clear()


def _remember(names: dict[str, None], name: str, most: int) -> None:
    names[name] = None
    if len(names) > most:
        del names[next(iter(names))]
