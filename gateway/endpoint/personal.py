"""Gives a request the moment of its principal, where servers list by who asks: the only catalog it is served from.

Waits for lists where the answer depends on them, and never for those of a server that the request is not about.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gateway.endpoint.inbound import Inbound
from gateway.endpoint.services import Moment, Services
from gateway.model.catalog import Kind
from gateway.protocol import methods
from gateway.protocol.jsonrpc import Message, Request
from gateway.protocol.methods import Role

_NAMED: Final = {methods.TOOLS_CALL: Kind.TOOL, methods.PROMPTS_GET: Kind.PROMPT}
_WITHOUT: Final = frozenset({methods.PING, methods.SET_LEVEL, methods.RESOURCES_UNSUBSCRIBE})
"""Requests whose answer is the same whatever is listed."""


async def prepared(services: Services, inbound: Inbound, message: Message | None) -> Inbound:
    """Return a request with its principal's moment; ``message`` is None for several in one."""
    moment, principal = inbound.moment, inbound.principal
    if not moment.own or not (message is None or isinstance(message, Request)):
        return inbound
    if message is not None and message.method in _WITHOUT:
        return inbound
    known = _known(inbound, message) if message is not None else None
    if known is not None:
        services.personal.refresh(principal)
        return replace(inbound, moment=known)
    await services.personal.ready(principal)
    # What was read may have put another catalog in force; a config that came meanwhile is for the next request.
    now = services.current()
    moment = now if now.loaded is moment.loaded else moment
    return replace(inbound, moment=moment.of(principal))


def _known(inbound: Inbound, request: Request) -> Moment | None:
    """Return the moment by which a request can be answered without waiting, be it out of date; made once, at a cost."""
    row = methods.METHODS.get(request.method)
    if row is not None and row.role in (Role.LIST, Role.LOCAL):
        return None
    known = inbound.moment.of(inbound.principal)
    kind, name = _NAMED.get(request.method), request.params.get("name")
    if kind is not None and isinstance(name, str):
        return known if known.resolve(kind, name, inbound.principal, inbound.view) is not None else None
    return known if all(server in known.catalog.listings for server in known.own) else None
