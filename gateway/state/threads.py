"""A few threads for work that may hang, so that it takes none from the rest of the gateway. Knows nothing of the work.

A database that does not answer, or a mount whose server is gone, holds whoever asks it for seconds or for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from gateway.state.documents import Unreachable

THREADS: Final = 8
MAX_WORK: Final = 256
"""Pieces of work that run or wait at once; one more is refused."""

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Threads with one purpose, of which each event loop may ask."""

    def __init__(self, name: str, most: int = THREADS, work: int = MAX_WORK) -> None:
        self._executor = ThreadPoolExecutor(most, name)
        self._room = threading.BoundedSemaphore(work)

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` in one of them; who is cancelled leaves it to its own end.

        Raises:
            Unreachable: too much waits already, or they have ended; and whatever ``work`` raises.
        """
        return await self.begin(work, *args, **kwargs)

    def begin(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Begin ``work`` in one of them and return where its end will be.

        Raises:
            Unreachable: too much waits already, or they have ended.
        """
        if not self._room.acquire(blocking=False):
            raise Unreachable(errno.EBUSY, "too much waits for it already")
        call = partial(contextvars.copy_context().run, work, *args, **kwargs)
        try:
            future = self._executor.submit(call)
        except RuntimeError:
            self._room.release()
            raise Unreachable(errno.ESHUTDOWN, "is closed") from None
        future.add_done_callback(lambda done: self._room.release())
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Begin nothing any more; what runs ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)
