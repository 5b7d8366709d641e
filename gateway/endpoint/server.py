"""The endpoint: every request from its first header to its answer, in the contract's fixed order of checks.

Reads the snapshot once per request. Everything long-lived comes in through ``Services``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from gateway.auth.authenticate import InsufficientScope, Unauthenticated
from gateway.auth.certificate import Certificate
from gateway.auth.issuer import MIN_INTERVAL, KeysUnavailable
from gateway.endpoint import body, classify, guards, personal, reply
from gateway.endpoint.announcements import Announcements
from gateway.endpoint.body import BodyLimits
from gateway.endpoint.connection import Bounds, Server
from gateway.endpoint.consent import ConsentPages
from gateway.endpoint.guards import Head, Line, Rules
from gateway.endpoint.inbound import Equipment, Inbound
from gateway.endpoint.legacy.handler import LegacyHandler
from gateway.endpoint.modern.handler import ModernHandler
from gateway.endpoint.rejection import Rejected, Rejection
from gateway.endpoint.running import Running
from gateway.endpoint.services import Moment, Services
from gateway.endpoint.stream import StreamCap
from gateway.endpoint.tls import certificate_of
from gateway.endpoint.updates import Updates
from gateway.errors import Reason
from gateway.model.call import Caller
from gateway.model.principal import Principal
from gateway.protocol import codes, headers
from gateway.protocol.jsonrpc import Notification, Request
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

ALLOW: Final = "GET, POST, DELETE"
_STREAMS_BESIDE_SESSIONS: Final = 16
_EVENT_OF: Final = {
    "origin_denied": "security.origin_denied",
    "json": "security.bad_json",
    "jsonrpc": "security.bad_json",
    "batch": "security.bad_json",
    "request_without_id": "security.bad_json",
    "header_mismatch": "security.header_mismatch",
    "state_rejected": "security.state_rejected",
}

_log = get_logger("endpoint")


class Endpoint:
    """Serves the MCP URL, through ``server``. Made inside a running loop; ``bounds`` and ``limits`` are for tests."""

    def __init__(self, services: Services, bounds: Bounds | None = None, limits: BodyLimits | None = None) -> None:
        config = services.current().config
        self._services = services
        self._rules = Rules.of(config)
        self._limits = limits or BodyLimits(config.listen.max_body)
        self._tasks = TaskSet(on_crash(_log))
        self._running = Running()
        self._announcements, self._updates = Announcements(services), Updates(services)
        self._forget_reloads = services.reloads(self._reloaded)
        self._caps = StreamCap(config.limits.sessions + _STREAMS_BESIDE_SESSIONS)
        equipment = Equipment(services, self._running, self._tasks, self._announcements, self._updates, self._caps)
        self._consents = ConsentPages(services.consents, services.throttle, self._tasks)
        self._modern = ModernHandler(equipment)
        self._legacy = LegacyHandler(equipment, config.limits.sessions)
        behind_proxy = bool(config.listen.trusted_proxies)
        default = Bounds(config.limits.connections, None) if behind_proxy else Bounds(config.limits.connections)
        self.server = Server(self.handle, bounds or default, self._refused)

    async def drain(self) -> None:
        """End streams now, let calls finish for ``listen.drain`` seconds, then answer those that have not."""
        self.close_streams()
        await self._running.drain(self._services.current().config.listen.drain)

    def close_streams(self) -> None:
        """End every stream that answers no call, each the way its era asks for."""
        self._modern.end_streams()
        self._legacy.end_streams()

    def _reloaded(self) -> None:
        """Take the caps and groups of now; end what belongs to clients and credentials that are gone (S34, S183)."""
        limits = self._services.current().config.limits
        self._caps.limit = limits.sessions + _STREAMS_BESIDE_SESSIONS
        self.server.bounds = replace(self.server.bounds, total=limits.connections)
        fresh = self._services.current().authenticator.fresh
        self._running.stop(Reason.DENIED, lambda principal: fresh(principal) is None)
        self._announcements.refresh(fresh)
        self._updates.refresh(fresh)
        self._modern.recheck()
        self._legacy.recheck()

    async def aclose(self) -> None:
        """Stop everything that still runs."""
        self._forget_reloads()
        self._announcements.close()
        self._updates.close()
        self._legacy.close()
        await self._tasks.aclose()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        extra: Mapping[str, str] = {}
        try:
            head = guards.inspect(_line(request), self._rules)
            extra = guards.cors(head, self._rules)
            preflight = guards.preflight(head, self._rules)
            if preflight is not None:
                response: web.StreamResponse = reply.accepted(preflight, 204)
            else:
                response = await self._admitted(request, head, extra)
        except Rejected as refused:
            await self._record(refused.rejection, request.remote or "")
            response = reply.rejected(refused.rejection, extra)
        if self._services.draining() and not response.prepared:
            response.force_close()
        self._services.metrics.http_requests_total.inc(
            listener="mcp", method=request.method, status=str(response.status)
        )
        return response

    async def _admitted(self, request: web.BaseRequest, head: Head, extra: Mapping[str, str]) -> web.StreamResponse:
        """Apply rows 4 to 7, then serve by method."""
        below = guards.view_of(head.path, self._rules)
        moment = self._services.current()
        source = guards.source_of(request.remote or "", head.headers, moment.config.listen.trusted_proxies)
        if below is None:
            page = await self._consents.answer(head, request.raw_path, source, moment.config)
            return page or _document(moment, head, extra)
        principal = await self._authenticate(moment, Knock(head, below, source, certificate_of(request)))
        view = _view(moment, below)
        if head.method not in ("GET", "POST", "DELETE"):
            raise Rejected(_not_allowed(ALLOW))
        if head.method != "POST" and not classify.legacy_header(head.headers):
            raise Rejected(_not_allowed("POST"))
        await self._charge(principal, head, source)
        inbound = Inbound(request, head, moment, principal, view, source, extra)
        if head.method == "POST":
            with self._running.request():
                return await self._post(inbound)
        return await (self._legacy.get(inbound) if head.method == "GET" else self._legacy.delete(inbound))

    async def _authenticate(self, moment: Moment, knock: Knock) -> Principal:
        """Apply row 5, and of row 6 the scopes that every token needs."""
        authorization = knock.head.headers.get("authorization")
        shown = [] if authorization is None else [authorization]
        denied = codes.reason_code(Reason.DENIED)
        try:
            return await moment.authenticator.authenticate(shown, knock.below, knock.certificate)
        except Unauthenticated as error:
            wait = self._services.throttle.failed(knock.source, time.monotonic())
            self._services.metrics.auth_failures_total.inc(kind=error.kind, reason=error.reason)
            await self._failed(knock, error.kind, error.detail)
            if wait is not None:
                raise Rejected(_too_many(wait, "auth_throttled")) from None
            challenge = {"WWW-Authenticate": error.challenge}
            raise Rejected(Rejection(401, denied, "Authentication required", "auth", headers=challenge)) from None
        except InsufficientScope as error:
            await self._failed(knock, "jwt", "insufficient_scope")
            challenge = {"WWW-Authenticate": error.challenge}
            text = "The token lacks scopes that this gateway asks for"
            raise Rejected(Rejection(403, denied, text, "scope", headers=challenge)) from None
        except KeysUnavailable:
            # Neither true nor false: no failure of the client's, and never a reason to let it in (S43, S45).
            self._services.metrics.auth_failures_total.inc(kind="jwt", reason="keys_unavailable")
            await self._failed(knock, "jwt", "keys_unavailable")
            code, later = codes.reason_code(Reason.UNAVAILABLE), {"Retry-After": str(int(MIN_INTERVAL))}
            text = "Tokens cannot be checked now: the authorization server's keys cannot be fetched"
            raise Rejected(Rejection(503, code, text, "keys_unavailable", headers=later)) from None

    async def _failed(self, knock: Knock, kind: str, reason: str) -> None:
        fields: dict[str, object] = {"source": knock.source, "kind": kind, "reason": reason}
        await self._services.security_event("auth.failed", fields)

    async def _charge(self, principal: Principal, head: Head, source: str) -> None:
        """Apply row 7."""
        if self._services.draining():
            code = codes.reason_code(Reason.OVERLOADED)
            later = {"Retry-After": "5"}
            raise Rejected(Rejection(503, code, "The gateway is shutting down", "draining", headers=later))
        wait_ms = await self._services.budget.charge(principal.id)
        if wait_ms is not None:
            self._services.metrics.ratelimit_refused_total.inc(scope="requests", client=principal.label)
            era = classify.era_of(head.headers, {})
            self._services.limited(principal, Caller(era, head.headers.get(headers.VERSION.lower(), ""), source))
            raise Rejected(_too_many(wait_ms / 1000, "requests"))

    async def _post(self, inbound: Inbound) -> web.StreamResponse:
        """Apply rows 8 to 10, then hand over to the era."""
        value = body.decode(await self._read(inbound))
        if isinstance(value, list) and classify.legacy_header(inbound.head.headers):
            return await self._legacy.handle_array(await personal.prepared(self._services, inbound, None), value)
        message = body.message(value)
        inbound = await personal.prepared(self._services, inbound, message)
        params = message.params if isinstance(message, (Request, Notification)) else {}
        if classify.era_of(inbound.head.headers, params) is Era.MODERN:
            return await self._modern.handle(inbound, message)
        return await self._legacy.handle(inbound, message)

    async def _read(self, inbound: Inbound) -> bytes:
        request, received = inbound.request, inbound.head.headers
        body.judge_headers(received, self._limits)
        expected = received.get("expect", "").lower()
        if expected == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        elif expected:
            raise Rejected(Rejection(417, codes.INVALID_REQUEST, "Expectation failed", "expect", close=True))
        try:
            return await body.read(request.content, self._limits)
        except web.RequestPayloadError:
            raise Rejected(Rejection(400, codes.INVALID_REQUEST, "Bad request", "framing", close=True)) from None

    async def _record(self, rejection: Rejection, source: str) -> None:
        """Count a rejection, and audit those that look like an attack."""
        self._refused(rejection.reason)
        event = _EVENT_OF.get(rejection.reason)
        if event is not None:
            detail = (rejection.data or {}).get("reason", rejection.reason)
            await self._services.security_event(event, {"source": source, "reason": detail})

    def _refused(self, reason: str) -> None:
        self._services.metrics.http_rejected_total.inc(reason=reason)


@dataclass(frozen=True, slots=True)
class Knock:
    """Who asks to come in: the head of a request, what follows ``listen.path`` in it, where and how it came from."""

    head: Head
    below: str
    source: str
    certificate: Certificate | None


def _document(moment: Moment, head: Head, extra: Mapping[str, str]) -> web.StreamResponse:
    """Serve the protected resource metadata (row 4, RFC 9728 §3); there is nothing else outside of ``listen.path``."""
    body = moment.authenticator.documents.get(head.path)
    if body is None:
        raise Rejected(Rejection(404, None, "", "path"))
    if head.method != "GET":
        raise Rejected(_not_allowed("GET"))
    return reply.respond(reply.Answer(body), extra)


def _line(request: web.BaseRequest) -> Line:
    name = request.get_extra_info("sockname")
    port = name[1] if isinstance(name, tuple) and len(name) > 1 else 0
    version = (request.version.major, request.version.minor)
    return Line(request.method, request.raw_path, version, request.raw_headers, int(port))


def _view(moment: Moment, below: str) -> str | None:
    if not below:
        return None
    if below not in moment.config.views:
        raise Rejected(Rejection(404, codes.INVALID_REQUEST, "Not found", "view"))
    return below


def _not_allowed(allow: str) -> Rejection:
    return Rejection(405, codes.INVALID_REQUEST, "Method not allowed", "method", headers={"Allow": allow})


def _too_many(wait: float, reason: str) -> Rejection:
    """Refuse a flood; ``wait`` in seconds is rounded up, as Retry-After knows no fractions."""
    seconds = max(1, int(wait) + (wait > int(wait)))
    code = codes.reason_code(Reason.RATE_LIMITED)
    data = {"source": "gateway", "reason": Reason.RATE_LIMITED.value, "retryAfterMs": int(wait * 1000)}
    return Rejection(429, code, "Too many requests", reason, data=data, headers={"Retry-After": str(seconds)})
