"""What somebody wants to hear of from one server, and how the server is told of it: soon, and whole each time.

Knows one server's catalog connection, which hears of changes; not who wants to hear of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.downstream.connection import Connection
from gateway.downstream.wishes import Full, Wanted, Wishes
from gateway.errors import DownstreamError, Reason
from gateway.protocol.uris import enclosing
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

TOLD: Final = 2.0
"""Seconds a subscriber waits for a server to take its wish; a slower one takes it later."""

_log = get_logger("downstream")


class Telling:
    """Counts who wants to hear of which resource or task.

    ``catalog`` returns the connection, None while it is down. ``updated`` is told of each resource whose changes may
    have been missed.
    """

    def __init__(
        self,
        name: str,
        wanted: Wanted,
        catalog: Callable[[], Connection | None],
        updated: Callable[[str], None],
        tasks: TaskSet,
    ) -> None:
        self._name = name
        self._wanted = wanted
        self._catalog = catalog
        self._updated = updated
        self._tasks = tasks
        self._returned = False
        self._untold = False
        self._running: asyncio.Task[None] | None = None

    def wants(self, uri: str) -> bool:
        """Tell whether anybody wants to hear of a resource, or of one that it is a part of."""
        return any(each in self._wanted.resources for each in enclosing(uri))

    def subscribe(self, uri: str) -> None:
        """Hear of a resource's updates; counted, so that the last one to leave ends it.

        Raises:
            DownstreamError: ``overloaded``: too many resources.
        """
        self._add(self._wanted.resources, uri, "resources")

    def unsubscribe(self, uri: str) -> None:
        """Undo one ``subscribe``; nothing where there was none."""
        self._remove(self._wanted.resources, uri)

    def watch(self, task: str) -> None:
        """Hear of a task's changes, counted likewise.

        Raises:
            DownstreamError: ``overloaded``: too many tasks.
        """
        self._add(self._wanted.tasks, task, "tasks")

    def unwatch(self, task: str) -> None:
        """Undo one ``watch``; nothing where there was none."""
        self._remove(self._wanted.tasks, task)

    def _add(self, wishes: Wishes, name: str, what: str) -> None:
        try:
            first = wishes.add(name)
        except Full:
            text = f'server "{self._name}" is at its limit of subscribed {what}'
            raise DownstreamError(Reason.OVERLOADED, text) from None
        if first:
            self.soon()

    def _remove(self, wishes: Wishes, name: str) -> None:
        if wishes.remove(name):
            self.soon()

    async def told(self) -> None:
        """Wait until the server has taken every wish, or has taken too long over it."""
        if self._running is not None:
            await asyncio.wait([self._running], timeout=TOLD)

    def again(self) -> None:
        """Tell a server that is back, if there is anything to tell; what it serves may be another state."""
        if self._wanted:
            self._returned = True
            self.soon()

    def soon(self) -> None:
        """Tell the server in the background."""
        self._untold = True
        if self._running is None or self._running.done():
            self._running = self._tasks.start(self._tell(), f"subscribe {self._name}")

    async def _tell(self) -> None:
        """Tell the server the whole wish until it is up to date; one that is down hears it when it is back."""
        while self._untold:
            self._untold = False
            connection = self._catalog()
            if connection is None:
                return
            try:
                await connection.subscribe(self._wanted.resources.uris(), self._wanted.tasks.uris())
                self._catch_up()
            except DownstreamError as error:
                _log.info("subscription_failed", server=self._name, reason=error.message)

    def _catch_up(self) -> None:
        returned, self._returned = self._returned, False
        for uri in sorted(self._wanted.resources.uris()) if returned else ():
            self._updated(uri)
