"""Whose turn it is on a connection that cannot tell which of several calls a question belongs to: one call at a time.

A call that waits for people keeps its turn and makes nobody wait for them: who queues behind it leaves at once, with
nothing sent, and finds another place. Knows no connection and no call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.errors import DownstreamError, Reason


class Held(DownstreamError):
    """The call whose turn it is waits for people; nothing was sent."""

    def __init__(self, server: str) -> None:
        text = f'server "{server}" waits for the answer to a question of another of your calls; answer that one first'
        super().__init__(Reason.OVERLOADED, text)


class Turns:
    """The turns on one connection. ``freed`` is called when the one whose turn it is no longer waits for people."""

    def __init__(self, server: str, freed: Callable[[], None]) -> None:
        self._server = server
        self._freed = freed
        self._taken = False
        self._held = False
        self._queue: deque[asyncio.Future[None]] = deque()
        """Who waits; each also holds one of the places of its server, which bounds them."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_held(self) -> bool:
        """Tell whether people are waited for."""
        return self._held

    @asynccontextmanager
    async def take(self, timeout: float) -> AsyncIterator[None]:
        """Have the turn while the body runs; wait for it in order, no longer than ``timeout`` seconds.

        Raises:
            DownstreamError: ``Held``, or ``overloaded``: the call before takes too long. Nothing was sent.
        """
        await self._wait(timeout)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, timeout: float) -> None:
        if self._held:
            raise Held(self._server)
        if not self._taken:
            self._taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        came = False
        try:
            async with asyncio.timeout(timeout):
                await turn
            came = True
        except TimeoutError:
            text = f'server "{self._server}" takes calls of yours one at a time, and another one takes too long'
            raise DownstreamError(Reason.OVERLOADED, text) from None
        finally:
            if not came:
                self._leave(turn)

    def _leave(self, turn: asyncio.Future[None]) -> None:
        if turn in self._queue:
            self._queue.remove(turn)
        elif turn.done() and not turn.cancelled() and turn.exception() is None:
            # It came in the same turn of the loop as the end of the wait.
            self._pass_on()

    def _pass_on(self) -> None:
        self._taken = False
        while self._queue and not self._taken:
            turn = self._queue.popleft()
            if not turn.done():
                self._taken = True
                turn.set_result(None)
        self.go_on()

    def hold(self) -> None:
        """Note that the one whose turn it is waits for people."""
        self._held = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(Held(self._server))

    def go_on(self) -> None:
        """Note that it does not any more."""
        if self._held:
            self._held = False
            self._freed()
