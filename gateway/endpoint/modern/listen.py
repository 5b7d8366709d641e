"""``subscriptions/listen``: a stream of the list changes a client asked for (2026-07-28 basic/patterns/subscriptions).

Every message carries the subscription's id, which is the request's id with its type kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from gateway.endpoint import fit, reply
from gateway.endpoint.announcements import Subscriber
from gateway.endpoint.build import invalid, known
from gateway.endpoint.expiry import ended_with
from gateway.endpoint.inbound import Equipment, Inbound, too_many_streams
from gateway.endpoint.modern import tasks
from gateway.endpoint.modern.tasks import TaskWatch
from gateway.endpoint.rejection import Rejected
from gateway.endpoint.running import Ticket
from gateway.endpoint.services import Moment, Services
from gateway.endpoint.stream import EventStream
from gateway.endpoint.tasks import Handle
from gateway.endpoint.updates import Claims, Watcher
from gateway.errors import DownstreamError
from gateway.model.call import Call, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete
from gateway.model.principal import Principal
from gateway.protocol import jsonrpc, meta, methods, rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Members, Object
from gateway.telemetry.logs import get_logger

_FILTERS: Final = {
    "toolsListChanged": frozenset({Kind.TOOL}),
    "promptsListChanged": frozenset({Kind.PROMPT}),
    "resourcesListChanged": frozenset({Kind.RESOURCE, Kind.TEMPLATE}),
}
_RESOURCES: Final = "resourceSubscriptions"
_TASKS: Final = "taskIds"
MAX_URIS: Final = 1000
_log = get_logger("endpoint")


@dataclass(slots=True, eq=False)
class _Subscription:
    """One open stream and the id it is known by."""

    id: Id
    stream: EventStream
    early: dict[str, Members] | None = field(default_factory=dict)
    """The newest state of each task that changed before the acknowledgment, which comes first; None after it."""

    def acknowledge(self, honoured: Object) -> None:
        """Send what was agreed to, before anything else (§Acknowledgment)."""
        self.send(methods.ACKNOWLEDGED, {"notifications": honoured})
        early, self.early = self.early or {}, None
        for state in early.values():
            self.task(state)

    def announce(self, method: str) -> None:
        """Send a change notification."""
        self.send(method, {})

    def updated(self, uri: str) -> None:
        """Send that a resource has changed."""
        self.send(methods.RESOURCE_UPDATED, {"uri": uri})

    def task(self, state: Members) -> None:
        """Send that a task has changed, with all that is known of it."""
        if self.early is not None:
            self.early[str(rawjson.peek(state.get(methods.TASK_ID)))] = state
            return
        params = meta.merge(state, {meta.SUBSCRIPTION_ID: self.id})
        self.stream.send(jsonrpc.encode_notification(methods.TASK_CHANGED, params))

    def send(self, method: str, params: Object) -> None:
        """Send a notification with the subscription's id in ``_meta``."""
        self.stream.send(jsonrpc.encode_notification(method, params | {"_meta": {meta.SUBSCRIPTION_ID: self.id}}))

    def expire(self) -> None:
        """End it because the credential it was opened with is over."""
        self.stream.expired()
        self.end()

    def end(self) -> None:
        """End it from our side: cancelled, the result, then the end of the stream (contract: Change notifications)."""
        self.send(methods.CANCELLED, {"requestId": self.id})
        result: Members = meta.merge(fit.own_result({}), {meta.SUBSCRIPTION_ID: self.id})
        self.stream.send(jsonrpc.encode_result(self.id, result))
        self.stream.end()


def _still_there(moment: Moment, principal: Principal, view: str | None) -> bool:
    """Tell whether a subscription's credential is accepted, and its view there."""
    return moment.authenticator.is_current(principal) and (view is None or view in moment.config.views)


class Listen:
    """Every open subscription of modern clients."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._open: set[_Subscription] = set()

    def __len__(self) -> int:
        return len(self._open)

    def end_all(self) -> None:
        """End every subscription gracefully."""
        for subscription in tuple(self._open):
            subscription.end()

    def recheck(self) -> None:
        """End the subscriptions whose credential is not accepted any more."""
        for subscription in tuple(self._open):
            if not subscription.stream.still_allowed():
                subscription.end()

    async def serve(self, inbound: Inbound, draft: Call, params: Object) -> web.StreamResponse:
        """Hold a subscription open until either side ends it.

        Raises:
            RequestError: the filter has a wrong shape.
            Rejected: 429 when this principal has too many streams.
        """
        filters = _filter(inbound, params)
        _add_tasks(filters, self._equipment.services, inbound, draft, params)
        caps, principal = self._equipment.caps, inbound.principal
        if not caps.acquire(principal.id):
            raise Rejected(too_many_streams(draft.rpc_id))
        try:
            call = replace(draft, params={"notifications": filters.honoured}, target=Target(Kind.RESOURCE, "", ""))
            exchange = Exchange()
            outcome = await self._equipment.running.run(inbound.moment, call, exchange, Ticket())
            if not isinstance(outcome, Complete):
                return reply.respond(reply.of_outcome(inbound.moment, call, exchange, outcome), inbound.extra)
            return await self._stream(inbound, call, filters)
        finally:
            caps.release(principal.id)

    async def _stream(self, inbound: Inbound, call: Call, filters: _Filters) -> web.StreamResponse:
        principal, services, updates = inbound.principal, self._equipment.services, self._equipment.updates
        stream = self._equipment.stream(inbound, "listen")
        stream.still_allowed = lambda: _still_there(services.current(), principal, inbound.view)
        subscription = _Subscription(call.rpc_id, stream)
        stream.farewell = subscription.end
        claims: Claims = {}
        ends = [TaskWatch(services, call, filters.tasks, subscription.task).begin()]
        try:
            self._claim(claims, filters)
            owners = {handle.server for handle in filters.tasks.values()}
            await services.subscribed({server for server, _ in claims.values()} | owners)
            subscription.acknowledge(filters.honoured)
            # Only now, without a pause: nothing is told before the acknowledgment, and nothing after it is missed.
            principal = services.current().authenticator.fresh(principal) or principal
            subscriber = Subscriber(principal, inbound.view, filters.kinds, subscription.announce)
            ends.append(self._equipment.announcements.subscribe(subscriber))
            ends.append(updates.subscribe(Watcher(principal, inbound.view, claims, subscription.updated)))
            self._open.add(subscription)
            if services.draining() or not stream.still_allowed():
                subscription.end()
            with ended_with(principal, subscription.expire):
                return await stream.wait_ended()
        except asyncio.CancelledError:
            stream.abandon()
            raise
        finally:
            self._open.discard(subscription)
            for unsubscribe in ends:
                unsubscribe()
            updates.release(claims, *claims)

    def _claim(self, claims: Claims, filters: _Filters) -> None:
        """Pass the subscriptions on; what a server cannot take is not acknowledged."""
        for uri, target in filters.targets.items():
            try:
                self._equipment.updates.claim(claims, uri, target)
            except DownstreamError as error:
                _log.info("subscription_failed", server=target.server, reason=error.message)
        if filters.targets and not claims:
            del filters.honoured[_RESOURCES]
        elif claims:
            filters.honoured[_RESOURCES] = [*claims]


@dataclass(frozen=True, slots=True)
class _Filters:
    """What a client may hear of: kinds of lists, resources, tasks, and how the acknowledgment names them."""

    kinds: frozenset[Kind]
    targets: dict[str, Target]
    honoured: Object
    tasks: dict[str, Handle] = field(default_factory=dict)


def _filter(inbound: Inbound, params: Object) -> _Filters:
    """Read the filter, and keep of it only what is visible."""
    wanted = params.get("notifications")
    if not isinstance(wanted, dict):
        raise invalid("notifications must be an object")
    wanted = known(wanted, (*_FILTERS, _RESOURCES, _TASKS))
    kinds: frozenset[Kind] = frozenset()
    honoured: Object = {}
    for name, meant in _FILTERS.items():
        value = wanted.get(name, False)
        if not isinstance(value, bool):
            raise invalid(f"notifications.{name} must be true or false")
        if value:
            kinds |= meant
            honoured[name] = True
    targets: dict[str, Target] = {}
    for uri in _texts(wanted, _RESOURCES):
        target = inbound.moment.resolve_uri(uri, inbound.principal, inbound.view).target
        if target is not None:
            targets[uri] = target
    if targets:
        honoured[_RESOURCES] = [*targets]
    return _Filters(kinds, targets, honoured)


def _texts(wanted: Object, name: str) -> list[str]:
    value = wanted.get(name, [])
    found = [item for item in value if isinstance(item, str)] if isinstance(value, list) else None
    if found is None or not isinstance(value, list) or len(found) != len(value) or len(found) > MAX_URIS:
        raise invalid(f"notifications.{name} must be a list of at most {MAX_URIS} strings")
    return found


def _add_tasks(filters: _Filters, services: Services, inbound: Inbound, draft: Call, params: Object) -> None:
    """Add the tasks that a client wants to hear of, where it knows what they are (Tasks extension §Notifications)."""
    wanted = params.get("notifications")
    if not isinstance(wanted, dict) or _TASKS not in wanted:
        return
    found = tasks.handles_of(services, inbound.moment, draft, _texts(wanted, _TASKS))
    filters.tasks.update(found)
    if found:
        filters.honoured[_TASKS] = [*found]
