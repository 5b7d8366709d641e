"""``subscriptions/listen``: a stream of the list changes a client asked for (2026-07-28 basic/patterns/subscriptions).

Every message carries the subscription's id, which is the request's id with its type kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.endpoint import fit
from gateway.endpoint.announcements import Subscriber
from gateway.endpoint.build import invalid, known
from gateway.endpoint.inbound import Equipment, Inbound, too_many_streams
from gateway.endpoint.rejection import Rejected
from gateway.endpoint.stream import EventStream
from gateway.endpoint.updates import Watcher
from gateway.model.catalog import Kind
from gateway.protocol import jsonrpc, meta, methods
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Members, Object, Value

_FILTERS: Final = {
    "toolsListChanged": frozenset({Kind.TOOL}),
    "promptsListChanged": frozenset({Kind.PROMPT}),
    "resourcesListChanged": frozenset({Kind.RESOURCE, Kind.TEMPLATE}),
}
_RESOURCES: Final = "resourceSubscriptions"
MAX_URIS: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class _Subscription:
    """One open stream and the id it is known by."""

    id: Id
    stream: EventStream

    def announce(self, method: str) -> None:
        """Send a change notification."""
        self.send(method, {})

    def updated(self, uri: str) -> None:
        """Send that a resource has changed."""
        self.send(methods.RESOURCE_UPDATED, {"uri": uri})

    def send(self, method: str, params: Object) -> None:
        """Send a notification with the subscription's id in ``_meta``."""
        self.stream.send(jsonrpc.encode_notification(method, params | {"_meta": {meta.SUBSCRIPTION_ID: self.id}}))

    def end(self) -> None:
        """End it from our side: cancelled, the result, then the end of the stream (contract: Change notifications)."""
        self.send(methods.CANCELLED, {"requestId": self.id})
        result: Members = meta.merge(fit.own_result({}), {meta.SUBSCRIPTION_ID: self.id})
        self.stream.send(jsonrpc.encode_result(self.id, result))
        self.stream.end()


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

    async def serve(self, inbound: Inbound, identifier: Id, params: Object) -> web.StreamResponse:
        """Hold a subscription open until either side ends it.

        Raises:
            RequestError: the filter has a wrong shape.
            Rejected: 429 when this principal has too many streams.
        """
        kinds, uris, honoured = _filter(inbound, params)
        caps, principal = self._equipment.caps, inbound.principal
        if not caps.acquire(principal.id):
            raise Rejected(too_many_streams(identifier))
        stream = self._equipment.stream(inbound, "listen")
        services = self._equipment.services
        stream.still_allowed = lambda: services.current().authenticator.is_current(principal)
        subscription = _Subscription(identifier, stream)
        subscriber = Subscriber(principal, inbound.view, kinds, subscription.announce)
        watcher = Watcher(principal, inbound.view, uris, subscription.updated)
        ends = [self._equipment.announcements.subscribe(subscriber), self._equipment.updates.subscribe(watcher)]
        self._open.add(subscription)
        try:
            subscription.send(methods.ACKNOWLEDGED, {"notifications": honoured})
            return await stream.wait_ended()
        except asyncio.CancelledError:
            stream.abandon()
            raise
        finally:
            self._open.discard(subscription)
            for unsubscribe in ends:
                unsubscribe()
            caps.release(principal.id)


def _filter(inbound: Inbound, params: Object) -> tuple[frozenset[Kind], frozenset[str], Object]:
    """Read the filter: kinds and URIs to hear of, and what the acknowledgment names: only what is visible."""
    wanted = params.get("notifications")
    if not isinstance(wanted, dict):
        raise invalid("notifications must be an object")
    wanted = known(wanted, (*_FILTERS, _RESOURCES))
    kinds: frozenset[Kind] = frozenset()
    honoured: Object = {}
    for name, meant in _FILTERS.items():
        value = wanted.get(name, False)
        if not isinstance(value, bool):
            raise invalid(f"notifications.{name} must be true or false")
        if value:
            kinds |= meant
            honoured[name] = True
    uris = _uris(wanted.get(_RESOURCES, []))
    visible = [uri for uri in uris if _visible(inbound, uri)]
    if visible:
        honoured[_RESOURCES] = [*visible]
    return kinds, frozenset(visible), honoured


def _uris(value: Value) -> list[str]:
    uris = [uri for uri in value if isinstance(uri, str)] if isinstance(value, list) else None
    if uris is None or not isinstance(value, list) or len(uris) != len(value) or len(uris) > MAX_URIS:
        raise invalid(f"notifications.{_RESOURCES} must be a list of at most {MAX_URIS} strings")
    return uris


def _visible(inbound: Inbound, uri: str) -> bool:
    return inbound.moment.resolve_uri(uri, inbound.principal, inbound.view).target is not None
