"""The one place that starts background tasks, so that each has an owner, a name and a reported end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

OnCrash = Callable[[str, BaseException], None]
T = TypeVar("T")


async def outcome(work: Awaitable[T]) -> T | Exception:
    """Return what ``work`` comes to, or what it fails with: for tasks that go on whatever broke, and say so."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - at the root of such a task: it must not end of one odd failure.
        return error


class TaskSet:
    """Tasks that live and end with their owner.

    ``asyncio.TaskGroup`` must be left by the task that entered it; a connection is closed by whoever
    notices its end, so it needs this instead. A crash is handed to ``on_crash``, never lost.
    """

    def __init__(self, on_crash: OnCrash) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_crash = on_crash
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run ``work`` until it ends or the set is closed; a closed set starts nothing."""
        if self._closed:
            work.close()
            raise RuntimeError(f"task {name!r} started after its owner was closed")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_crash(task.get_name(), error)

    async def settled(self) -> None:
        """Wait until what runs now has ended by itself; the caller bounds the time."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Cancel what still runs and wait for it, but for the task that calls."""
        self._closed = True
        current = asyncio.current_task()
        others = [task for task in self._tasks if task is not current]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
