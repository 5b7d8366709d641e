"""Requests of clients that shook hands (2025-03-26 to 2025-11-25): sessions, arrays, cancellation by notification.

Rows 11 to 19 of the checks for this era. A client that hangs up cancels nothing: its calls belong to the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from aiohttp import web

from gateway.endpoint import classify, listing, reply, searching
from gateway.endpoint import tasks as endpoint_tasks
from gateway.endpoint.build import Asked, UnknownTarget, build, draft_of, invalid, known, resolve
from gateway.endpoint.inbound import Equipment, Inbound, deliver, exchange_for, patience
from gateway.endpoint.legacy import batch, local, streams, tasks
from gateway.endpoint.legacy.asks import asker
from gateway.endpoint.legacy.far import Far
from gateway.endpoint.legacy.handshake import Handshake
from gateway.endpoint.legacy.pages import Pages
from gateway.endpoint.legacy.session import MAX_URIS, Session, key_of
from gateway.endpoint.legacy.track import Sort, Track
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.endpoint.reply import Answer
from gateway.endpoint.running import Ticket
from gateway.endpoint.stream import CallStream
from gateway.endpoint.trace import RequestSpan, request_span
from gateway.errors import DownstreamError, Reason, RequestError
from gateway.model.call import Call, Caller
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.protocol import codes, headers, jsonrpc, meta, methods
from gateway.protocol.jsonrpc import ErrorObject, Invalid, Message, Notification, Request, Response
from gateway.protocol.meta import RequestMeta
from gateway.protocol.methods import Role
from gateway.protocol.rawjson import Object, Value, raw
from gateway.protocol.versions import Era

_Done: TypeAlias = Answer | None
_Sent: TypeAlias = web.StreamResponse


@dataclass(slots=True)
class _Slot:
    """Where a request's task leaves its answer; None when the client cancelled it."""

    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class _Ride:
    """One request on its way: how its call is stopped, and what is told of it."""

    ticket: Ticket
    span: RequestSpan


@dataclass(frozen=True, slots=True)
class _Visit:
    """One POST of a session, and the stream its response may become."""

    inbound: Inbound
    session: Session
    stream: CallStream


class LegacyHandler:
    """Serves messages, streams and the end of sessions for legacy clients."""

    def __init__(self, equipment: Equipment, session_limit: int) -> None:
        self._equipment = equipment
        self._services = equipment.services
        self.handshake = Handshake(equipment, session_limit)
        self._book = tasks.Book(equipment.services, self._tell)
        self._pages = Pages(equipment.services)
        self._far = Far(equipment.services.post, self.handshake.sessions.known, equipment.tasks)

    def _tell(self, session: str, message: bytes) -> None:
        """Send a message that belongs to no request to a session, if it is there."""
        for each in self.handshake.sessions.all():
            if each.id == session:
                each.tell(message)

    def close(self) -> None:
        """Hear of nothing any more."""
        self._book.close()
        self._pages.close()

    def end_streams(self) -> None:
        """End every GET stream."""
        self.handshake.end_streams()

    def recheck(self) -> None:
        """End what belongs to clients and credentials that are not accepted any more, and take the cap of now."""
        self.handshake.sessions.limit = self._services.current().config.limits.sessions
        self.handshake.recheck()

    async def handle(self, inbound: Inbound, message: Message) -> web.StreamResponse:
        """Answer one message.

        Raises:
            Rejected: a check failed.
        """
        if isinstance(message, Request) and message.method == methods.INITIALIZE:
            return await self._open(inbound, message)
        session = await self._session(inbound, message.id if isinstance(message, Request) else None)
        if not isinstance(message, Request):
            await self._notification(session, message)
            return reply.accepted(inbound.extra)
        if key_of(message.id) in session.calls:
            raise Rejected(_duplicate(message))
        track = session.tracks.begin(Sort.CALL, self._equipment.stream(inbound, "call"))
        return await self._deliver(inbound, track, self._respond(_Visit(inbound, session, track), message, track))

    async def _open(self, inbound: Inbound, request: Request) -> web.StreamResponse:
        """Open a session. Of ``_meta`` nothing but trace context counts yet."""
        with request_span(self._services.tracer, inbound, request) as span:
            own = request.params.get("_meta")
            told = RequestMeta(trace=meta.trace_context(own if isinstance(own, dict) else {}))
            span.begin(told, Caller(Era.LEGACY, "", inbound.source, view=inbound.view))
            try:
                return reply.respond(await self.handshake.open(inbound, request), inbound.extra)
            except RequestError as error:
                raise classify.fault(Era.LEGACY, error, request.id, "handshake") from None

    async def handle_array(self, inbound: Inbound, value: list[Value]) -> web.StreamResponse:
        """Answer an array with one array of answers, in order.

        Raises:
            Rejected: a check failed.
        """
        session = await self._find(inbound, None)
        read = batch.elements(value, session.version if session is not None else None)
        if session is None:
            raise await self._unknown(inbound, None)
        visit = _Visit(inbound, session, self._equipment.stream(inbound, "call"))
        without = classify.without_id().rejection.body()
        return await self._deliver(inbound, visit.stream, self._respond_all(visit, read, without))

    async def get(self, inbound: Inbound) -> web.StreamResponse:
        """Open a stream.

        Raises:
            Rejected: no such session, or too many streams.
        """
        session = await self._session(inbound, None)
        return await streams.serve(self._equipment, inbound, session)

    async def delete(self, inbound: Inbound) -> web.StreamResponse:
        """End a session.

        Raises:
            Rejected: no such session.
        """
        await self.handshake.end(await self._session(inbound, None))
        return reply.accepted(inbound.extra, 204)

    async def _find(self, inbound: Inbound, request_id: jsonrpc.Id | None) -> Session | None:
        """Return the session a request names, as it is now at any replica."""
        identifier = inbound.head.headers.get(headers.SESSION_ID.lower(), "")
        session = self.handshake.sessions.find(identifier, inbound.principal, inbound.view)
        if session is None:
            return await self.handshake.adopt(inbound, identifier, request_id)
        if session.rereading is not None:
            await asyncio.wait([session.rereading])
        self.handshake.used(session)
        return None if session.ended else session

    async def _session(self, inbound: Inbound, request_id: jsonrpc.Id | None) -> Session:
        """Find the session a request names (row 12); unknown, ended and foreign ones get the same answer (S88)."""
        session = await self._find(inbound, request_id)
        if session is None:
            raise await self._unknown(inbound, request_id)
        return session

    async def _unknown(self, inbound: Inbound, request_id: jsonrpc.Id | None) -> Rejected:
        identifier = inbound.head.headers.get(headers.SESSION_ID.lower())
        if identifier is None:
            text = f"Bad request: {headers.SESSION_ID} is missing"
            return Rejected(Rejection(400, codes.INVALID_REQUEST, text, "session_missing", request_id))
        if self.handshake.sessions.is_foreign(identifier, inbound.principal):
            await self.handshake.mismatch(inbound)
        return Rejected(Rejection(404, codes.LEGACY_SESSION, "Session not found", "session_unknown", request_id))

    async def _notification(self, session: Session, message: Message) -> None:
        """Take a notification or a response; a request method without id is refused (S30)."""
        if isinstance(message, Response) and not session.asks.answer(message):
            await self._far.answer(session, message)
        if not isinstance(message, Notification):
            return
        if message.method in methods.METHODS:
            raise classify.without_id()
        if message.method == methods.CANCELLED and not session.cancel(message.params.get("requestId")):
            await self._far.cancel(session, message.params.get("requestId"))

    async def _deliver(self, inbound: Inbound, stream: CallStream, work: Coroutine[object, object, _Done]) -> _Sent:
        """Wait for an answer and send it the way the response has begun."""
        try:
            with patience(inbound, stream):
                answer = await work
            if answer is None:
                # Cancelled by its client, which wants no answer: the response is a stream without one.
                return await stream.finish(None)
            return await deliver(self._services, inbound, stream, answer)
        except asyncio.CancelledError:
            stream.abandon()
            raise

    async def _respond_all(self, visit: _Visit, read: list[Message | Invalid], without: bytes) -> Answer | None:
        """Serve the elements of an array at once and collect their answers."""
        slots = [_Slot() for _ in read]
        waiting: list[asyncio.Task[None]] = []
        for slot, item in zip(slots, read, strict=True):
            match item:
                case Invalid():
                    slot.answer = Answer(batch.invalid_element(item))
                case Request() if key_of(item.id) in visit.session.calls:
                    slot.answer = _error(item, RequestError(codes.INVALID_REQUEST, _DUPLICATE))
                case Request():
                    waiting.append(self._start(visit, item, slot))
                case Notification(method) if method in methods.METHODS:
                    slot.answer = Answer(without)
                case _:
                    await self._notification(visit.session, item)
        if any(isinstance(item, Notification) and item.method in methods.METHODS for item in read):
            fields: dict[str, object] = {"source": visit.inbound.source, "reason": "request_without_id"}
            await self._services.security_event("security.bad_json", fields)
        if waiting:
            await asyncio.wait(waiting)
        bodies = [slot.answer.body for slot in slots if slot.answer is not None]
        return Answer(batch.join(bodies)) if bodies else Answer(b"", 202)

    async def _respond(self, visit: _Visit, request: Request, track: Track) -> Answer | None:
        slot = _Slot()
        task = self._start(visit, request, slot)
        # The stream gets its answer from the task, since the connection may be another one by then, or none.
        task.add_done_callback(lambda _: _settle(visit.session, track, slot.answer))
        await asyncio.wait([task])
        return slot.answer

    def _start(self, visit: _Visit, request: Request, slot: _Slot) -> asyncio.Task[None]:
        """Serve a request in a task that outlives its connection (S95), known to its session from now on."""
        ticket = Ticket()
        visit.session.calls[key_of(request.id)] = ticket
        task = self._equipment.tasks.start(self._fill(visit, request, ticket, slot), "legacy-request")
        # Not a finally of the task: one that is cancelled before its first step never gets there.
        task.add_done_callback(partial(self._over, visit.session, request.id))
        ticket.task = task
        return task

    def _over(self, session: Session, identifier: jsonrpc.Id, _task: asyncio.Task[None]) -> None:
        del session.calls[key_of(identifier)]
        self.handshake.sessions.touch(session)

    async def _fill(self, visit: _Visit, request: Request, ticket: Ticket, slot: _Slot) -> None:
        with request_span(self._services.tracer, visit.inbound, request) as span:
            try:
                slot.answer = await self._answer(visit, request, _Ride(ticket, span))
            except RequestError as error:
                if isinstance(error, UnknownTarget):
                    await self._services.denied(error.call)
                span.refused(error)
                slot.answer = _error(request, error)

    async def _answer(self, visit: _Visit, request: Request, ride: _Ride) -> Answer | None:
        inbound, session = visit.inbound, visit.session
        row = classify.method_of(request.method, Era.LEGACY)
        told = classify.read_meta(request.params)
        caller = Caller(
            era=Era.LEGACY,
            version=session.version,
            source=inbound.source,
            session=session.id,
            capabilities=session.capabilities,
            info=session.info,
            view=session.view,
        )
        asked = Asked(inbound.principal, caller, ride.span.begin(told, caller), session.log_level)
        if row.role is Role.CALL:
            own = await searching.answer(inbound.moment, request, asked)
            if own is not None:
                self._services.listed(own.draft, own.items)
                return reply.of_result(request.id, own.members)
            call = build(inbound.moment, request, row, asked)
            return await self._call(visit, tasks.augmented(inbound.moment, call, request.params), ride)
        params = known(request.params, row.members)
        if row.role is Role.LIST:
            reader = listing.Reader(inbound.principal, caller)
            members = listing.page(inbound.moment, self._services.sealer, row.name, reader, params.get("cursor"))
            if params.get("cursor") is None:
                self._services.listed(draft_of(request, asked), listing.size(inbound.moment, row.name, reader))
            return reply.of_result(request.id, members)
        if row.role is Role.TASK:
            return await self._task(visit, draft_of(request, asked), params, ride)
        if row.name == methods.RESOURCES_SUBSCRIBE:
            return await self._subscribe(visit, draft_of(request, asked), local.uri_of(params), ride)
        if local.serve(session, self._equipment.updates, request.method, params):
            await self.handshake.changed(session)
        return reply.of_result(request.id, {})

    async def _subscribe(self, visit: _Visit, draft: Call, uri: str, ride: _Ride) -> Answer | None:
        """Decide and record it like any call, then have the owning server tell of the resource."""
        moment, session, updates = visit.inbound.moment, visit.session, self._equipment.updates
        target, definition = resolve(moment, draft, uri)
        if uri not in session.uris and len(session.uris) + len(session.elsewhere) >= MAX_URIS:
            raise invalid(f"a session may subscribe to at most {MAX_URIS} resources")
        call = replace(draft, params={"uri": target.name}, target=target, exposed=uri, definition=definition)
        exchange = Exchange()
        ride.span.about(call)
        outcome = await self._equipment.running.run(moment, call, exchange, ride.ticket)
        ride.span.ended(call, outcome)
        if session.ended or ride.ticket.reason is Reason.CANCELLED:
            return None
        if not isinstance(outcome, Complete):
            return reply.of_outcome(moment, call, exchange, outcome)
        try:
            updates.claim(session.uris, uri, target)
        except DownstreamError as error:
            return reply.refusal(call, Failure.of(error))
        session.elsewhere.pop(uri, None)
        await self.handshake.changed(session)
        await self._services.subscribed([target.server])
        return reply.of_result(call.rpc_id, {})

    async def _call(self, visit: _Visit, call: Call, ride: _Ride) -> Answer | None:
        """Run a call to its answer; None when its client cancelled it."""
        inbound = visit.inbound
        exchange = exchange_for(inbound, call, visit.stream)
        if inbound.takes_streams:
            sent_to = self._pages.watch(visit.session, visit.stream, call)
            ask = asker(visit.session.asks, visit.stream.send, call, exchange, sent_to)
            exchange.ask = tasks.related_ask(ask, call)
        ride.span.about(call)
        outcome = await self._equipment.running.run(inbound.moment, call, exchange, ride.ticket)
        ride.span.ended(call, outcome)
        if ride.ticket.reason is Reason.CANCELLED:
            return None
        self._pages.of_error(visit.session, visit.stream, call, outcome)
        if isinstance(outcome, Started):
            answer = tasks.started(self._book, inbound.moment, call, exchange, outcome)
        else:
            answer = tasks.answer(inbound.moment, call, exchange, outcome)
        return answer

    async def _task(self, visit: _Visit, draft: Call, params: Object, ride: _Ride) -> Answer | None:
        """Serve a request about the caller's tasks."""
        moment, sealer = visit.inbound.moment, self._services.sealer
        if draft.method != methods.TASKS_LIST:
            return await self._call(visit, endpoint_tasks.call_of(moment, sealer, draft, params), ride)

        async def look(call: Call) -> Outcome:
            return await self._equipment.running.run(moment, call, Exchange(), Ticket())

        lister = tasks.Lister(self._book, sealer, moment, look)
        return reply.of_result(draft.rpc_id, await lister.page(draft, params.get("cursor")))


def _settle(session: Session, track: Track, answer: Answer | None) -> None:
    """End a call's stream with its answer; one that never began has nothing to come back for."""
    if track.started:
        track.close(answer.body if answer is not None else None)
    else:
        session.tracks.drop(track)


_DUPLICATE = "Invalid request: a request with this id is still in flight"


def _duplicate(request: Request) -> Rejection:
    return Rejection(400, codes.INVALID_REQUEST, _DUPLICATE, "duplicate_id", request.id)


def _error(request: Request, error: RequestError) -> Answer:
    """Write an error about a request; from row 13 on always with 200, since a 4xx would end the client's session."""
    data = None if error.data is None else raw(error.data)
    body = jsonrpc.encode_error(request.id, ErrorObject(error.code, error.message, data))
    return Answer(body, codes.http_status(error.code, Era.LEGACY))
