"""Parks a legacy server's call while its question travels to the client, and goes on when the answers come (G062).

The request stays open at the server; what leaves is a ticket, good once, in place of a modern server's own state. So
the rest of the gateway knows one kind of question (2026-07-28 basic/patterns/mrtr). Knows no transport and no client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.downstream.flights import Flight
from gateway.downstream.questions import Questions, Roots
from gateway.downstream.tickets import Tickets, is_ticket
from gateway.downstream.transport import Later
from gateway.downstream.turns import Turns
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.protocol import rawjson
from gateway.protocol.capabilities import EXTENSIONS
from gateway.protocol.rawjson import Members, Object
from gateway.tasks import TaskSet

MAX_PER_PRINCIPAL: Final = 16
MAX_PER_SERVER: Final = 256
"""Parked calls; a question beyond is declined and its call goes on."""
GRACE: Final = 0.005
LONGEST_GRACE: Final = 0.01
"""Seconds that a question waits for another of the same call to travel with it, and that the first waits at most."""

End: TypeAlias = Outcome | DownstreamError


@dataclass(slots=True, eq=False)
class _Round:
    """Questions that went to the client under one ticket. ``then`` is how the call went on after the answers."""

    call: ParkedCall
    keys: frozenset[str]
    then: asyncio.Future[End] | None = None


class Parking:
    """All parked calls of a pool, and the tickets that lead to their rounds; ``replica`` stands in each."""

    def __init__(self, replica: str = "") -> None:
        self.tickets: Tickets[_Round] = Tickets(replica)
        self._calls: set[ParkedCall] = set()

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

    def _round(self, call: Call) -> _Round | None:
        round_ = self.tickets.get(call.request_state)
        return round_ if round_ is not None and round_.call.belongs_to(call) else None

    def knows(self, call: Call) -> bool:
        """Tell whether a call goes on with one that is parked here."""
        return self._round(call) is not None

    def waits(self, ticket: str | None) -> bool:
        """Tell whether a call waits for answers to the questions of this ticket, and for nothing else."""
        round_ = self.tickets.get(ticket)
        return round_ is not None and round_.then is None and round_.call.is_parked

    def abandon(self, ticket: str) -> Call | None:
        """Give up the call that waits under a ticket, and return it: its client is known not to come back."""
        round_ = self.tickets.get(ticket) if self.waits(ticket) else None
        if round_ is None:
            return None
        round_.call.abandon()
        return round_.call.call

    async def resume(self, call: Call, exchange: Exchange) -> Outcome:
        """Go on with a parked call.

        Raises:
            DownstreamError: it ended without an answer.
        """
        round_ = self._round(call)
        if round_ is None:
            return unknown(call, exchange)
        return await round_.call.resume(call.request_state or "", round_, call, exchange)

    def enter(self, call: ParkedCall) -> None:
        """Count a call as parked, until its end."""
        if call.task is not None and call not in self._calls:
            self._calls.add(call)
            call.task.add_done_callback(lambda task: self._calls.discard(call))

    def issue(self, round_: _Round) -> str:
        """Return a new ticket; who holds it may answer."""
        ticket = self.tickets.issue(round_)
        if round_.call.task is not None:
            # The client may still come for the end of a call that did not wait for it.
            round_.call.task.add_done_callback(lambda task: self._ended(ticket, round_))
        return ticket

    def _ended(self, ticket: str, round_: _Round) -> None:
        if round_.then is None:
            self.spend(ticket, round_)

    def spend(self, ticket: str, round_: _Round) -> None:
        """Keep a ticket that needs no more answers for a while; it then leads to the same outcome."""
        if not self.tickets.spend(ticket):
            return
        if round_.then is not None:
            round_.then.add_done_callback(lambda stage: self.tickets.weigh(ticket, _size(stage.result())))
        else:
            self.tickets.weigh(ticket, _size(round_.call.end))

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


def _nobody() -> None:
    """Tell nobody that a turn is free."""


def _unheard(call: Call, exchange: Exchange, end: End) -> None:
    """Take an end that nobody counts."""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a connection needs to let its server ask.

    ``declares`` are the client capabilities that the server may ask for, ``extensions`` the others it is told of,
    ``owner`` names the configuration, ``use`` keeps the connection while a call is parked on it, and ``turns`` are
    those of its calls. ``ended`` takes the end of a call whose client was away: nobody else tells of it.
    """

    declares: Object = field(default_factory=dict)
    parking: Parking = field(default_factory=Parking)
    roots: Roots = field(default_factory=Roots)
    owner: str = ""
    use: Callable[[], AbstractContextManager[None]] = nullcontext
    turns: Turns = field(default_factory=lambda: Turns("", _nobody))
    ended: Callable[[Call, Exchange, End], None] = _unheard
    extensions: Object = field(default_factory=dict)

    @property
    def capabilities(self) -> Object:
        """All that the server is told of in the handshake."""
        return self.declares | {EXTENSIONS: self.extensions} if self.extensions else self.declares


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
        self.turns: Turns | None = None
        """Those of the connection, while this call has its turn there."""
        self._asking = asking
        self._left = seconds
        self._parked_at = 0.0
        self._questions = Questions(asking.roots, lambda key: self.exchange.withdraw(key))
        self._stage: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._grace: asyncio.TimerHandle | None = None
        self._grace_ends = 0.0
        self._followers = 0
        self._told: asyncio.Future[End] | None = None
        self._accounted = False
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
        return await self._follow(self._stage, self.exchange)

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
        self._questions.drop()
        if self.is_parked:
            self._leave()
            if self.exchange.ask is None and not self._accounted:
                # Its client has gone to ask somebody: no request waits here that could tell of the end.
                self._accounted = True
                self._asking.ended(self.call, self.exchange, end)
        self._move_on()

    def ask(self, method: str, params: Members) -> Later | None:
        """Take a question of the server; its answer comes later. None where there is no place for it."""
        parking = self._asking.parking
        if self.end is not None or (self not in parking and not parking.has_place(self.call)):
            return None
        later = self._questions.put(method, params)
        if later is not None:
            parking.enter(self)
            self._move_on_soon()
        return later

    def _move_on_soon(self) -> None:
        """Wait a moment for what else the server may ask, so that it travels in the same round."""
        loop = asyncio.get_running_loop()
        if self._grace is None:
            self._grace_ends = loop.time() + LONGEST_GRACE
        else:
            self._grace.cancel()
        self._grace = loop.call_at(min(loop.time() + GRACE, self._grace_ends), self._move_on)

    def _move_on(self) -> None:
        """Tell those who wait of the end, or of questions."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if self._stage.done():
            return
        if self.end is not None:
            self._stage.set_result(self.end)
        elif self._questions:
            self._park()
            ticket = self._asking.parking.issue(_Round(self, self._questions.keys))
            self._stage.set_result(self._open(ticket))

    def _open(self, ticket: str) -> InputRequired:
        return InputRequired(self._questions.requests, ticket, held=True)

    def _park(self) -> None:
        """Stop the clock of the call and start that of the people."""
        self.is_parked = True
        if self.turns is not None:
            self.turns.hold()
        self._parked_at = asyncio.get_running_loop().time()
        self.exchange.abandon = self.abandon
        if self.flight is not None:
            self.flight.hold(self._left)
            if self.exchange.ask is None:
                # The client comes back by itself; until then what the server says has no stream to travel on.
                self.flight.exchange = Exchange()

    def abandon(self) -> None:
        """End the call while it waits: its client is known not to come back, and its request tells of the end."""
        self._accounted = True
        if self.is_parked:
            self.give_up()

    def _leave(self) -> None:
        self.is_parked = False
        if self.turns is not None:
            self.turns.go_on()
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
        exchange.instance, exchange.abandon = self.exchange.instance, self.abandon
        if round_.then is None:
            if self.end is None:
                self._questions.answer(round_.keys, call.input_responses or {}, exchange.refusals)
                if self._questions.keys & round_.keys:
                    round_.keys = self._questions.keys
                    return self._open(ticket)
            self._go_on(round_, call, exchange)
            self._asking.parking.spend(ticket, round_)
        assert round_.then is not None
        return await self._follow(round_.then, exchange)

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

    def _account(self, exchange: Exchange) -> None:
        """Let one request alone tell of the end; those that hear of it again are marked."""
        exchange.repeated = self._accounted or self.end is None
        self._accounted = self._accounted or self.end is not None

    async def _follow(self, stage: asyncio.Future[End], exchange: Exchange) -> Outcome:
        """Wait for the next stage; a client that leaves before it takes the call along, if it was the only one."""
        self._followers += 1
        try:
            end = await asyncio.shield(stage)
        except asyncio.CancelledError:
            if self._followers == 1 and self.end is None and self._told is not stage and self.task is not None:
                self._accounted, exchange.repeated = True, False
                self.give_up()
                await asyncio.wait([self.task])
            else:
                self._account(exchange)
            raise
        finally:
            self._followers -= 1
        self._told = stage
        if not isinstance(end, InputRequired):
            self._account(exchange)
        if isinstance(end, DownstreamError):
            raise end
        return end


def unknown(call: Call, exchange: Exchange) -> Failure:
    """Return the refusal of answers to what nobody waits for: too late, or the gateway was restarted.

    Either way the log has the end of a call that was parked, be it that the gateway ended with it.
    """
    exchange.repeated = is_ticket(call.request_state)
    text = f'Server "{call.target.server}" no longer waits for these answers. Its call has ended and may have run.'
    return Failure(Reason.UNAVAILABLE, f"{text} Check its effect before you call again.", True, detail="unknown_ticket")
