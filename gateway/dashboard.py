"""What the dashboard asks of the running gateway: the runtime's side of its pages. Decides nothing.

Whatever may take long is done in a thread or in steps between which the loop is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway import report
from gateway.admin.operations import Act
from gateway.admin.views import Busy, Chosen, Corner, Explained, LiveCall, Matrix, Supposed, Traffic
from gateway.approvalboard import Approvalboard
from gateway.audit import events
from gateway.audit.keys import load_key
from gateway.audit.pages import Found, Place, search
from gateway.audit.query import Wanted, as_record, spellings
from gateway.audit.segment import list_segments
from gateway.audit.tail import Tail
from gateway.config.policies import Policy
from gateway.model.call import Target
from gateway.model.catalog import Kind, Route
from gateway.model.principal import ANONYMOUS, Principal
from gateway.pinboard import Pinboard
from gateway.pipeline.snapshot import Snapshot, target_of
from gateway.policy.decision import Question
from gateway.policy.engine import Engine
from gateway.policy.explain import explain
from gateway.policy.match import principal_named
from gateway.policy.selectors import parse_target
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.runtime import Runtime
from gateway.telemetry.text import printable

ROWS: Final = 50
COLUMNS: Final = 12
"""Tools and principals of one page of the matrix."""
_MAX_ARGUMENTS: Final = 65_536
_MAX_FILTER: Final = 200
_LAST_LINES: Final = 2_000
_STEP: Final = 200
"""Decisions that are made at a time."""


class Dashboard:
    """Implements the views of the dashboard over one runtime."""

    def __init__(self, runtime: Runtime, status: Callable[[], Object]) -> None:
        """``status`` tells the state of everything, at little cost."""
        self._status = status
        self._runtime = runtime
        self._pinboard = Pinboard(runtime.trust, runtime.audit)
        self._approvalboard = Approvalboard(runtime.oversight.ledger, runtime.audit)
        self._searching = asyncio.Lock()
        self._key = load_key(Path(runtime.current().config.state.dir))

    def status(self) -> Object:
        """Return the state of everything that costs little to tell."""
        return self._status()

    async def signed(self, act: Act, what: str) -> None:
        """Record that a user has signed in or out.

        Raises:
            AuditUnavailable: it cannot be recorded.
        """
        await self._runtime.audit.append(events.admin(f"sign_{what}", act.user, {}, act.source), durable=True)

    async def sign_in_refused(self, source: str, reason: str) -> None:
        """Record a sign-in that failed; floods of them in sums."""
        await self._runtime.security_event("auth.failed", {"source": source, "kind": "admin", "reason": reason})

    def pending(self) -> int:
        """Return how many calls wait for a person."""
        return self._runtime.oversight.ledger.pending

    def calls(self) -> tuple[LiveCall, ...]:
        """Return the calls that run."""
        return self._runtime.traffic.live()

    async def traffic(self, chosen: Chosen) -> Traffic:
        """Count the calls of the last hours."""
        return await self._runtime.traffic.show(chosen)

    async def matrix(self, corner: Corner) -> Matrix:
        """Return a part of who may call what, judged one by one."""
        snapshot = self._runtime.current()
        whos, routes = named(snapshot), _tools(snapshot, corner.server, corner.text)
        columns = whos[corner.column : corner.column + COLUMNS]
        rows = routes[corner.row : corner.row + ROWS]
        cells = []
        for route in rows:
            line = []
            for _, who in columns:
                line.append(standing(snapshot.engine, who, target_of(route)))
                await asyncio.sleep(0)
            cells.append(tuple(line))
        return Matrix(
            tuple(label for label, _ in columns),
            tuple(f"{route.server}/{route.name}" for route in rows),
            tuple(cells),
            len(whos),
            len(routes),
        )

    async def weights(self) -> Object:
        """Return what the list of each configured client weighs, and that of anonymous callers where there are any."""
        snapshot = self._runtime.current()
        routes = snapshot.catalog.by_kind.get(Kind.TOOL, ())
        names = report.weighed(snapshot.loaded, len(routes))
        return {name: report.weight(await _seen(snapshot, name, routes)) for name in names}

    def policies(self) -> tuple[Object, ...]:
        """Return what is configured of each policy."""
        return tuple(map(_policy, self._runtime.current().config.policies))

    def explain(self, supposed: Supposed) -> Explained:
        """Say why a call would be allowed or not.

        Raises:
            ValueError: something in it cannot be read.
        """
        snapshot = self._runtime.current()
        if supposed.view and supposed.view not in snapshot.engine.views:
            raise ValueError(f"no view is called {printable(supposed.view, _MAX_FILTER)!r}")
        who = principal_named(supposed.principal, snapshot.config.clients)
        who = replace(who, groups=who.groups | _words(supposed.groups), scopes=_words(supposed.scopes))
        snapshot = snapshot.of(who)
        target, listed = _known(snapshot, parse_target(supposed.target))
        now = datetime.now(UTC)
        question = Question(who, target, _arguments(supposed.arguments), supposed.view or None, now)
        lines = explain(snapshot.engine, question)
        if not listed:
            lines.append("note: it is in no list that is known, so its annotations are not known")
        held = [item for item in snapshot.catalog.held_back if (item.server, item.name) == (target.server, target.name)]
        lines += [f"note: it is held back from everybody: {item.reason}" for item in held]
        allowed = snapshot.engine.decide(question).allowed
        visible = snapshot.engine.visible(who, target, question.view, now)
        return Explained(allowed, visible, tuple(lines))

    def approval(self, user: str, entry_id: str) -> Object:
        """Return one call that waits or was decided.

        Raises:
            KeyError: nothing of that id waits.
        """
        return self._approvalboard.one(user, entry_id)

    def waiting(self, user: str) -> tuple[Object, ...]:
        """Return all of them with the beginning of their arguments."""
        return self._approvalboard.briefs(user)

    async def differences(self, server: str, first: int, most: int) -> Object:
        """Return how a server's pin stands, with some of what differs.

        Raises:
            KeyError: no such server.
        """
        return await asyncio.to_thread(self._pinboard.part, self._runtime.current().config.servers, server, first, most)

    async def difference(self, server: str, item: str) -> Object:
        """Return one difference whole.

        Raises:
            KeyError: no such server, or nothing of that name differs.
        """
        return await asyncio.to_thread(self._pinboard.whole, self._runtime.current().config.servers, server, item)

    def tools(self, server: str, first: int, most: int) -> Object:
        """Return some tools of a server."""
        routes = _tools(self._runtime.current(), server, "")
        shown: list[Value] = [
            {"exposed": route.exposed, "name": route.name, "bytes": len(route.wire)}
            for route in routes[first : first + most]
        ]
        return {"tools": shown, "total": len(routes)}

    async def audit(self, act: Act, wanted: Wanted, before: Place | None) -> Found:
        """Search the audit log backwards; one search at a time, in a thread, and recorded where it begins.

        Raises:
            Busy: another search runs.
            OSError: it cannot be read.
        """
        if self._searching.locked():
            raise Busy
        async with self._searching:
            if before is None:
                self._runtime.audit.note(events.admin("audit_read", act.user, _sought(wanted), act.source))
            # Subjects of an authorization server stand in the log as keyed hashes.
            names = frozenset[str]().union(*(spellings(who, self._key) for who in wanted.principal))
            wanted = replace(wanted, principal=names)
            return await asyncio.to_thread(search, Path(self._runtime.current().config.audit.dir), wanted, before)

    async def chain(self) -> Object:
        """Return how the audit chain stands."""
        audit, directory = self._runtime.audit, Path(self._runtime.current().config.audit.dir)
        on_disk = await asyncio.to_thread(_on_disk, directory)
        return {"healthy": audit.healthy, "durable_seq": audit.durable_seq, **on_disk}


def named(snapshot: Snapshot) -> list[tuple[str, Principal]]:
    """Return everybody that the config names, with a label: clients, groups, scopes, full ids, and who is nobody."""
    found: dict[str, Principal] = {}
    if snapshot.loaded.anonymous:
        found["anonymous"] = ANONYMOUS
    for name, client in snapshot.config.clients.items():
        found[name] = Principal(f"key:{name}", "key", name, frozenset(client.groups))
    known = {who.id for who in found.values()}
    for policy in snapshot.engine.policies:
        for identity in sorted(policy.who.ids - known):
            found[identity] = Principal(identity, identity.partition(":")[0], identity)
        known |= policy.who.ids
        for group in sorted(policy.who.groups):
            found.setdefault(f"group:{group}", Principal("sub:", "sub", "", frozenset({group})))
        for scope in sorted(policy.who.scopes):
            found.setdefault(f"scope:{scope}", Principal("sub:", "sub", "", scopes=frozenset({scope})))
    return list(found.items())


def standing(engine: Engine, who: Principal, target: Target) -> str:
    """Say in a word whether a principal may call something: ``yes``, ``asks`` a person, ``depends``, or ``no``."""
    now = datetime.now(UTC)
    if not engine.visible(who, target, None, now):
        return "no"
    decision = engine.decide(Question(who, target, {}, None, now))
    rules = (rule for policy in engine.about(who) if not policy.shadow for rule in (*policy.allow, *policy.deny))
    if not decision.allowed or (engine.default_deny and any(rule.needs_args and rule.covers(target) for rule in rules)):
        return "depends"
    return "asks" if decision.approvals else "yes"


async def _seen(snapshot: Snapshot, client: str, routes: Sequence[Route]) -> list[Route]:
    """Return the tools that a client sees, judged in steps between which the loop is free."""
    who, seen = principal_named(client, snapshot.config.clients), []
    if snapshot.own:
        routes = snapshot.of(who).catalog.by_kind.get(Kind.TOOL, ())
    for number, route in enumerate(routes):
        if snapshot.sees(who, None, target_of(route)):
            seen.append(route)
        if number % _STEP == _STEP - 1:
            await asyncio.sleep(0)
    return seen


def _tools(snapshot: Snapshot, server: str, text: str) -> list[Route]:
    wanted = text.casefold()
    return [
        route
        for route in snapshot.catalog.by_kind.get(Kind.TOOL, ())
        if (not server or route.server == server)
        and (not wanted or wanted in f"{route.server}/{route.name}".casefold())
    ]


def _known(snapshot: Snapshot, target: Target) -> tuple[Target, bool]:
    """Return a target with the annotations it is listed with, and whether it is listed."""
    for route in snapshot.catalog.by_kind.get(target.kind, ()) if isinstance(target.kind, Kind) else ():
        if (route.server, route.name) == (target.server, target.name):
            return target_of(route), True
    return target, False


def _arguments(text: str) -> Object:
    if len(text) > _MAX_ARGUMENTS:
        raise ValueError("the arguments are too long")
    try:
        value = rawjson.decode_value(text.encode() or b"{}")
    except (JsonError, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict):
        raise ValueError("the arguments must be a JSON object")
    return value


def _words(text: str) -> frozenset[str]:
    return frozenset(text.replace(",", " ").split())


def _policy(policy: Policy) -> Object:
    written: Object = policy.model_dump(mode="json", exclude_defaults=True)
    return written


def _sought(wanted: Wanted) -> Object:
    """Return what a search was for, as a record says it."""
    facts = {
        "principal": next(iter(sorted(wanted.principal)), ""),
        "server": wanted.server,
        "tool": wanted.tool,
        "event_glob": wanted.event,
        "outcome": wanted.outcome,
        "call": wanted.call,
        "since": wanted.since,
        "until": wanted.until,
    }
    return {key: text for key, text in facts.items() if text}


def _on_disk(directory: Path) -> Object:
    """Look at the files: how many, how large, the last record, and the last checkpoint if it is not far."""
    try:
        segments = list_segments(directory)
        size = sum(segment.path.stat().st_size for segment in segments)
        lines = Tail(directory).last(_LAST_LINES)
    except OSError:
        return {"readable": False}
    last = next(_records(lines), {})
    checkpoint = next((each for each in _records(lines) if each.get("event") == "audit.checkpoint"), {})
    return {
        "readable": True,
        "segments": len(segments),
        "bytes": size,
        "last_seq": last.get("seq"),
        "last_hash": last.get("hash"),
        "last_at": last.get("ts"),
        "checkpoint_seq": checkpoint.get("seq"),
        "checkpoint_at": checkpoint.get("ts"),
    }


def _records(lines: Iterable[bytes]) -> Iterator[Object]:
    for line in reversed(list(lines)):
        record = as_record(line)
        if record is not None:
            yield record
