"""Topics of one process: who listens here, and what waits for them. Knows nothing of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.state.store import StoreRefused, checked

MAX_WAITING: Final = 256
"""Messages one subscriber may have waiting."""
MAX_SUBSCRIBERS: Final = 10_000


class Topics:
    """Hands messages to subscribers, each with a bounded queue of its own."""

    def __init__(self, waiting: int = MAX_WAITING, subscribers: int = MAX_SUBSCRIBERS) -> None:
        self._waiting = waiting
        self._most = subscribers
        self._queues: dict[str, set[asyncio.Queue[bytes]]] = {}
        self._subscribers = 0

    def count(self, topic: str) -> int:
        """Return how many listen to a topic."""
        return len(self._queues.get(topic, ()))

    def names(self) -> list[str]:
        """Return the topics somebody listens to."""
        return list(self._queues)

    def deliver(self, topic: str, message: bytes) -> int:
        """Hand a message to everybody who listens now, and return how many they are; never waits for them.

        Raises:
            StoreRefused: topic or message is too long.
        """
        checked(topic, message)
        queues = self._queues.get(topic, ())
        for queue in queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(message)
        return len(queues)

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Receive a topic's messages while the block runs; one that falls behind loses the oldest ones.

        Raises:
            StoreRefused: too many subscribers, or the topic's name is too long.
        """
        checked(topic, b"")
        if self._subscribers >= self._most:
            raise StoreRefused("too many subscribers")
        queue: asyncio.Queue[bytes] = asyncio.Queue(self._waiting)
        self._queues.setdefault(topic, set()).add(queue)
        self._subscribers += 1
        try:
            yield _messages(queue)
        finally:
            self._subscribers -= 1
            self._queues[topic].discard(queue)
            if not self._queues[topic]:
                del self._queues[topic]


async def _messages(queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while True:
        yield await queue.get()
