"""GET in the legacy era: a stream for what belongs to no request, as many per session as the cap allows.

With ``Last-Event-ID`` it is the rest of a stream that broke, a call's included (2025-11-25 basic/transports
§Resumability and Redelivery).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from aiohttp import web

from gateway.endpoint.expiry import ended_with
from gateway.endpoint.inbound import Equipment, Inbound, too_many_streams
from gateway.endpoint.legacy.session import Session
from gateway.endpoint.legacy.track import Forgotten, Sort, Track
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.endpoint.stream import EventStream
from gateway.protocol import codes, headers


async def serve(equipment: Equipment, inbound: Inbound, session: Session) -> web.StreamResponse:
    """Hold a stream open until the client leaves, the session ends, the gateway drains, or a call is answered.

    Raises:
        Rejected: 429 when this principal has too many streams; 400 for an event of a call that is forgotten.
    """
    principal = inbound.principal
    try:
        found = session.tracks.find(inbound.head.headers.get(headers.LAST_EVENT_ID.lower()))
    except Forgotten:
        text = f"Bad request: {headers.LAST_EVENT_ID} names an event that is not known any more"
        raise Rejected(Rejection(400, codes.INVALID_REQUEST, text, "event_unknown")) from None
    if not equipment.caps.acquire(principal.id):
        raise Rejected(too_many_streams(None))
    stream = equipment.stream(inbound, "get")
    stream.still_allowed = lambda: equipment.services.current().authenticator.is_current(principal)
    try:
        with _attached(session, stream, found), ended_with(principal, partial(_expire, stream)):
            return await stream.wait_ended()
    except asyncio.CancelledError:
        stream.abandon()
        raise
    finally:
        equipment.caps.release(principal.id)


def _expire(stream: EventStream) -> None:
    stream.expired()
    stream.end()


@contextmanager
def _attached(session: Session, stream: EventStream, found: tuple[Track, int] | None) -> Iterator[None]:
    """Let a connection carry a new stream, or one that it continues."""
    if found is None:
        track = session.tracks.begin(Sort.GET, stream)
        stream.start()
    else:
        track, after = found
        track.rejoin(stream, after)
    if track.sort is Sort.CALL:
        session.rejoined.append(stream)
        try:
            yield
        finally:
            session.rejoined.remove(stream)
        return
    session.attach(track)
    try:
        yield
    finally:
        session.detach(track)
