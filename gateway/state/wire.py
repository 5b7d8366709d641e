"""One connection to a shared store, over which many callers ask at once and nobody waits for another's patience.

Commands are written as they come and answered in order, so that a caller who gives up leaves only an answer to be
dropped, never a connection to be made anew. Knows the library's connection by the few methods used; no verbs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from gateway.errors import GatewayError
from gateway.tasks import TaskSet

Part: TypeAlias = str | bytes | int
Answer: TypeAlias = object
"""Bytes, a number, None, a list of these, or the error that the store answered with."""

CONNECT: Final = 1.0
"""Seconds that connecting may take, with TLS and authentication."""

PATIENCE: Final = 0.04
"""Seconds that a charge may take; together with what is done instead this stays below 50 ms (S85)."""

LENIENCE: Final = 0.25
"""Seconds that everything else may take: it is rarer, and to do it elsewhere has consequences."""

SLOW: Final = "slow"
"""Why a charge was not waited for any longer, where nothing else is known to be wrong."""

SLICES: Final = 4
MAX_EXCUSED: Final = 20
"""Parts of that time, and how many of them may be given again because this process was too busy to look."""

MAX_UNSENT: Final = 8 * 2**20
"""Bytes that may wait to be written."""

MAX_ASKED: Final = 10_000
"""Answers that may be missing at once."""


class Down(GatewayError):
    """The store did not do what was asked, for a reason of one word; ``broken`` says that the next would fare alike."""

    def __init__(self, reason: str, *, broken: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.broken = broken


class Connection(Protocol):
    """What is used of the library's connection."""

    async def connect(self) -> None:
        """Dial and authenticate."""

    async def disconnect(self, nowait: bool = ...) -> None:
        """Close it."""

    def pack_command(self, *args: Part) -> list[bytes]:
        """Write a command out."""

    async def send_packed_command(self, command: list[bytes], check_health: bool = ...) -> None:
        """Send what was written out."""

    async def read_response(self, *, disconnect_on_error: bool) -> Answer:
        """Wait for the next answer."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The library's errors: those that are answers, those that refuse us, and all."""

    answer: type[Exception]
    refusal: type[Exception]
    every: type[Exception]


class Wire:
    """Sends commands and hands on what comes back, in order.

    ``lost`` is told once, with a reason, when the connection ends by itself.
    """

    def __init__(
        self, connection: Connection, faults: Faults, heard: Callable[[Answer], None], lost: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._faults = faults
        self._heard = heard
        self._lost = lost
        self._outbox: list[bytes] = []
        self._unsent = 0
        self._filled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.open = False

    async def connect(self, tasks: TaskSet) -> None:
        """Dial, and read and write from then on.

        Raises:
            Down: it cannot be reached in time, or refuses us.
        """
        try:
            async with asyncio.timeout(CONNECT):
                await self._connection.connect()
        except TimeoutError:
            raise Down("timeout") from None
        except self._faults.refusal:
            raise Down("refused") from None
        except (self._faults.every, OSError, ValueError):
            # The latter is what the library makes of an answer of something else than a store.
            raise Down("unreachable") from None
        self.open = True
        self._tasks = [tasks.start(self._write(), "store writer"), tasks.start(self._read(), "store reader")]

    def send(self, *command: Part) -> None:
        """Write a command as soon as that is possible; never waits.

        Raises:
            Down: the connection is gone, or does not take what is written.
        """
        if not self.open:
            raise Down("lost")
        packed = self._connection.pack_command(*command)
        size = sum(map(len, packed))
        if self._unsent + size > MAX_UNSENT:
            raise Down("full")
        self._unsent += size
        self._outbox += packed
        self._filled.set()

    async def aclose(self) -> None:
        """Close the connection; ``lost`` hears nothing of it."""
        self.open = False
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        try:
            await self._connection.disconnect(nowait=True)
        except (self._faults.every, OSError):
            return

    async def _write(self) -> None:
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                batch, self._outbox = self._outbox, []
                await self._connection.send_packed_command(batch, check_health=False)
                self._unsent = sum(map(len, self._outbox))
        except (self._faults.every, OSError):
            self._gone()

    async def _read(self) -> None:
        try:
            while True:
                try:
                    answer = await self._connection.read_response(disconnect_on_error=False)
                except self._faults.answer as error:
                    answer = error
                self._heard(answer)
        except self._faults.refusal:
            self._gone("refused")
        except (self._faults.every, OSError, ValueError):
            self._gone()

    def _gone(self, reason: str = "lost") -> None:
        if self.open:
            self.open = False
            self._lost(reason)


@dataclass(slots=True, eq=False)
class _Asked:
    """An answer somebody waits for, and the clock that ends it."""

    answer: asyncio.Future[Answer]
    timer: asyncio.TimerHandle | None = None
    excused: int = 0


class Asking:
    """Questions whose answers come in order. ``heard`` takes each answer; ``fail`` ends all that wait."""

    def __init__(self) -> None:
        self._waiting: deque[_Asked] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, send: Callable[[], None], patience: float | None = None) -> Answer:
        """Send something and wait for its answer, for ``patience`` seconds; by default for ``LENIENCE``.

        Raises:
            Down: it could not be sent, or nothing came in time.
        """
        if len(self._waiting) >= MAX_ASKED:
            raise Down("full")
        send()
        asked = _Asked(asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        self._wind(asked, (LENIENCE if patience is None else patience) / SLICES, SLICES)
        try:
            return await asked.answer
        finally:
            if asked.timer is not None:
                asked.timer.cancel()

    def _wind(self, asked: _Asked, seconds: float, slices: int) -> None:
        """Wait for some slices of time. One in which this process itself stood still is no fault of the store's."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds

        def over() -> None:
            late = loop.time() - due >= seconds and asked.excused < MAX_EXCUSED
            asked.excused += late
            if slices > 1 or late:
                self._wind(asked, seconds, slices if late else slices - 1)
            elif not asked.answer.done():
                asked.answer.set_exception(Down("timeout"))

        asked.timer = loop.call_at(due, over)

    def heard(self, answer: Answer) -> None:
        """Give an answer to who has waited longest; who has given up gets none."""
        if self._waiting:
            future = self._waiting.popleft().answer
            if not future.done():
                future.set_result(answer)

    def fail(self, reason: str) -> None:
        """Tell everybody that no answer will come."""
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(Down(reason))
