"""Routes of the admin listener. ``/healthz`` and ``/readyz`` need neither a token nor a known Host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gateway.admin.access import Access, Refused
from gateway.admin.operations import Act, Operations
from gateway.errors import AuditUnavailable, ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

_MAX_BODY: Final = 4 * 2**20
_OPEN: Final = frozenset({"/healthz", "/readyz"})
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _json(value: Value, status: int = 200) -> web.Response:
    return web.Response(body=rawjson.encode(value) + b"\n", status=status, content_type="application/json")


def _single(request: web.Request, name: str) -> str | None:
    values = request.headers.getall(name, [])
    if len(values) > 1:
        raise Refused(400, f"{name} must occur once")
    return values[0] if values else None


class AdminServer:
    """The admin routes over one running gateway."""

    def __init__(self, operations: Operations, access: Access) -> None:
        self._operations = operations
        self._access = access

    def application(self) -> web.Application:
        """Return the aiohttp application; whoever runs it closes it."""
        app = web.Application(client_max_size=_MAX_BODY, middlewares=[self._guard])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/status", self._status)
        app.router.add_get("/tools", self._tools)
        app.router.add_post("/call", self._call)
        app.router.add_post("/reload", self._reload)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            if request.path not in _OPEN:
                self._access.check_host(_single(request, "Host") or "", _single(request, "Origin"))
            response = await handler(request)
        except Refused as refused:
            response = _json({"error": refused.message}, refused.status)
            if refused.status == 401:
                response.headers["WWW-Authenticate"] = 'Bearer realm="admin"'
        except web.HTTPException as error:
            response = _json({"error": error.reason}, error.status)
        response.headers.update(_HEADERS)
        return response

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        readiness = self._operations.readiness()
        if readiness.ready:
            return web.Response(text="ready\n")
        return web.Response(text="".join(f"{reason}\n" for reason in readiness.reasons), status=503)

    async def _metrics(self, request: web.Request) -> web.Response:
        self._access.scraper(_single(request, "Authorization"))
        body, content_type = self._operations.render_metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status(self, request: web.Request) -> web.Response:
        self._access.reader(_single(request, "Authorization"))
        return _json(self._operations.status())

    async def _tools(self, request: web.Request) -> web.Response:
        self._access.reader(_single(request, "Authorization"))
        try:
            return _json(self._operations.tools_as(request.query.get("as", "anonymous")))
        except KeyError as error:
            return _json({"error": str(error.args[0])}, 404)

    async def _call(self, request: web.Request) -> web.Response:
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

    async def _reload(self, request: web.Request) -> web.Response:
        user = self._access.user(_single(request, "Authorization"), "reload")
        try:
            return _json(await self._operations.reload(Act(user, request.remote or "")))
        except ConfigError as error:
            return _json({"error": "config refused", "problems": [str(problem) for problem in error.problems]}, 422)

    async def _body(self, request: web.Request) -> Object:
        if request.content_type != "application/json":
            raise Refused(415, "Content-Type must be application/json")
        try:
            value = rawjson.decode_strict(await request.read())
        except JsonError as error:
            raise Refused(400, str(error)) from None
        if not isinstance(value, dict):
            raise Refused(400, "The body must be a JSON object")
        return value
