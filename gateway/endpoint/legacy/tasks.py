"""Tasks of clients that shook hands (2025-11-25 basic/utilities/tasks): ids of our own, and a list of one's own.

Servers may keep the tasks of several clients together, so that their lists are not to be trusted: a client is shown
those it began here, each looked at anew. Knows no server and no pipeline.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from gateway.endpoint import fit, reply, tasks
from gateway.endpoint.build import UnknownTarget, invalid
from gateway.endpoint.reply import Answer
from gateway.endpoint.services import Moment, Services
from gateway.errors import RequestError
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Ask, Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Complete, Failure, Outcome, Started
from gateway.model.principal import Principal
from gateway.protocol import codes, jsonrpc, methods, rawjson, versions
from gateway.protocol import tasks as wire
from gateway.protocol.rawjson import Members, Object, Raw, Value
from gateway.protocol.versions import Era
from gateway.state.sealing import Sealer, SealError

AUGMENT: Final = "task"
MAX_OWN: Final = 256
"""Tasks of one principal that are listed; older ones can still be asked for by their id."""
MAX_ALL: Final = 10_000
LONGEST: Final = 86_400.0
"""Seconds for which a task is listed at most, when its server promises to keep it for longer."""
PAGE: Final = 20
AT_ONCE: Final = 4
"""Tasks looked at together for a page of the list."""
_CURSOR: Final = "task-cursor"

Look: TypeAlias = Callable[[Call], Awaitable[Outcome]]
"""Runs a request about a task."""
Hear: TypeAlias = Callable[[str, bytes], None]
"""Takes a session's id and a message for it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A task that a session began. ``until`` is in monotonic seconds."""

    token: str
    tool: str
    principal: Principal
    view: str | None
    session: str
    until: float

    @property
    def owner(self) -> tuple[str, str | None]:
        """Whose it is, under whatever credential."""
        return self.principal.id, self.view


class Book:
    """The tasks that legacy clients began here, by what their servers call them. ``hear`` delivers what is told."""

    def __init__(self, services: Services, hear: Hear) -> None:
        self._services = services
        self._hear = hear
        self._entries: OrderedDict[tuple[str, str, str], _Entry] = OrderedDict()
        self._unsubscribe: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, call: Call, instance: str, task: wire.Task, replica: str = "") -> str:
        """Note a task, for which the oldest make room; returns the id that its client knows it by."""
        if self._unsubscribe is None:
            self._unsubscribe = self._services.pool.task_news(self._heard)
        token = tasks.seal(self._services.sealer, call, task.id, instance, replica)
        now, owner = time.monotonic(), (call.principal.id, call.caller.view)
        gone = [key for key, entry in self._entries.items() if entry.until <= now]
        own = [key for key, entry in self._entries.items() if entry.owner == owner]
        for key in (*gone, *own[: max(0, len(own) - MAX_OWN + 1)]):
            self._entries.pop(key, None)
        while len(self._entries) >= MAX_ALL:
            self._entries.popitem(last=False)
        until = now + min(LONGEST if task.ttl is None else task.ttl, LONGEST)
        self._entries[call.target.server, instance, task.id] = _Entry(
            token, call.target.name, call.principal, call.caller.view, call.caller.session, until
        )
        return token

    def own(self, principal: Principal, view: str | None) -> list[str]:
        """Return the ids of a principal's tasks, the oldest first."""
        owner, now = (principal.id, view), time.monotonic()
        return [entry.token for entry in self._entries.values() if entry.owner == owner and entry.until > now]

    def forget(self, token: str) -> None:
        """Drop a task that is not there any more."""
        for key in [key for key, entry in self._entries.items() if entry.token == token]:
            del self._entries[key]

    def close(self) -> None:
        """Hear of nothing any more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _heard(self, news: TaskNews) -> None:
        """Tell the session that began a task, and nobody else, of its change (§Task Status Notification).

        While its tool may still be called, and as it may be read; a client may not count on hearing of it.
        """
        entry = self._entries.get((news.server, news.instance, news.task))
        if entry is None or entry.until <= time.monotonic():
            return
        moment = self._services.current().of(entry.principal)
        route = tasks.route_of(moment, news.server, entry.tool)
        principal = moment.authenticator.fresh(entry.principal) or entry.principal
        if route is not None and moment.resolve(Kind.TOOL, route.exposed, principal, entry.view) is not None:
            moment.sift(news.server, news.state, partial(self._tell, entry))

    def _tell(self, entry: _Entry, state: Members | None) -> None:
        if state is not None:
            told = wire.unrelated(wire.renamed(state, entry.token))
            self._hear(entry.session, jsonrpc.encode_notification(methods.TASK_STATUS, told))


def augmented(moment: Moment, call: Call, params: Object) -> Call:
    """Return a tool call that asks for a task, where the request does and its server runs calls as tasks.

    Where it does not, or the client's version has no tasks, the wish is ignored (§Task Support and Handling).

    Raises:
        RequestError: the wish has the wrong shape.
    """
    wish = params.get(AUGMENT)
    if call.method != methods.TOOLS_CALL or wish is None or call.caller.version != versions.LATEST_LEGACY:
        return call
    if not isinstance(wish, dict):
        raise invalid(f"{AUGMENT} must be an object")
    listing = moment.catalog.listings.get(call.target.server)
    if listing is None or listing.era != Era.LEGACY.value or not wire.runs_tools(listing.capabilities, listing.era):
        return call
    ttl = wish.get("ttl")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 <= ttl < 2**53):
        raise invalid(f"{AUGMENT}.ttl must be a number of milliseconds")
    kept: Object = {} if ttl is None else {"ttl": ttl}
    return replace(call, params={**call.params, AUGMENT: kept})


def offered(moment: Moment, principal: Principal, view: str | None) -> bool:
    """Tell whether a server of which this principal sees a tool runs calls as tasks."""
    able = {
        name
        for name, listing in moment.catalog.listings.items()
        if listing.era == Era.LEGACY.value and wire.runs_tools(listing.capabilities, listing.era)
    }
    return bool(able) and any(route.server in able for route in moment.listed(Kind.TOOL, principal, view))


def started(book: Book, moment: Moment, call: Call, exchange: Exchange, outcome: Started) -> Answer:
    """Write the handle of a task that a call became (§Creating Tasks)."""
    task = wire.started(outcome.result, Era.LEGACY)
    if task is None:
        return reply.refusal(call, reply.unfinished(call))
    where = exchange.instance
    token = book.add(call, where.instance, task, where.replica) if where is not None else book.add(call, "", task)
    own = wire.renamed(rawjson.decode_members(outcome.result[AUGMENT]), token)
    members = outcome.result | {AUGMENT: rawjson.raw(own)}
    if wire.related(members) is not None:
        members = wire.relate(members, token)
    fitted = fit.result(moment, replace(call, method=methods.TASKS_GET), exchange, members)
    return Answer(jsonrpc.encode_result(call.rpc_id, fitted))


def answer(moment: Moment, call: Call, exchange: Exchange, outcome: Outcome) -> Answer:
    """Write how a request about a task ended: its result is that of the call, and says which task it is of."""
    if not isinstance(outcome, Complete) or call.task is None:
        return tasks.answer(moment, call, exchange, outcome)
    if call.method == methods.TASKS_RESULT:
        fitted = fit.result(moment, tasks.as_tool_call(call), exchange, outcome.result)
        return Answer(jsonrpc.encode_result(call.rpc_id, wire.relate(fitted, call.task.shown)))
    members = fit.result(moment, call, exchange, wire.renamed(outcome.result, call.task.shown))
    return Answer(jsonrpc.encode_result(call.rpc_id, members))


def related_ask(ask: Ask, call: Call) -> Ask:
    """Return what puts a task's questions to its client; the answers name the task as its server does."""
    if call.task is None:
        return ask
    own = call.task.id

    async def asked(questions: dict[str, Raw]) -> Object:
        return {key: _answered(item, own) for key, item in (await ask(questions)).items()}

    return asked


def _answered(given: Value, task: str) -> Value:
    if not isinstance(given, dict):
        return given
    own = given.get("_meta")
    return {**given, "_meta": {**(own if isinstance(own, dict) else {}), wire.RELATED: {methods.TASK_ID: task}}}


@dataclass(frozen=True, slots=True)
class Lister:
    """Serves ``tasks/list`` for one session (§Listing Tasks). ``look`` runs a request about a task."""

    book: Book
    sealer: Sealer
    moment: Moment
    look: Look

    async def page(self, draft: Call, cursor: Value) -> Members:
        """Return a page of the caller's tasks, the newest first, as their servers tell of them now.

        Raises:
            RequestError: −32602 for a cursor that is not this principal's.
        """
        own = self.book.own(draft.principal, draft.caller.view)[::-1]
        start = 0 if cursor is None else self._start(draft, cursor, own)
        chosen = own[start : start + PAGE]
        slots = asyncio.Semaphore(AT_ONCE)

        async def seen(token: str) -> Members | None:
            async with slots:
                return await self._seen(draft, token)

        found = await asyncio.gather(*(seen(token) for token in chosen))
        result: Members = {"tasks": rawjson.raw([state for state in found if state is not None])}
        if start + PAGE < len(own):
            after = self.sealer.seal(_CURSOR, chosen[-1].encode(), _context(draft))
            result["nextCursor"] = rawjson.raw(after)
        return result

    def _start(self, draft: Call, cursor: Value, own: list[str]) -> int:
        try:
            last = self.sealer.open(_CURSOR, cursor if isinstance(cursor, str) else "", _context(draft)).decode()
        except SealError:
            raise RequestError(codes.INVALID_PARAMS, "Invalid cursor: start again from the first page") from None
        return own.index(last) + 1 if last in own else len(own)

    async def _seen(self, draft: Call, token: str) -> Members | None:
        """Look at one task; None for one that is gone, out of reach, or of a tool that is not the caller's any more."""
        try:
            call = tasks.call_of(self.moment, self.sealer, draft, {methods.TASK_ID: token})
        except UnknownTarget:
            return None
        outcome = await self.look(replace(call, method=methods.TASKS_GET))
        match outcome:
            case Complete(result):
                kept = {key: item for key, item in result.items() if key not in ("resultType", "_meta")}
                return wire.renamed(kept, token)
            case Failure(error=error) if error is not None and error.code == codes.INVALID_PARAMS:
                self.book.forget(token)
        return None


def _context(draft: Call) -> bytes:
    return rawjson.canonical_plain([draft.principal.id, draft.caller.view])
