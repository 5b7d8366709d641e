"""Parks a legacy server's call while its question travels to the client, and goes on when the answers come (G062).

The request stays open at the server; what leaves is a ticket, good once, in place of a modern server's own state. So
the rest of the gateway knows one kind of question (2026-07-28 basic/patterns/mrtr). Knows no transport and no client.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.downstream.flights import Flight, clean
from gateway.downstream.transport import Answer, Later
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import codes, methods, rawjson
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import Members, Object, Raw
from gateway.tasks import TaskSet

MAX_OPEN: Final = 16
"""Questions of one call at once."""
MAX_PER_PRINCIPAL: Final = 16
MAX_PER_SERVER: Final = 256
"""Parked calls; a question beyond is declined and its call goes on."""
KEPT: Final = 60.0
"""Seconds in which a spent ticket gets the same outcome again, for a client whose answer got lost on its way."""
MAX_SPENT: Final = 1024
MAX_SPENT_BYTES: Final = 16 * 2**20
"""Spent tickets of all servers, and the results kept for them; the oldest go first."""

End: TypeAlias = Outcome | DownstreamError


@dataclass(slots=True)
class Roots:
    """The roots last heard of from whoever shares a connection; a server may ask for them outside of calls."""

    last: Members = field(default_factory=lambda: {"roots": rawjson.raw([])})


def declined(method: str, roots: Roots) -> Answer:
    """Return the answer to a question that reaches nobody (contract: Capabilities)."""
    match method:
        case methods.ELICIT:
            return {"action": rawjson.raw("cancel")}
        case methods.ROOTS:
            return roots.last
        case _:
            return ErrorObject(codes.METHOD_NOT_FOUND, "Method not found")


@dataclass(slots=True, eq=False)
class _Question:
    method: str
    request: Raw
    answer: Later


@dataclass(slots=True, eq=False)
class _Round:
    """Questions that went to the client under one ticket. ``then`` is how the call went on after the answers."""

    call: ParkedCall
    keys: frozenset[str]
    then: asyncio.Future[End] | None = None


class Parking:
    """All parked calls of a pool, and the tickets that lead to them."""

    def __init__(self) -> None:
        self._rounds: dict[str, _Round] = {}
        self._calls: set[ParkedCall] = set()
        self._spent: dict[str, int] = {}
        self._spent_bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call: ParkedCall) -> bool:
        return call in self._calls

    def has_place(self, call: Call) -> bool:
        """Tell whether one more call of this principal on this server may be parked."""
        parked = [each.call for each in self._calls]
        return (
            sum(each.principal.id == call.principal.id for each in parked) < MAX_PER_PRINCIPAL
            and sum(each.target.server == call.target.server for each in parked) < MAX_PER_SERVER
        )

    def knows(self, call: Call) -> bool:
        """Tell whether a call goes on with one that is parked here."""
        round_ = self._rounds.get(call.request_state or "")
        return round_ is not None and round_.call.belongs_to(call)

    async def resume(self, call: Call, exchange: Exchange) -> Outcome:
        """Go on with a parked call.

        Raises:
            DownstreamError: it ended without an answer.
        """
        ticket = call.request_state or ""
        round_ = self._rounds.get(ticket)
        if round_ is None or not round_.call.belongs_to(call):
            return unknown(call)
        return await round_.call.resume(ticket, round_, call, exchange)

    def enter(self, call: ParkedCall) -> None:
        """Count a call as parked, until its end."""
        if call.task is not None and call not in self._calls:
            self._calls.add(call)
            call.task.add_done_callback(lambda task: self._calls.discard(call))

    def issue(self, round_: _Round) -> str:
        """Return a new ticket; who holds it may answer."""
        ticket = f"parked-{secrets.token_urlsafe(24)}"
        self._rounds[ticket] = round_
        if round_.call.task is not None:
            # The client may still come for the end of a call that did not wait for it.
            round_.call.task.add_done_callback(lambda task: self._ended(ticket, round_))
        return ticket

    def _ended(self, ticket: str, round_: _Round) -> None:
        if round_.then is None:
            self.spend(ticket, round_)

    def spend(self, ticket: str, round_: _Round) -> None:
        """Keep a ticket that needs no more answers for a while; it then leads to the same outcome."""
        if ticket not in self._spent and ticket in self._rounds:
            self._spent[ticket] = 0
            if round_.then is not None:
                round_.then.add_done_callback(lambda stage: self._weigh(ticket, stage.result()))
            else:
                self._weigh(ticket, round_.call.end)
            asyncio.get_running_loop().call_later(KEPT, self._forget, ticket)
        while len(self._spent) > MAX_SPENT:
            self._forget(next(iter(self._spent)))

    def _weigh(self, ticket: str, end: End | None) -> None:
        if ticket in self._spent:
            self._spent[ticket] = _size(end)
            self._spent_bytes += self._spent[ticket]
        while self._spent_bytes > MAX_SPENT_BYTES:
            self._forget(next(iter(self._spent)))

    def _forget(self, ticket: str) -> None:
        self._spent_bytes -= self._spent.pop(ticket, 0)
        self._rounds.pop(ticket, None)

    async def vacated(self, owner: str) -> None:
        """Wait until every call that was parked on connections of this owner has ended."""
        tasks = [each.task for each in self._calls if each.task is not None and each.owner == owner]
        if tasks:
            await asyncio.wait(tasks)


def _size(end: End | None) -> int:
    match end:
        case Complete(held) | Started(held) | InputRequired(requests=held):
            return sum(len(rawjson.raw_bytes(item)) for item in held.values())
        case _:
            return 0


def _lapse(call: Call, exchange: Exchange) -> None:
    """Take a lapse that nobody counts."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a connection needs to let its server ask.

    ``declares`` are the client capabilities that the server is told of, ``owner`` names the configuration, ``use``
    keeps the connection while a call is parked on it. ``lapsed`` takes a call that was cancelled since no
    answer came.
    """

    declares: Object = field(default_factory=dict)
    parking: Parking = field(default_factory=Parking)
    roots: Roots = field(default_factory=Roots)
    owner: str = ""
    use: Callable[[], AbstractContextManager[None]] = nullcontext
    lapsed: Callable[[Call, Exchange], None] = _lapse


class ParkedCall:
    """One call that its server may interrupt with questions; it runs in a task of its own.

    ``seconds`` is how long it may wait for people, all questions together.
    """

    def __init__(self, call: Call, exchange: Exchange, asking: Asking, seconds: float) -> None:
        self.call = call
        self.exchange = exchange
        self.flight: Flight | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_parked = False
        self._asking = asking
        self._left = seconds
        self._parked_at = 0.0
        self._keys = itertools.count(1)
        self._questions: dict[str, _Question] = {}
        self._stage: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._followers = 0
        self._given_up = False
        self.end: End | None = None

    @property
    def owner(self) -> str:
        """The configuration whose connection the call is on."""
        return self._asking.owner

    async def run(self, tasks: TaskSet, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Start the work and return its outcome, or the first questions.

        Raises:
            DownstreamError: the work's own.
        """
        self.task = tasks.start(self._run(work), "call that may ask")
        # A task that was cancelled before its first step has run nothing of ``_run``.
        self.task.add_done_callback(lambda task: self._over(self.end or self._cut_off()))
        return await self._follow(self._stage)

    async def _run(self, work: Callable[[], Awaitable[Outcome]]) -> None:
        try:
            self._over(await work())
        except DownstreamError as error:
            self._over(error)

    def _cut_off(self) -> DownstreamError:
        sent = self.flight is not None and self.flight.sent
        if self._given_up:
            return DownstreamError(Reason.CANCELLED, "its call was cancelled by the client", may_have_run=sent)
        return DownstreamError(Reason.UNAVAILABLE, "the connection was closed", may_have_run=sent)

    def give_up(self) -> None:
        """Cancel the call: nobody will come for it."""
        self._given_up = True
        if self.task is not None:
            self.task.cancel()
        self._over(self._cut_off())

    def _over(self, end: End) -> None:
        """Take the end of the work, once."""
        if self.end is not None:
            return
        self.end = end
        for question in self._questions.values():
            question.answer.cancel()
        self._questions.clear()
        if self.is_parked:
            self._leave()
            if isinstance(end, DownstreamError) and end.reason is Reason.TIMEOUT:
                self._asking.lapsed(self.call, self.exchange)
        self._move_on()

    def ask(self, method: str, params: Members) -> Later | None:
        """Take a question of the server; its answer comes later. None where there is no place for it."""
        parking = self._asking.parking
        if self.end is not None or len(self._questions) >= MAX_OPEN:
            return None
        if self not in parking and not parking.has_place(self.call):
            return None
        said = clean(params)
        request = rawjson.raw({"method": method, "params": said} if said else {"method": method})
        later: Later = asyncio.get_running_loop().create_future()
        self._questions[f"ask-{next(self._keys)}"] = _Question(method, request, later)
        self._move_on()
        return later

    def _move_on(self) -> None:
        """Tell those who wait of the end, or of questions."""
        if self._stage.done():
            return
        if self.end is not None:
            self._stage.set_result(self.end)
        elif self._questions:
            self._park()
            keys = frozenset(self._questions)
            ticket = self._asking.parking.issue(_Round(self, keys))
            self._stage.set_result(self._open(ticket))

    def _open(self, ticket: str) -> InputRequired:
        return InputRequired({key: each.request for key, each in self._questions.items()}, ticket, held=True)

    def _park(self) -> None:
        """Stop the clock of the call and start that of the people."""
        self.is_parked = True
        self._parked_at = asyncio.get_running_loop().time()
        self._asking.parking.enter(self)
        self.exchange.abandon = self._abandon
        if self.flight is not None:
            self.flight.hold(self._left)
            if self.exchange.ask is None:
                # The client comes back by itself; until then what the server says has no stream to travel on.
                self.flight.exchange = Exchange()

    def _abandon(self) -> None:
        """End the call while it waits: its client is known not to come back."""
        if self.is_parked:
            self.give_up()

    def _leave(self) -> None:
        self.is_parked = False
        self._left = max(0.0, self._left - (asyncio.get_running_loop().time() - self._parked_at))

    def belongs_to(self, call: Call) -> bool:
        """Tell whether a call is this one, gone on with: anything else is another's, or made up (G063)."""
        mine = self.call
        return (call.principal.id, call.target.server, call.method, call.target.name) == (
            mine.principal.id,
            mine.target.server,
            mine.method,
            mine.target.name,
        )

    async def resume(self, ticket: str, round_: _Round, call: Call, exchange: Exchange) -> Outcome:
        """Take answers; once all are there the call goes on, else the rest is asked again.

        Raises:
            DownstreamError: the work's own.
        """
        exchange.instance, exchange.abandon = self.exchange.instance, self._abandon
        if round_.then is None:
            if self.end is None:
                self._answer(round_, call.input_responses or {})
                if self._questions.keys() & round_.keys:
                    round_.keys = frozenset(self._questions)
                    return self._open(ticket)
            self._go_on(round_, call, exchange)
            self._asking.parking.spend(ticket, round_)
        assert round_.then is not None
        return await self._follow(round_.then)

    def _answer(self, round_: _Round, responses: Object) -> None:
        """Hand the answers to the server; null is a question that the client refused, other values are no answers."""
        for key in round_.keys & self._questions.keys() & responses.keys():
            value, question = responses[key], self._questions[key]
            if value is None:
                answer = declined(question.method, self._asking.roots)
            elif isinstance(value, dict):
                answer = {name: rawjson.raw(item) for name, item in value.items()}
                if question.method == methods.ROOTS:
                    self._asking.roots.last = answer
            else:
                continue
            del self._questions[key]
            if not question.answer.done():
                question.answer.set_result(answer)

    def _go_on(self, round_: _Round, call: Call, exchange: Exchange) -> None:
        exchange.mark_dispatched()
        self.call, self.exchange = call, exchange
        if self.is_parked:
            self._leave()
            if self.flight is not None:
                self.flight.call, self.flight.exchange = call, exchange
                self.flight.go_on()
        self._stage = round_.then = asyncio.get_running_loop().create_future()
        self._move_on()

    async def _follow(self, stage: asyncio.Future[End]) -> Outcome:
        """Wait for the next stage; a client that leaves before it takes the call along, if it was the only one."""
        self._followers += 1
        try:
            end = await asyncio.shield(stage)
        except asyncio.CancelledError:
            if self._followers == 1 and not stage.done() and self.task is not None:
                self.give_up()
                await asyncio.wait([self.task])
            raise
        finally:
            self._followers -= 1
        if isinstance(end, DownstreamError):
            raise end
        return end


def unknown(call: Call) -> Failure:
    """Return the refusal of answers to what nobody waits for: too late, or the gateway was restarted."""
    text = f'Server "{call.target.server}" no longer waits for these answers. Its call has ended and may have run.'
    return Failure(Reason.UNAVAILABLE, f"{text} Check its effect before you call again.", True, detail="unknown_ticket")
