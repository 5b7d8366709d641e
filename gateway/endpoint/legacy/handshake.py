"""``initialize``: opens a session, ends the ones it crowds out, and sweeps those that were forgotten.

A session that another replica opened is taken over at its first request here; streams and calls stay where they are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

from gateway.endpoint import discover
from gateway.endpoint.announcements import Subscriber
from gateway.endpoint.build import invalid, known
from gateway.endpoint.inbound import Equipment, Inbound
from gateway.endpoint.legacy import tasks
from gateway.endpoint.legacy.asks import Asks
from gateway.endpoint.legacy.facts import Agreed, Facts
from gateway.endpoint.legacy.roster import Roster
from gateway.endpoint.legacy.session import Full, Session, Sessions, is_session_id, new_session_id
from gateway.endpoint.legacy.shelf import Shelf
from gateway.endpoint.legacy.track import Tracks
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.endpoint.reply import Answer
from gateway.endpoint.updates import Watcher
from gateway.errors import DownstreamError, Reason, RequestError
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.protocol import codes, headers, jsonrpc, methods, rawjson, versions
from gateway.protocol.jsonrpc import Id, Request
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
        self._roster = Roster(equipment.services, self, equipment.tasks)
        self._sweeper: asyncio.Task[None] | None = None

    async def open(self, inbound: Inbound, request: Request) -> Answer:
        """Open a session, for all replicas.

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
            asks=self._asks(),
            tracks=self._tracks(version),
        )
        evicted = self._add(session, request.id)
        await self._roster.keep(session)
        if evicted is not None:
            await self._roster.crowded_out(evicted)
        offered = inbound.moment.offers(versions.Era.LEGACY, session.principal, session.view)
        runs_tasks = session.version == versions.LATEST_LEGACY and tasks.offered(
            inbound.moment, session.principal, session.view
        )
        guidance = inbound.moment.guidance(session.principal, session.view)
        members = discover.handshake(session.version, offered, guidance, runs_tasks=runs_tasks)
        return Answer(jsonrpc.encode_result(request.id, members), headers={headers.SESSION_ID: session.id})

    def _asks(self) -> Asks:
        return Asks(self._equipment.services.post.name, self._equipment.services.tracer)

    def _tracks(self, version: str) -> Tracks:
        # Clients of older versions would take an event without data for a broken message (G018).
        return Tracks(self._shelf, primed=version == versions.LATEST_LEGACY, tag=self._roster.tag)

    async def adopt(self, inbound: Inbound, identifier: str, request_id: Id | None) -> Session | None:
        """Take over a session that another replica knows; None alike where there is none for this caller (S88).

        Raises:
            Rejected: 503, this principal has too many busy sessions here.
        """
        if self._roster.alone or not is_session_id(identifier):
            return None
        self._finish(self.sessions.expired())
        if self.sessions.known(identifier) is not None:
            return None
        facts = await self._roster.find(identifier)
        declared = facts.declared() if facts is not None else None
        if facts is None or declared is None:
            return None
        if facts.principal != inbound.principal.id:
            await self.mismatch(inbound)
            return None
        if facts.view != inbound.view:
            return None
        # Another request of it may have come first.
        known = self.sessions.find(identifier, inbound.principal, inbound.view)
        if known is not None:
            return known
        session = Session(
            id=identifier,
            principal=inbound.principal,
            view=inbound.view,
            version=facts.version,
            capabilities=declared[0],
            info=declared[1],
            used=time.monotonic(),
            log_level=facts.log_level,
            asks=self._asks(),
            tracks=self._tracks(facts.version),
            elsewhere=dict(facts.uris),
            revision=facts.revision,
            agreed=Agreed(facts.revision, facts.log_level, dict(facts.uris)),
            kept=time.monotonic(),
        )
        # One that has to make room is only forgotten here: another replica may be using it.
        self._add(session, request_id)
        return session

    async def mismatch(self, inbound: Inbound) -> None:
        """Audit the use of another principal's session."""
        fields: dict[str, object] = {"principal": inbound.principal.label, "source": inbound.source}
        await self._equipment.services.security_event("security.session_mismatch", fields)

    def _add(self, session: Session, request_id: Id | None) -> Session | None:
        """Add a session; return the one that had to make room for it."""
        self._finish(self.sessions.expired())
        try:
            evicted = self.sessions.open(session)
        except Full:
            code = codes.reason_code(Reason.OVERLOADED)
            text = "Too many sessions of this client, none of them idle"
            raise Rejected(Rejection(503, code, text, "sessions", request_id, headers={"Retry-After": "30"})) from None
        if evicted is not None:
            self._finish([evicted])
        subscriber = Subscriber(session.principal, session.view, frozenset(Kind), session.announce)
        watcher = Watcher(session.principal, session.view, session.uris, session.updated)
        session.hearers += [subscriber, watcher]
        session.heeded = partial(self._heed, session)
        session.subscriptions += [
            self._equipment.announcements.subscribe(subscriber),
            self._equipment.updates.subscribe(watcher),
            lambda: self._equipment.updates.release(session.uris, *session.uris),
        ]
        self._count()
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = self._equipment.tasks.start(self._sweep(), "session-sweep")
        return evicted

    async def end(self, session: Session) -> None:
        """End a session, at all replicas."""
        self._close(session)
        await self._roster.end(session)

    def _close(self, session: Session) -> None:
        self.sessions.close(session)
        self._finish([session])

    def used(self, session: Session) -> None:
        """Note that a session is in use."""
        self._roster.used(session)

    async def changed(self, session: Session) -> None:
        """Have other replicas know what a session is like now."""
        await self._roster.changed(session)

    # What other replicas tell.

    def known(self, identifier: str) -> Session | None:
        """Return a session that is known here."""
        return self.sessions.known(identifier)

    def all(self) -> list[Session]:
        """Return every session."""
        return self.sessions.all()

    def ended_elsewhere(self, session: Session) -> None:
        """End one that is over."""
        self._close(session)

    def changed_elsewhere(self, session: Session, said: Facts) -> None:
        """Take what is new of one."""
        session.revision, session.log_level = said.revision, said.log_level
        self._equipment.updates.release(session.uris, *(session.uris.keys() - said.uris.keys()))
        session.elsewhere = {form: claim for form, claim in said.uris.items() if form not in session.uris}
        if session.streams:
            self._heed(session)

    def _heed(self, session: Session) -> None:
        """Hear of what was subscribed to at another replica, now that there is a stream here to tell it on."""
        claims, session.elsewhere = session.elsewhere, {}
        for form, (server, uri) in claims.items():
            try:
                self._equipment.updates.claim(session.uris, form, Target(Kind.RESOURCE, server, uri))
            except DownstreamError as error:
                # Tried again with the next stream.
                session.elsewhere[form] = (server, uri)
                _log.warning("subscription_not_taken_over", server=server, reason=str(error))

    def recheck(self) -> None:
        """End the sessions of principals and views that are gone, and streams whose credential is not accepted now."""
        moment = self._equipment.services.current()
        for session in self.sessions.all():
            principal = moment.authenticator.fresh(session.principal)
            if principal is None or (session.view is not None and session.view not in moment.config.views):
                self._close(session)
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
            await self._roster.hold([session for session in self.sessions.all() if session.busy])


def _declared(params: Object, key: str) -> Object:
    """Return what a client declared of itself, within what a session may keep."""
    value = params.get(key, {})
    if not isinstance(value, dict):
        raise invalid(f"{key} must be an object")
    if len(rawjson.encode(value)) > MAX_DECLARED:
        raise RequestError(codes.INVALID_PARAMS, f"Invalid params: {key} may have at most {MAX_DECLARED} bytes")
    return value
