"""What operators ask of the running gateway, over the admin listener: the runtime's side of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from gateway import __version__, report
from gateway.admin.operations import Act, Readiness
from gateway.approvalboard import Approvalboard
from gateway.audit import events
from gateway.model.call import Call, Caller, new_call_id
from gateway.model.catalog import Kind, Route
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.model.principal import Principal
from gateway.pinboard import Pinboard
from gateway.pipeline.snapshot import Snapshot, target_of
from gateway.policy import match
from gateway.policy.decision import Question
from gateway.policy.explain import explain
from gateway.policy.match import ClientError
from gateway.protocol import codes, rawjson, results
from gateway.protocol.methods import TOOLS_CALL
from gateway.protocol.rawjson import Object, Value
from gateway.protocol.versions import MODERN, Era
from gateway.runtime import Runtime


class Operator:
    """Implements the acts of the admin listener over one runtime."""

    def __init__(self, runtime: Runtime, endpoint: str) -> None:
        self._runtime = runtime
        self._endpoint = endpoint
        self._pinboard = Pinboard(runtime.trust, runtime.audit)
        self._approvalboard = Approvalboard(runtime.oversight.ledger, runtime.audit)

    def readiness(self) -> Readiness:
        """Tell whether calls are taken: not while draining, nor without an audit log where that stops them."""
        reasons = []
        if self._runtime.leaving or self._runtime.draining():
            reasons.append("draining")
        if not self._runtime.audit.healthy and self._runtime.current().config.audit.on_failure == "closed":
            reasons.append("audit_unavailable")
        details = []
        if not self._runtime.reloading.good:
            details.append("config_reload_failed")
        if self._runtime.store_status()["state"] != "up":
            details.append("store_degraded")
        if not self._runtime.durable.documents.health().reachable:
            details.append("database_unreachable")
        return Readiness(not reasons, tuple(reasons), tuple(details))

    def render_metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics."""
        return self._runtime.metrics.render(accept)

    def status(self) -> Object:
        """Return the state of everything."""
        return {**self.brief(), "clients": self._weights(self._runtime.current())}

    def brief(self) -> Object:
        """Return the same without what would have to be judged for it."""
        runtime = self._runtime
        snapshot = runtime.current()
        readiness = self.readiness()
        up = datetime.now(UTC) - runtime.started_at
        return {
            "version": __version__,
            "endpoint": self._endpoint,
            "started": runtime.started_at.isoformat(timespec="seconds"),
            "uptime_s": int(up.total_seconds()),
            "replica": runtime.post.replica,
            "ready": readiness.ready,
            "reasons": list(readiness.reasons),
            "anonymous": snapshot.loaded.anonymous,
            "config": {
                "path": str(snapshot.loaded.path),
                "sha256": snapshot.loaded.digest,
                **runtime.reloading.status(),
            },
            "audit": {"dir": snapshot.config.audit.dir, "healthy": runtime.audit.healthy},
            "store": runtime.store_status(),
            "database": runtime.durable.status(),
            "approvals": {"pending": runtime.oversight.ledger.pending},
            "alerts": runtime.oversight.alerts.status(),
            "servers": report.with_own(
                report.servers(snapshot.loaded, runtime.pool.status(), snapshot.catalog, self._pin),
                {name: runtime.personal.count(name) for name in snapshot.own},
            ),
        }

    @staticmethod
    def _weights(snapshot: Snapshot) -> Object:
        """Return what the list of each configured client weighs, and that of anonymous callers where there are any."""
        names = report.weighed(snapshot.loaded, len(snapshot.catalog.by_kind.get(Kind.TOOL, ())))
        whos = {name: principal_named(snapshot, name) for name in names}
        return {name: report.weight(snapshot.of(who).listed(Kind.TOOL, who, None)) for name, who in whos.items()}

    def _pin(self, server: str) -> report.PinReport:
        trust = self._runtime.trust
        return report.PinReport(trust.state(server), tuple(trust.changed(server)))

    async def pins(self, target: str) -> Object:
        """Return pins and what differs from them.

        Raises:
            KeyError: no such server or item.
        """
        # In a thread: definitions may be long and many, and are compared member by member.
        return await asyncio.to_thread(self._pinboard.show, self._runtime.current().config.servers, target)

    async def decide_pins(self, act: Act, verb: str, target: str, digests: Mapping[str, str]) -> Object:
        """Approve or reject what differs.

        Raises:
            KeyError: no such server, or nothing that differs.
            Conflict: it is not what was shown, or cannot be approved.
            AuditUnavailable: the act cannot be recorded.
        """
        decide = self._pinboard.approve if verb == "approve" else self._pinboard.reject
        return await decide(act, self._runtime.current().config.servers, target, digests)

    async def approvals(self, user: str) -> Object:
        """Return the calls that wait for a person, and those that were decided and not made yet."""
        return await self._approvalboard.show(user)

    async def decide_approval(self, act: Act, verb: str, entry_id: str, reason: str) -> Object:
        """Approve or deny one of them.

        Raises:
            KeyError: nothing of that id waits.
            Forbidden: this user is not asked.
            Conflict: it is decided already, or cannot be kept.
            AuditUnavailable: the act cannot be recorded.
        """
        if verb == "approve":
            return await self._approvalboard.approve(act, entry_id)
        return await self._approvalboard.deny(act, entry_id, reason)

    def tools_as(self, principal: str, view: str | None = None) -> Object:
        """Return what a principal sees, through a view or all, and why the rest is hidden; asks no server for it.

        Raises:
            KeyError: no such client or view is configured.
        """
        snapshot = self._runtime.current()
        who = principal_named(snapshot, principal)
        if view is not None and view not in snapshot.config.views:
            raise KeyError(f'no view "{view}" is configured')
        snapshot = snapshot.of(who)
        routes = snapshot.catalog.by_kind.get(Kind.TOOL, ())
        visible = [route for route in routes if snapshot.sees(who, view, target_of(route))]
        hidden = [route for route in routes if not snapshot.sees(who, view, target_of(route))]
        held = [item for item in snapshot.catalog.held_back if item.kind is Kind.TOOL]
        reasons = {f"{route.server}/{route.name}": self._why(snapshot, who, view, route) for route in hidden}
        reasons |= {f"{item.server}/{item.name}": item.reason for item in held}
        reasons |= {
            f"{server}/*": f"its own lists: {why}" for server, why in self._runtime.personal.reasons(who).items()
        }
        return {
            "principal": who.id,
            "tools": [_tool(route) for route in visible],
            "view": view,
            "mode": snapshot.config.views[view].mode if view is not None else "list",
            "approx_tokens": report.weight(visible)["approx_tokens"],
            "servers": report.by_server(visible),
            "hidden": [{"tool": tool, "why": why} for tool, why in reasons.items()],
            "off": {**snapshot.loaded.off},
        }

    @staticmethod
    def _why(snapshot: Snapshot, principal: Principal, view: str | None, route: Route) -> str:
        question = Question(principal, target_of(route), {}, view, datetime.now(UTC))
        policy, reasons = "", []
        for line in explain(snapshot.engine, question):
            if line.startswith("policy "):
                policy = line.removesuffix(":")
            elif policy.endswith(" (shadow)"):
                # What it would do hides nothing.
                continue
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
        if snapshot.own:
            await self._runtime.personal.ready(who)
            snapshot = self._runtime.current().of(who)
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
        return await self._runtime.reloading.reload(act)


def principal_named(snapshot: Snapshot, text: str) -> Principal:
    """Return the principal that a name stands for: a client's bare name, or any form of the policies.

    Raises:
        KeyError: no such client, or a form that names nobody.
    """
    try:
        return match.principal_named(text, snapshot.config.clients)
    except ClientError as error:
        raise KeyError(str(error)) from None


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
            members = results.refusal(outcome.text, outcome.facts(), modern=True)
            return {"result": {key: rawjson.peek(item) for key, item in members.items()}}
        case Failure(error=error) if error is not None:
            return {"error": {"code": error.code, "message": error.message}}
        case Failure() | InputRequired() | Started():
            return {"error": {"code": codes.INTERNAL_ERROR, "message": "the call ended in an unexpected way"}}
