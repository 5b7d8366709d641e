"""Requests of clients that speak 2026-07-28: each stands alone, and closing the connection cancels it.

Rows 11 to 19 of the checks for this era. Session and resumption headers are never looked at (S91).
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from gateway.endpoint import classify, discover, listing, reply, searching
from gateway.endpoint.build import Asked, UnknownTarget, build, draft_of, known
from gateway.endpoint.inbound import Equipment, Inbound, deliver, exchange_for, patience
from gateway.endpoint.modern import rounds, tasks
from gateway.endpoint.modern.listen import Listen
from gateway.endpoint.modern.rounds import StateRejected
from gateway.endpoint.reply import Answer
from gateway.endpoint.running import Ticket
from gateway.endpoint.trace import RequestSpan, request_span
from gateway.errors import RequestError
from gateway.model.call import Call, Caller
from gateway.model.exchange import Exchange
from gateway.model.outcome import InputRequired, Outcome, Started
from gateway.protocol import codes, jsonrpc, methods
from gateway.protocol.jsonrpc import Message, Notification, Request, Response
from gateway.protocol.meta import RequestMeta
from gateway.protocol.methods import Method, Role
from gateway.protocol.versions import MODERN, Era


class ModernHandler:
    """Serves one message of a modern client."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._services = equipment.services
        self._listen = Listen(equipment)

    def end_streams(self) -> None:
        """End every subscription gracefully."""
        self._listen.end_all()

    def recheck(self) -> None:
        """End the subscriptions whose credential is not accepted any more."""
        self._listen.recheck()

    async def handle(self, inbound: Inbound, message: Message) -> web.StreamResponse:
        """Answer one message.

        Raises:
            Rejected: a check failed.
        """
        match message:
            case Request():
                return await self._request(inbound, message)
            case Notification(method):
                if method in methods.METHODS:
                    raise classify.without_id()
                return reply.accepted(inbound.extra)
            case Response(identifier):
                error = RequestError(
                    codes.INVALID_REQUEST, "Invalid request: a client of this version sends no responses"
                )
                raise classify.fault(Era.MODERN, error, identifier, "response")

    async def _request(self, inbound: Inbound, request: Request) -> web.StreamResponse:
        with request_span(self._services.tracer, inbound, request) as span:
            return await self._traced(inbound, request, span)

    async def _traced(self, inbound: Inbound, request: Request, span: RequestSpan) -> web.StreamResponse:
        try:
            row, told = classify.modern(request, inbound.head.headers)
            asked = self._asked(inbound, told, span)
            if row.role is Role.TASK:
                draft, params = draft_of(request, asked), known(request.params, row.members)
                call = tasks.call_of(inbound.moment, self._services.sealer, draft, params)
                return await self._call(inbound, call, span)
            if row.role is not Role.CALL:
                return await self._local(inbound, request, row, asked)
            own = await searching.answer(inbound.moment, request, asked)
            if own is not None:
                self._services.listed(own.draft, own.items)
                return reply.respond(Answer(jsonrpc.encode_result(request.id, own.members)), inbound.extra)
            call = build(inbound.moment, request, row, asked)
            if row.may_ask:
                call = rounds.resumed(self._services.sealer, call, request.params)
            is_direct = request.params.get("name") == call.exposed
            if call.method == methods.TOOLS_CALL and call.definition is not None and is_direct:
                classify.param_headers(call.definition, call.arguments, inbound.head.headers)
        except UnknownTarget as error:
            await self._services.denied(error.call)
            if methods.REQUEST_STATE in request.params and methods.METHODS[request.method].may_ask:
                # Row 15 comes before row 16: no state belongs to what is not there.
                raise classify.fault(Era.MODERN, StateRejected(), request.id, "state_rejected") from None
            raise classify.fault(Era.MODERN, error, request.id, "unknown_name") from None
        except StateRejected as error:
            raise classify.fault(Era.MODERN, error, request.id, "state_rejected") from None
        except RequestError as error:
            reason = "header_mismatch" if error.code == codes.HEADER_MISMATCH else "modern_request"
            raise classify.fault(Era.MODERN, error, request.id, reason) from None
        return await self._call(inbound, call, span)

    def _asked(self, inbound: Inbound, told: RequestMeta, span: RequestSpan) -> Asked:
        caller = Caller(
            era=Era.MODERN,
            version=MODERN,
            source=inbound.source,
            capabilities=told.capabilities or {},
            info=told.client_info or {},
            view=inbound.view,
        )
        return Asked(inbound.principal, caller, span.begin(told, caller), told.log_level)

    async def _local(self, inbound: Inbound, request: Request, row: Method, asked: Asked) -> web.StreamResponse:
        params = known(request.params, row.members)
        if row.name == methods.LISTEN:
            return await self._listen.serve(inbound, draft_of(request, asked), params)
        if row.role is Role.LIST:
            reader = listing.Reader(inbound.principal, asked.caller)
            cursor = params.get("cursor")
            members = listing.page(inbound.moment, self._services.sealer, row.name, reader, cursor)
            if cursor is None:
                self._services.listed(draft_of(request, asked), listing.size(inbound.moment, row.name, reader))
        else:
            members = discover.discovery(inbound.moment, inbound.principal, inbound.view)
        return reply.respond(Answer(jsonrpc.encode_result(request.id, members)), inbound.extra)

    def _answer(self, inbound: Inbound, call: Call, exchange: Exchange, outcome: Outcome) -> Answer:
        if isinstance(outcome, InputRequired):
            return rounds.asking(self._services.sealer, inbound.moment, call, exchange, outcome)
        if isinstance(outcome, Started):
            return tasks.started(self._services.sealer, inbound.moment, call, exchange, outcome)
        if call.task is not None:
            return tasks.answer(inbound.moment, call, exchange, outcome)
        return reply.of_outcome(inbound.moment, call, exchange, outcome)

    async def _call(self, inbound: Inbound, call: Call, span: RequestSpan) -> web.StreamResponse:
        """Run a call in the request's own task: the client's leaving cancels it (transports §Cancellation)."""
        span.about(call)
        stream = self._equipment.stream(inbound, "call")
        exchange = exchange_for(inbound, call, stream)
        try:
            with patience(inbound, stream):
                outcome = await self._equipment.running.run(inbound.moment, call, exchange, Ticket())
            span.ended(call, outcome)
            answer = self._answer(inbound, call, exchange, outcome)
            return await deliver(self._services, inbound, stream, answer)
        except asyncio.CancelledError:
            stream.abandon()
            raise
