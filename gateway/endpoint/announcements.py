"""List changes of servers, as the subscribers of both eras hear of them: filtered by what each may see, coalesced.

Knows no streams: a subscriber gets method names and does with them what its era asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.endpoint import on_demand
from gateway.endpoint.services import Moment, Services
from gateway.model.catalog import Kind, Route
from gateway.model.principal import Principal
from gateway.protocol import methods

COALESCE: Final = 0.05
"""Seconds in which further changes become one notification (contract: at most 100 ms)."""

METHOD_OF: Final = {
    Kind.TOOL: methods.TOOLS_CHANGED,
    Kind.PROMPT: methods.PROMPTS_CHANGED,
    Kind.RESOURCE: methods.RESOURCES_CHANGED,
    Kind.TEMPLATE: methods.RESOURCES_CHANGED,
}

Deliver = Callable[[str], None]
"""Takes the method of a change notification; must not block."""


@dataclass(slots=True, eq=False)
class Subscriber:
    """Who wants to know of which kinds. ``seen`` are the lists as they were when it last looked."""

    principal: Principal
    view: str | None
    kinds: frozenset[Kind]
    deliver: Deliver
    seen: dict[Kind, tuple[Route, ...]] = field(default_factory=dict)
    pending: dict[str, None] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None

    def look(self, moment: Moment, kind: Kind) -> tuple[tuple[Route, ...], tuple[Route, ...]]:
        """Return a list as it was and as it is now, and remember how it is."""
        before = self.seen.get(kind, ())
        # What a view in search mode lists as tools is the same whatever happens behind it.
        searched = kind is Kind.TOOL and on_demand.applies(moment.config, self.view)
        now = () if searched else moment.listed(kind, self.principal, self.view)
        self.seen[kind] = now
        return before, now

    def tell_later(self, kind: Kind) -> None:
        """Deliver that a list has changed, together with what else changes right now."""
        self.pending[METHOD_OF[kind]] = None
        if self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(COALESCE, self.flush)

    def flush(self) -> None:
        """Deliver what has come together."""
        self.timer = None
        methods_due, self.pending = self.pending, {}
        for method in methods_due:
            self.deliver(method)


class Announcements:
    """Everyone who listens for list changes at this endpoint."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._subscribers: set[Subscriber] = set()
        self._ends = (services.changes(self._changed), services.personal.changes(self._own_changed))

    def __len__(self) -> int:
        return len(self._subscribers)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Deliver changes from now on; the result ends that."""
        moment = self._services.current().of(subscriber.principal)
        for kind in subscriber.kinds:
            subscriber.look(moment, kind)
        self._subscribers.add(subscriber)
        unfollow = self._services.personal.follow(subscriber.principal)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                unfollow()
            self._subscribers.discard(subscriber)
            if subscriber.timer is not None:
                subscriber.timer.cancel()

        return unsubscribe

    def refresh(self, fresh: Callable[[Principal], Principal | None]) -> None:
        """Judge subscribers from now on as they are configured now, and tell those whose lists that changed (G056).

        Those that are gone end by themselves.
        """
        current = self._services.current()
        for subscriber in self._subscribers:
            subscriber.principal = fresh(subscriber.principal) or subscriber.principal
            _tell_differing(subscriber, current)

    def close(self) -> None:
        """Hear of nothing any more."""
        for end in self._ends:
            end()
        for subscriber in self._subscribers:
            if subscriber.timer is not None:
                subscriber.timer.cancel()
        self._subscribers.clear()

    def _changed(self, server: str, kinds: frozenset[Kind]) -> None:
        current = self._services.current()
        for subscriber in self._subscribers:
            _tell(subscriber, current, server, kinds)

    def _own_changed(self, server: str, whose: str | None, kinds: frozenset[Kind]) -> None:
        """Tell the one whose lists have changed; where it is not known whose, those that read other lists now."""
        current = self._services.current()
        for subscriber in self._subscribers:
            if whose is None:
                _tell_differing(subscriber, current)
            elif subscriber.principal.id == whose:
                _tell(subscriber, current, server, kinds)


def _tell(subscriber: Subscriber, current: Moment, server: str, kinds: frozenset[Kind]) -> None:
    """Tell a subscriber of a server's lists, if it sees anything of them or did until now."""
    moment = current.of(subscriber.principal)
    for kind in sorted(kinds & subscriber.kinds):
        before, now = subscriber.look(moment, kind)
        if any(route.server == server for route in (*before, *now)):
            subscriber.tell_later(kind)


def _tell_differing(subscriber: Subscriber, current: Moment) -> None:
    """Tell a subscriber of lists that are not what they were."""
    moment = current.of(subscriber.principal)
    for kind in sorted(subscriber.kinds):
        if _differ(*subscriber.look(moment, kind)):
            subscriber.tell_later(kind)


def _differ(before: tuple[Route, ...], now: tuple[Route, ...]) -> bool:
    """Tell whether a client would read another list now."""
    return len(before) != len(now) or any(
        old.exposed != new.exposed or old.definition.digest != new.definition.digest
        for old, new in zip(before, now, strict=True)
    )
