"""What operators ask of the running gateway, over the admin listener: the runtime's side of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from gateway import __version__, report
from gateway.admin.operations import Act, Readiness
from gateway.audit import events
from gateway.model.call import Call, Caller, new_call_id
from gateway.model.catalog import Kind, Route
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.model.principal import ANONYMOUS, ANONYMOUS_ID, Principal
from gateway.pipeline.snapshot import Snapshot, target_of
from gateway.policy.decision import Question
from gateway.policy.explain import explain
from gateway.protocol import codes, rawjson, results
from gateway.protocol.methods import TOOLS_CALL
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import MODERN, Era
from gateway.runtime import Runtime

_FORMS: Final = {"sub:": "sub", "client:": "client", "cert:": "cert"}


class Operator:
    """Implements the acts of the admin listener over one runtime."""

    def __init__(self, runtime: Runtime, endpoint: str) -> None:
        self._runtime = runtime
        self._endpoint = endpoint

    def readiness(self) -> Readiness:
        """Tell whether calls are taken: not while draining, nor without an audit log where that stops them."""
        reasons = []
        if self._runtime.draining():
            reasons.append("draining")
        if not self._runtime.audit.healthy and self._runtime.current().config.audit.on_failure == "closed":
            reasons.append("audit_unavailable")
        return Readiness(not reasons, tuple(reasons))

    def render_metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics."""
        return self._runtime.metrics.render(accept)

    def status(self) -> Object:
        """Return the state of everything."""
        runtime = self._runtime
        snapshot = runtime.current()
        readiness = self.readiness()
        up = datetime.now(UTC) - runtime.started_at
        return {
            "version": __version__,
            "endpoint": self._endpoint,
            "started": runtime.started_at.isoformat(timespec="seconds"),
            "uptime_s": int(up.total_seconds()),
            "ready": readiness.ready,
            "reasons": list(readiness.reasons),
            "anonymous": snapshot.loaded.anonymous,
            "config": {
                "path": str(snapshot.loaded.path),
                "sha256": snapshot.loaded.digest,
                "last_load": runtime.reload_result,
            },
            "audit": {"dir": snapshot.config.audit.dir, "healthy": runtime.audit.healthy},
            "servers": report.servers(snapshot.loaded, runtime.pool.status(), snapshot.catalog, self._pin),
        }

    def _pin(self, server: str) -> report.PinReport:
        trust = self._runtime.trust
        state = trust.state(server, self._runtime.current().config.servers.get(server))
        return report.PinReport(state, tuple(trust.changed(server)))

    def tools_as(self, principal: str) -> Object:
        """Return what a principal sees, and why the rest is hidden.

        Raises:
            KeyError: no such client is configured.
        """
        snapshot = self._runtime.current()
        who = principal_named(snapshot, principal)
        routes = snapshot.catalog.by_kind.get(Kind.TOOL, ())
        visible = [route for route in routes if snapshot.sees(who, None, target_of(route))]
        hidden = [route for route in routes if not snapshot.sees(who, None, target_of(route))]
        held = [item for item in snapshot.catalog.held_back if item.kind is Kind.TOOL]
        reasons = {f"{route.server}/{route.name}": self._why(snapshot, who, route) for route in hidden}
        reasons |= {f"{item.server}/{item.name}": item.reason for item in held}
        return {
            "principal": who.id,
            "tools": [_tool(route) for route in visible],
            "approx_tokens": sum(len(route.wire) for route in visible) // report.BYTES_PER_TOKEN,
            "hidden": [{"tool": tool, "why": why} for tool, why in reasons.items()],
            "off": {**snapshot.loaded.off},
        }

    @staticmethod
    def _why(snapshot: Snapshot, principal: Principal, route: Route) -> str:
        question = Question(principal, target_of(route), {}, None, datetime.now(UTC))
        policy, reasons = "", []
        for line in explain(snapshot.engine, question):
            if line.startswith("policy "):
                policy = line.removesuffix(":")
            elif line.startswith("  ") and (": denies" in line or ": does not allow" in line):
                reasons.append(f"{policy}: {line.strip()}")
            elif line.startswith("view "):
                reasons.append(line)
        return "; ".join(reasons) or "no policy allows it"

    async def call_as(self, act: Act, principal: str, target: str, arguments: Object) -> Object:
        """Send one call through the whole path for a principal; audited as an admin's.

        Raises:
            KeyError: no such client or tool.
        """
        snapshot = self._runtime.current()
        who = principal_named(snapshot, principal)
        route = _route(snapshot, target)
        call = Call(
            id=new_call_id(),
            rpc_id=0,
            method=TOOLS_CALL,
            params={"name": route.name, "arguments": arguments},
            target=target_of(route),
            principal=who,
            caller=Caller(Era.MODERN, MODERN, source=act.source, info={"name": "admin", "user": act.user}),
            exposed=route.exposed,
            definition=route.definition,
        )
        facts: Object = {"as": who.id, "target": target, "call_id": call.id}
        await self._runtime.audit.append(events.admin("call", act.user, facts, act.source), durable=True)
        if not snapshot.sees(who, None, call.target):
            await self._runtime.denied(call)
            return {"error": {"code": codes.INVALID_PARAMS, "message": f"Unknown tool: {route.exposed}"}}
        return _shown(await snapshot.run(call, Exchange()))

    async def reload(self, act: Act) -> Object:
        """Read the config again.

        Raises:
            ConfigError: it cannot be served.
        """
        return await self._runtime.reload(act)


def principal_named(snapshot: Snapshot, text: str) -> Principal:
    """Return the principal that a name stands for: a client's bare name, or any form of the policies.

    Raises:
        KeyError: no such client, or a form that names nobody.
    """
    if text == ANONYMOUS_ID:
        return ANONYMOUS
    name = text.removeprefix("key:")
    client = snapshot.config.clients.get(name)
    if client is not None:
        return Principal(f"key:{name}", "key", name, frozenset(client.groups))
    for form, kind in _FORMS.items():
        if text.startswith(form):
            return Principal(text, kind, kind)
    known = ", ".join(snapshot.config.clients) or "none"
    raise KeyError(f'no client "{text}" is configured (configured: {known}; or anonymous)')


def _route(snapshot: Snapshot, target: str) -> Route:
    """Find ``SERVER/TOOL`` by the server's own name of the tool, or an exposed name as clients see it."""
    server, _, name = target.partition("/")
    for route in snapshot.catalog.by_kind.get(Kind.TOOL, ()):
        if (route.server, route.name) == (server, name) or route.exposed == target:
            return route
    raise KeyError(f'no tool "{target}" (SERVER/TOOL with the names the server uses; see "tools")')


def _tool(route: Route) -> Value:
    return {"exposed": route.exposed, "tool": f"{route.server}/{route.name}", "bytes": len(route.wire)}


def _shown(outcome: Outcome) -> Object:
    match outcome:
        case Complete(result):
            return {"result": {key: rawjson.peek(item) for key, item in result.items()}}
        case Failure(error=None):
            members = results.refusal(
                outcome.reason,
                outcome.text,
                may_have_run=outcome.may_have_run,
                retry_after_ms=outcome.retry_after_ms,
                modern=True,
            )
            return {"result": {key: rawjson.peek(item) for key, item in members.items()}}
        case Failure(error=error) if error is not None:
            return {"error": {"code": error.code, "message": error.message}}
        case Failure() | InputRequired() | Started():
            return {"error": {"code": codes.INTERNAL_ERROR, "message": "the call ended in an unexpected way"}}
