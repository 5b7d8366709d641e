"""GET in the legacy era: a stream for what belongs to no request, as many per session as the cap allows.

Streams here are not resumable: no event carries an id.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from gateway.endpoint.inbound import Equipment, Inbound, too_many_streams
from gateway.endpoint.legacy.session import Session
from gateway.endpoint.rejection import Rejected


async def serve(equipment: Equipment, inbound: Inbound, session: Session) -> web.StreamResponse:
    """Hold a stream open until the client leaves, the session ends or the gateway drains.

    Raises:
        Rejected: 429 when this principal has too many streams.
    """
    principal = inbound.principal
    if not equipment.caps.acquire(principal.id):
        raise Rejected(too_many_streams(None))
    stream = equipment.stream(inbound, "get")
    stream.still_allowed = lambda: equipment.services.current().authenticator.is_current(principal)
    try:
        stream.start()
        session.attach(stream)
        return await stream.wait_ended()
    except asyncio.CancelledError:
        stream.abandon()
        raise
    finally:
        session.detach(stream)
        equipment.caps.release(principal.id)
