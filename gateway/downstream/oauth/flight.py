"""One request for everybody who waits for the same thing, and no new one right after it failed (G099, G122)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable

from gateway.downstream import backoff
from gateway.downstream.oauth.errors import ConsentNeeded, NoToken
from gateway.tasks import TaskSet

LONGEST_PAUSE = 60.0
CONSENT_PAUSE = 10.0
"""Seconds in which a need for consent is not looked into again."""


class Flight:
    """Runs one piece of work at a time; who comes meanwhile shares its end. ``clock`` gives monotonic seconds."""

    def __init__(self, name: str, tasks: TaskSet, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._tasks = tasks
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._failed: NoToken | None = None
        self._about: Hashable = None
        self._until = 0.0
        self._failures = 0

    async def run(self, work: Callable[[], Coroutine[object, object, None]], about: Hashable = None) -> None:
        """Do the work, or share in what is under way. A waiter that is cancelled does not end it.

        After a failure the same error is raised for a while, without asking again, as long as it is ``about`` the same.

        Raises:
            NoToken: it failed.
        """
        if self._task is None:
            if self._failed is not None and self._about == about and self._clock() < self._until:
                raise self._failed.with_traceback(None)
            self._about = about
            self._task = self._tasks.start(self._do(work), self._name)
        await asyncio.wait([self._task])
        if self._failed is not None:
            raise self._failed.with_traceback(None)

    async def _do(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        try:
            await work()
        except NoToken as error:
            self._failures += 1
            pause = CONSENT_PAUSE if isinstance(error, ConsentNeeded) else backoff.delay(self._failures)
            self._failed, self._until = error, self._clock() + min(pause, LONGEST_PAUSE)
        else:
            self.reset()
        finally:
            self._task = None

    def reset(self) -> None:
        """Forget a failure: what was missing is there."""
        self._failed, self._failures = None, 0
