"""What the endpoint needs of the rest of the gateway, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from gateway.auth.authenticate import Authenticator
from gateway.auth.throttle import Throttle
from gateway.config.root import Config, LoadedConfig
from gateway.downstream.oauth.consents import Consents
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Catalog, Kind, Route
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Outcome
from gateway.model.principal import Principal
from gateway.pipeline.resources import Resolved
from gateway.policy.limits import InFlight, RequestBudget
from gateway.protocol.rawjson import Members, Object
from gateway.protocol.versions import Era
from gateway.replicas.post import Post
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.spans import Tracer

ChangeListener: TypeAlias = Callable[[str, frozenset[Kind]], None]
"""Takes a server's name and the kinds whose lists may have changed; must not block."""

OwnListener: TypeAlias = Callable[[str, str | None, frozenset[Kind]], None]
"""Takes a server that lists by who asks, and the id of the principal whose lists of these kinds have changed; None:
anybody's may be others now. Must not block."""

UpdateListener: TypeAlias = Callable[[str, str], None]
"""Takes a server's name and the URI of a resource that changed; must not block."""

TaskListener: TypeAlias = Callable[[TaskNews], None]
"""Takes a server's word on a task, of whoever it is; must not block."""


class TaskFeed(Protocol):
    """What servers tell of tasks."""

    def task_news(self, listener: TaskListener) -> Callable[[], None]:
        """Hear of tasks that have changed; the result ends that."""

    def watch_task(self, server: str, task: str) -> None:
        """Have a server tell of a task's changes; each call needs its ``unwatch_task``.

        Raises:
            DownstreamError: too many tasks, or no such server.
        """

    def unwatch_task(self, server: str, task: str) -> None:
        """Undo one ``watch_task``."""


class OwnLists(Protocol):
    """The lists of single principals, of servers that list by who asks."""

    async def ready(self, principal: Principal) -> None:
        """Have a principal's lists read that are out of date; waits a bounded time."""

    def refresh(self, principal: Principal) -> object:
        """Have them read without waiting."""

    def follow(self, principal: Principal) -> Callable[[], None]:
        """Have them read whenever their server says that they have changed, until the result is called."""

    def changes(self, listener: OwnListener) -> Callable[[], None]:
        """Hear of lists that have changed; the result ends that."""


class Moment(Protocol):
    """One snapshot, as the endpoint reads it: once per request."""

    @property
    def own(self) -> tuple[str, ...]:
        """The servers that list by who asks, of which only the moment ``of`` a principal tells."""

    @property
    def loaded(self) -> LoadedConfig: ...
    @property
    def config(self) -> Config: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def authenticator(self) -> Authenticator: ...
    @property
    def digest(self) -> str: ...

    def of(self, principal: Principal) -> Moment:
        """Return this moment as a principal sees it, by what is known of its own lists now."""

    def listed(self, kind: Kind, principal: Principal, view: str | None) -> tuple[Route, ...]:
        """Return the visible routes of a kind in stable order."""

    def resolve(self, kind: Kind, exposed: str, principal: Principal, view: str | None) -> Route | None:
        """Return a visible tool or prompt by its exposed name."""

    async def find(self, query: str, limit: int, principal: Principal, view: str | None) -> list[Route]:
        """Return the visible tools that fit some words, best first."""

    def resolve_uri(self, uri: str, principal: Principal, view: str | None) -> Resolved:
        """Return where a resource URI leads."""

    def bare_uri(self, route: Route, principal: Principal, view: str | None) -> str:
        """Return how a listed resource or template is shown to a principal."""

    def shown_uri(self, server: str, uri: str, principal: Principal, view: str | None) -> str:
        """Return how a server's resource is shown to a principal, whether it is listed or not."""

    def offers(self, era: Era, principal: Principal, view: str | None) -> Object:
        """Return the extensions to offer to a principal's client of an era."""

    def guidance(self, principal: Principal, view: str | None) -> str:
        """Return the instructions for a principal's client, "" for none."""

    def owner(self, method: str, principal: Principal, caller: Caller) -> Target | None:
        """Return what a method of an extension is about; None where no server, or more than one, can be meant."""

    def sift(self, server: str, task: Members, done: Callable[[Members | None], None], /) -> None:
        """Call ``done`` with what a server tells of a task as it may be read, or None where that is withheld."""

    async def run(self, call: Call, exchange: Exchange) -> Outcome:
        """Send a call through the whole chain."""


class Services(Protocol):
    """Long-lived things, shared by all requests."""

    @property
    def sealer(self) -> Sealer: ...
    @property
    def store(self) -> Store: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def throttle(self) -> Throttle: ...
    @property
    def budget(self) -> RequestBudget: ...
    @property
    def consents(self) -> Consents: ...
    @property
    def in_flight(self) -> InFlight: ...
    @property
    def pool(self) -> TaskFeed: ...
    @property
    def tracer(self) -> Tracer: ...
    @property
    def post(self) -> Post: ...
    @property
    def personal(self) -> OwnLists: ...

    def current(self) -> Moment:
        """Return the snapshot in force."""

    def draining(self) -> bool:
        """Tell whether the gateway is shutting down."""

    def changes(self, listener: ChangeListener) -> Callable[[], None]:
        """Subscribe to list changes; the result ends the subscription."""

    def resource_updates(self, listener: UpdateListener) -> Callable[[], None]:
        """Subscribe to changes of single resources; the result ends the subscription."""

    def elicitations(self, listener: UpdateListener) -> Callable[[], None]:
        """Subscribe to the ends of pages that people were sent to, by server and id; the result ends that."""

    def reloads(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Hear of every good reload; the result ends that."""

    def subscribe(self, server: str, uri: str) -> None:
        """Have a server tell of a resource's changes; each call needs its ``unsubscribe``.

        Raises:
            DownstreamError: too many resources, or no such server.
        """

    def unsubscribe(self, server: str, uri: str) -> None:
        """Undo one ``subscribe``."""

    async def subscribed(self, servers: Iterable[str]) -> None:
        """Wait a bounded time until these servers have taken what was subscribed to."""

    async def security_event(self, event: str, fields: dict[str, object]) -> None:
        """Audit a refusal that came before any call, floods of them in sums. Never raises: the refusal stands."""

    async def denied(self, call: Call) -> None:
        """Audit a call that was refused before the chain, such as one of an unknown name. Never raises."""

    def listed(self, draft: Call, items: int) -> None:
        """Audit a list that was served, as a sample: how many items there are for its reader."""

    def limited(self, principal: Principal, caller: Caller) -> None:
        """Audit a request over ``limits.requests``, as a sample."""

    async def end_session(self, session_id: str) -> None:
        """End what servers hold for a client session that is over."""
