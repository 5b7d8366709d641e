"""Routes of the admin listener. ``/healthz`` and ``/readyz`` need neither a token nor a known Host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from aiohttp import web

from gateway.admin.access import Access, Refused
from gateway.admin.operations import Act, Conflict, Forbidden, Operations
from gateway.admin.pages.markup import PREFIX
from gateway.errors import AuditUnavailable, ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

_BODY_SECONDS: Final = 30.0
_OPEN: Final = frozenset({"/healthz", "/readyz"})
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Server": "mcp-gateway"}
_Handler = Callable[[web.BaseRequest], Awaitable[web.Response]]


async def _nowhere(_request: web.BaseRequest) -> web.Response:
    raise Refused(404, "Not Found")


def _json(value: Value, status: int = 200) -> web.Response:
    return web.Response(body=rawjson.encode(value) + b"\n", status=status, content_type="application/json")


def _single(request: web.BaseRequest, name: str) -> str | None:
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise Refused(400, f"{name} must occur once")
    return values[0] if values else None


class AdminServer:
    """The admin routes over one running gateway."""

    def __init__(self, operations: Operations, access: Access, pages: _Handler = _nowhere) -> None:
        """Serve operations; ``pages`` answers whatever is below their prefix."""
        self._operations = operations
        self._access = access
        self._pages = pages
        self._routes: dict[str, dict[str, _Handler]] = {
            "/healthz": {"GET": self._healthz},
            "/readyz": {"GET": self._readyz},
            "/metrics": {"GET": self._metrics},
            "/status": {"GET": self._status},
            "/tools": {"GET": self._tools},
            "/pins": {"GET": self._pins},
            "/pins/approve": {"POST": partial(self._decide_pins, "approve")},
            "/pins/reject": {"POST": partial(self._decide_pins, "reject")},
            "/approvals": {"GET": self._approvals},
            "/approvals/approve": {"POST": partial(self._decide_approval, "approve")},
            "/approvals/deny": {"POST": partial(self._decide_approval, "deny")},
            "/call": {"POST": self._call},
            "/reload": {"POST": self._reload},
        }

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request; serve it with a ``web.Server`` that bounds connections and echoes nothing."""
        try:
            if request.path not in _OPEN:
                self._access.check_host(_single(request, "Host") or "", _single(request, "Origin"))
            response = await self._route(request)(request)
        except Refused as refused:
            response = _json({"error": refused.message}, refused.status)
            if refused.status == 401:
                response.headers["WWW-Authenticate"] = 'Bearer realm="admin"'
        except web.HTTPException as error:
            response = _json({"error": error.reason}, error.status)
        response.headers.update(_HEADERS)
        return response

    def _route(self, request: web.BaseRequest) -> _Handler:
        """Find who answers; a HEAD is answered like a GET."""
        if request.path in ("/", PREFIX) or request.path.startswith(f"{PREFIX}/"):
            return self._pages
        routes = self._routes.get(request.path)
        if routes is None:
            raise Refused(404, "Not Found")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in routes:
            raise Refused(405, "Method Not Allowed")
        return routes[method]

    async def _healthz(self, _request: web.BaseRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.BaseRequest) -> web.Response:
        readiness = self._operations.readiness()
        if readiness.ready:
            return web.Response(text="".join(f"{line}\n" for line in ("ready", *readiness.details)))
        return web.Response(text="".join(f"{reason}\n" for reason in readiness.reasons), status=503)

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        self._access.scraper(_single(request, "Authorization"))
        body, content_type = self._operations.render_metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status(self, request: web.BaseRequest) -> web.Response:
        self._access.reader(_single(request, "Authorization"))
        return _json(self._operations.status())

    async def _tools(self, request: web.BaseRequest) -> web.Response:
        self._access.reader(_single(request, "Authorization"))
        try:
            return _json(self._operations.tools_as(request.query.get("as", "anonymous"), request.query.get("view")))
        except KeyError as error:
            return _json({"error": str(error.args[0])}, 404)

    async def _pins(self, request: web.BaseRequest) -> web.Response:
        self._access.reader(_single(request, "Authorization"))
        try:
            return _json(await self._operations.pins(request.query.get("target", "")))
        except KeyError as error:
            return _json({"error": str(error.args[0])}, 404)

    async def _decide_pins(self, verb: str, request: web.BaseRequest) -> web.Response:
        user = self._access.user(_single(request, "Authorization"), "pins")
        body = await self._body(request)
        target, digests = body.get("target"), body.get("digests")
        shown = (
            {name: text for name, text in digests.items() if isinstance(text, str)} if isinstance(digests, dict) else {}
        )
        if not isinstance(target, str) or shown != digests:
            return _json({"error": '"target" must be a string, "digests" an object of strings'}, 400)
        try:
            return _json(await self._operations.decide_pins(Act(user, request.remote or ""), verb, target, shown))
        except KeyError as error:
            return _json({"error": str(error.args[0])}, 404)
        except Conflict as error:
            return _json({"error": str(error)}, 409)
        except AuditUnavailable:
            return _json({"error": "The audit log cannot be written, so nothing is changed"}, 503)

    async def _approvals(self, request: web.BaseRequest) -> web.Response:
        # Not open on loopback as other reading is: arguments are values, and a server behind us may well run there.
        user = self._access.user(_single(request, "Authorization"), "approve")
        return _json(await self._operations.approvals(user))

    async def _decide_approval(self, verb: str, request: web.BaseRequest) -> web.Response:
        user = self._access.user(_single(request, "Authorization"), "approve")
        body = await self._body(request)
        entry_id, reason = body.get("id"), body.get("reason", "")
        if not (isinstance(entry_id, str) and isinstance(reason, str)):
            return _json({"error": '"id" and "reason" must be strings'}, 400)
        try:
            return _json(
                await self._operations.decide_approval(Act(user, request.remote or ""), verb, entry_id, reason)
            )
        except KeyError as error:
            return _json({"error": str(error.args[0])}, 404)
        except Forbidden as error:
            return _json({"error": str(error)}, 403)
        except Conflict as error:
            return _json({"error": str(error)}, 409)
        except AuditUnavailable:
            return _json({"error": "The audit log cannot be written, so nothing is decided"}, 503)

    async def _call(self, request: web.BaseRequest) -> web.Response:
        user = self._access.user(_single(request, "Authorization"), "reload")
        body = await self._body(request)
        principal, target, arguments = body.get("as"), body.get("target"), body.get("arguments", {})
        if not (isinstance(principal, str) and isinstance(target, str) and isinstance(arguments, dict)):
            return _json({"error": '"as" and "target" must be strings, "arguments" an object'}, 400)
        try:
            return _json(await self._operations.call_as(Act(user, request.remote or ""), principal, target, arguments))
        except KeyError as error:
            return _json({"error": str(error.args[0])}, 404)
        except AuditUnavailable:
            return _json({"error": "The audit log cannot be written, so nothing is called"}, 503)

    async def _reload(self, request: web.BaseRequest) -> web.Response:
        user = self._access.user(_single(request, "Authorization"), "reload")
        try:
            return _json(await self._operations.reload(Act(user, request.remote or "")))
        except ConfigError as error:
            return _json({"error": "config refused", "problems": [str(problem) for problem in error.problems]}, 422)

    async def _body(self, request: web.BaseRequest) -> Object:
        if request.content_type != "application/json":
            raise Refused(415, "Content-Type must be application/json")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                value = rawjson.decode_strict(await request.read())
        except TimeoutError:
            raise Refused(408, "The body came too slowly") from None
        except JsonError as error:
            raise Refused(400, str(error)) from None
        if not isinstance(value, dict):
            raise Refused(400, "The body must be a JSON object")
        return value
