"""Changes of single resources, as the subscribers of both eras hear of them: only those they may read, coalesced.

A subscription is passed on to the server that owns the resource, and taken back when its session or stream is over.
A server tells of its own URI, or of a part of it; a subscriber hears it in the form in which it subscribed, bare or
``SERVER+URI``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.endpoint.services import Moment, Services
from gateway.model.call import Target
from gateway.model.principal import Principal
from gateway.pipeline.resources import qualified
from gateway.protocol.uris import enclosing

COALESCE: Final = 0.05
"""Seconds in which further updates of a resource become one notification."""

MAX_PARTS: Final = 64
"""Notifications at a time that name parts of what was subscribed to; with more it is the whole that has changed."""

Deliver = Callable[[str], None]
"""Takes a URI as the subscriber wrote it; must not block."""

Claims: TypeAlias = dict[str, tuple[str, str]]
"""What a session or stream subscribed to, as it wrote it, and the server and URI that this stands for."""


@dataclass(slots=True, eq=False)
class Watcher:
    """Who wants to hear of which URIs; ``uris`` may change while it is subscribed."""

    principal: Principal
    view: str | None
    uris: Collection[str]
    deliver: Deliver
    due: dict[str, None] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None

    def hears(self, moment: Moment, server: str, uri: str) -> tuple[str, str] | None:
        """Return what this principal subscribed to that a resource is or lies within, and the resource, likewise."""
        for each in enclosing(uri):
            for form, part in zip(_forms(server, each), _forms(server, uri), strict=True):
                if form in self.uris and self._reads(moment, form, (server, each)):
                    return (form, part) if self._reads(moment, part, (server, uri)) else None
        return None

    def _reads(self, moment: Moment, form: str, meant: tuple[str, str]) -> bool:
        target = moment.resolve_uri(form, self.principal, self.view).target
        return target is not None and (target.server, target.name) == meant

    def flush(self) -> None:
        """Deliver what has come together."""
        self.timer = None
        due, self.due = self.due, {}
        for uri in due:
            self.deliver(uri)


def _forms(server: str, uri: str) -> tuple[str, ...]:
    return uri, f"{server}+{uri}", qualified(server, uri)


class Updates:
    """Everyone who waits for changes of resources at this endpoint."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._watchers: set[Watcher] = set()
        self._unsubscribe = services.resource_updates(self._updated)

    def subscribe(self, watcher: Watcher) -> Callable[[], None]:
        """Deliver updates from now on; the result ends that."""
        self._watchers.add(watcher)

        def unsubscribe() -> None:
            self._watchers.discard(watcher)
            if watcher.timer is not None:
                watcher.timer.cancel()

        return unsubscribe

    def claim(self, claims: Claims, form: str, target: Target) -> None:
        """Pass a subscription on to its server, once.

        Raises:
            DownstreamError: the server cannot take it.
        """
        if form not in claims:
            self._services.subscribe(target.server, target.name)
            claims[form] = (target.server, target.name)

    def release(self, claims: Claims, *forms: str) -> None:
        """Take subscriptions back."""
        for form in forms:
            claim = claims.pop(form, None)
            if claim is not None:
                self._services.unsubscribe(*claim)

    def refresh(self, fresh: Callable[[Principal], Principal | None]) -> None:
        """Judge watchers from now on as they are configured now; those that are gone end by themselves."""
        for watcher in self._watchers:
            watcher.principal = fresh(watcher.principal) or watcher.principal

    def close(self) -> None:
        """Hear of nothing any more."""
        self._unsubscribe()
        for watcher in self._watchers:
            if watcher.timer is not None:
                watcher.timer.cancel()
        self._watchers.clear()

    def _updated(self, server: str, uri: str) -> None:
        current = self._services.current()
        # Making a moment for each principal takes a while: only for those who asked for something like it.
        forms = {form for each in enclosing(uri) for form in _forms(server, each)}
        for watcher in self._watchers:
            asked = watcher.uris and any(form in watcher.uris for form in forms)
            heard = watcher.hears(current.of(watcher.principal), server, uri) if asked else None
            if heard is None:
                continue
            watcher.due[heard[len(watcher.due) < MAX_PARTS]] = None
            if watcher.timer is None:
                watcher.timer = asyncio.get_running_loop().call_later(COALESCE, watcher.flush)
