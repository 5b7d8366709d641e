"""``initialize``: opens a session, ends the ones it crowds out, and sweeps those that were forgotten."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from gateway.endpoint import discover
from gateway.endpoint.announcements import Subscriber
from gateway.endpoint.build import invalid, known
from gateway.endpoint.inbound import Equipment, Inbound
from gateway.endpoint.legacy import tasks
from gateway.endpoint.legacy.session import Full, Session, Sessions, new_session_id
from gateway.endpoint.legacy.shelf import Shelf
from gateway.endpoint.legacy.track import Tracks
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.endpoint.reply import Answer
from gateway.endpoint.updates import Watcher
from gateway.errors import Reason, RequestError
from gateway.model.catalog import Kind
from gateway.protocol import codes, headers, jsonrpc, methods, rawjson, versions
from gateway.protocol.jsonrpc import Request
from gateway.protocol.rawjson import Object
from gateway.telemetry.logs import get_logger

SWEEP: Final = 60.0
"""Seconds between two looks for idle sessions."""

MAX_DECLARED: Final = 16 * 1024
"""Bytes of capabilities, and of client info, that a session keeps."""

_log = get_logger("endpoint")


class Handshake:
    """Opens and ends sessions."""

    def __init__(self, equipment: Equipment, limit: int) -> None:
        self._equipment = equipment
        self._shelf = Shelf()
        self.sessions = Sessions(limit, time.monotonic)
        self._sweeper: asyncio.Task[None] | None = None

    def open(self, inbound: Inbound, request: Request) -> Answer:
        """Open a session.

        Raises:
            RequestError: params of the wrong shape.
            Rejected: 503, this principal has too many busy sessions.
        """
        params = known(request.params, methods.METHODS[methods.INITIALIZE].members)
        requested = params.get("protocolVersion")
        if not isinstance(requested, str):
            raise invalid("protocolVersion must be a string")
        version = versions.negotiate_legacy(requested)
        session = Session(
            id=new_session_id(),
            principal=inbound.principal,
            view=inbound.view,
            version=version,
            capabilities=_declared(params, "capabilities"),
            info=_declared(params, "clientInfo"),
            used=time.monotonic(),
            # Clients of older versions would take an event without data for a broken message (G018).
            tracks=Tracks(self._shelf, primed=version == versions.LATEST_LEGACY),
        )
        self._add(session, request)
        offered = inbound.moment.offers(versions.Era.LEGACY, session.principal, session.view)
        runs_tasks = session.version == versions.LATEST_LEGACY and tasks.offered(
            inbound.moment, session.principal, session.view
        )
        guidance = inbound.moment.guidance(session.principal, session.view)
        members = discover.handshake(session.version, offered, guidance, runs_tasks=runs_tasks)
        return Answer(jsonrpc.encode_result(request.id, members), headers={headers.SESSION_ID: session.id})

    def _add(self, session: Session, request: Request) -> None:
        self._finish(self.sessions.expired())
        try:
            evicted = self.sessions.open(session)
        except Full:
            code = codes.reason_code(Reason.OVERLOADED)
            text = "Too many sessions of this client, none of them idle"
            raise Rejected(Rejection(503, code, text, "sessions", request.id, headers={"Retry-After": "30"})) from None
        if evicted is not None:
            self._finish([evicted])
        subscriber = Subscriber(session.principal, session.view, frozenset(Kind), session.announce)
        watcher = Watcher(session.principal, session.view, session.uris, session.updated)
        session.hearers += [subscriber, watcher]
        session.subscriptions += [
            self._equipment.announcements.subscribe(subscriber),
            self._equipment.updates.subscribe(watcher),
            lambda: self._equipment.updates.release(session.uris, *session.uris),
        ]
        self._count()
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = self._equipment.tasks.start(self._sweep(), "session-sweep")

    def close(self, session: Session) -> None:
        """End a session."""
        self.sessions.close(session)
        self._finish([session])

    def recheck(self) -> None:
        """End the sessions of principals and views that are gone, and streams whose credential is not accepted now."""
        moment = self._equipment.services.current()
        for session in self.sessions.all():
            principal = moment.authenticator.fresh(session.principal)
            if principal is None or (session.view is not None and session.view not in moment.config.views):
                self.close(session)
                continue
            session.principal = principal
            for stream in (*session.streams, *session.rejoined):
                if not stream.still_allowed():
                    stream.end()

    def end_streams(self) -> None:
        """End every GET stream; sessions and their calls stay."""
        for session in self.sessions.all():
            for stream in session.streams:
                stream.end()

    def _finish(self, ended: Iterable[Session]) -> None:
        for session in ended:
            _log.info("session_ended", principal=session.principal.label, version=session.version)
            self._equipment.tasks.start(self._equipment.services.end_session(session.id), "session-end")
        self._count()

    def _count(self) -> None:
        self._equipment.services.metrics.sessions.set(len(self.sessions), era=versions.Era.LEGACY.value)

    async def _sweep(self) -> None:
        """Look for idle sessions for as long as there are any."""
        while len(self.sessions):
            await asyncio.sleep(SWEEP)
            self._shelf.sweep()
            self._finish(self.sessions.expired())


def _declared(params: Object, key: str) -> Object:
    """Return what a client declared of itself, within what a session may keep."""
    value = params.get(key, {})
    if not isinstance(value, dict):
        raise invalid(f"{key} must be an object")
    if len(rawjson.encode(value)) > MAX_DECLARED:
        raise RequestError(codes.INVALID_PARAMS, f"Invalid params: {key} may have at most {MAX_DECLARED} bytes")
    return value
