"""Calls of other replicas that wait here, or whose tasks run here: they go on for a client that is elsewhere.

Nothing happens to a call before the other replica has said that it waits for the end: from then on its log has that
end. What it does not fetch is repeated for a while; once it is gone or silent the call ends as if its client had left.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import InputRequired, Outcome
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Members, Object
from gateway.replicas import carrying
from gateway.replicas.elsewhere import ANSWERED_WITHIN, BEAT, SILENCE
from gateway.replicas.post import MISSES, SOON, Letter, LetterLost, LetterTooLong, Parcel, Post
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

MAX_GUESTS: Final = 1024
"""Calls of other replicas at once; one more is asked to come again."""
MAX_OVER: Final = 4096
"""Calls that ended here and are known not to begin again, whoever repeats their letters; the newest."""
MAX_NOTES: Final = 64
"""Notifications of one call that wait to be sent; the oldest go first."""
TRIES: Final = 5
"""How often an outcome is sent before it counts as not wanted."""

_log = get_logger("replicas")


class Hosts(Protocol):
    """The servers of this replica, and the calls that are parked on them."""

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on to its server, or go on with one that waits."""

    def waits(self, ticket: str | None) -> bool:
        """Tell whether a call waits here for the answers to this ticket's questions, and for nothing else."""

    def abandon(self, ticket: str) -> Call | None:
        """Give up the call that waits under a ticket, and return it."""


class Ledger(Protocol):
    """Writes down where a call is."""

    def moved(self, call: Call, exchange: Exchange, replica: str, *, held: bool) -> None:
        """A call of this log goes on at another replica, or waits here (``held``) once more."""


@dataclass(slots=True, eq=False)
class _Guest:
    """One call of another replica."""

    replica: str
    thread: str
    heard: float
    confirmed: asyncio.Event = field(default_factory=asyncio.Event)
    fetched: asyncio.Event = field(default_factory=asyncio.Event)
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    notes: deque[tuple[int, str, Members]] = field(default_factory=lambda: deque(maxlen=MAX_NOTES))
    noted: int = 0
    missed: int = 0
    outcome: Outcome | None = None
    is_stopped: bool = False
    was_read: bool = False
    """Its call is known; of one that is not, the letter may come again."""

    def note(self, method: str, params: Members) -> None:
        self.noted += 1
        self.notes.append((self.noted, method, params))
        self.stirred.set()

    @property
    def gone(self) -> bool:
        silent = asyncio.get_running_loop().time() - self.heard > SILENCE
        return self.is_stopped or self.missed >= MISSES or silent


class Hosting:
    """Serves the calls that other replicas pass on."""

    def __init__(self, servers: Hosts, post: Post, ledger: Ledger, tasks: TaskSet) -> None:
        self._servers = servers
        self._post = post
        self._ledger = ledger
        self._tasks = tasks
        self._guests: dict[str, _Guest] = {}
        self._over: OrderedDict[str, None] = OrderedDict()
        self._idle = asyncio.Event()
        self._idle.set()
        post.on("call", self._called)
        post.on("abandon", self._abandoned)
        for kind in ("here", "got", "stop"):
            post.on(kind, self._heard)

    def __len__(self) -> int:
        return len(self._guests)

    async def drain(self, seconds: float) -> None:
        """Wait until no call of another replica runs here, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            _log.info("guests_left", count=len(self._guests))

    def _called(self, letter: Letter) -> None:
        known = self._guests.get(letter.thread)
        if known is not None and not known.confirmed.is_set() and known.replica == letter.sender:
            # It was not heard that the call is here.
            self._tasks.start(self._say_taken(known), "say it again")
        if known is not None or not letter.thread or letter.thread in self._over:
            return
        if len(self._guests) >= MAX_GUESTS:
            self._tasks.start(self._refuse(letter), "refuse")
            return
        guest = _Guest(letter.sender, letter.thread, asyncio.get_running_loop().time())
        self._guests[guest.thread] = guest
        self._idle.clear()
        task = self._tasks.start(self._host(guest, letter), "host")
        # A task that was cancelled before its first step has run nothing of its own.
        task.add_done_callback(lambda done: self._left(guest))

    def _left(self, guest: _Guest) -> None:
        self._guests.pop(guest.thread, None)
        if guest.was_read:
            self._over[guest.thread] = None
            if len(self._over) > MAX_OVER:
                self._over.popitem(last=False)
        if not self._guests:
            self._idle.set()

    async def _say_taken(self, guest: _Guest) -> None:
        await self._tell(guest, "taken")

    async def _refuse(self, letter: Letter) -> None:
        await self._post.send(letter.sender, "busy", thread=letter.thread)

    def _heard(self, letter: Letter) -> None:
        guest = self._guests.get(letter.thread)
        if guest is None or guest.replica != letter.sender:
            return
        guest.heard = asyncio.get_running_loop().time()
        match letter.kind:
            case "here":
                guest.confirmed.set()
            case "got":
                guest.fetched.set()
            case _:
                guest.is_stopped = True
                guest.confirmed.set()
                guest.stirred.set()

    def _abandoned(self, letter: Letter) -> None:
        ticket = rawjson.peek((letter.short or {}).get("ticket"))
        call = self._servers.abandon(ticket) if isinstance(ticket, str) else None
        if call is not None:
            # Who gave it up tells of its end.
            self._ledger.moved(call, Exchange(), letter.sender, held=False)

    def _take_back(self, guest: _Guest, key: str) -> None:
        """Have a question taken back that the client is being asked there, once its letter has left."""
        if isinstance(guest.outcome, InputRequired):
            body: Object = {"ticket": guest.outcome.state, "key": key}
            self._tasks.start(self._withdrawn(guest.replica, body), "take a question back")

    async def _withdrawn(self, replica: str, body: Object) -> None:
        await self._post.send(replica, "withdraw", body)

    async def _tell(self, guest: _Guest, kind: str, body: Mapping[str, object] | None = None) -> bool:
        return await self._dispatch(guest, self._post.parcel(guest.replica, kind, body or {}, guest.thread))

    async def _dispatch(self, guest: _Guest, parcel: Parcel) -> bool:
        sent = await self._post.dispatch(parcel)
        if sent:
            guest.missed = 0
        elif self._post.reaches_others:
            guest.missed += 1
        return sent

    async def _host(self, guest: _Guest, letter: Letter) -> None:
        try:
            carried = carrying.read_call(await self._post.read(letter))
        except (LetterLost, JsonError) as error:
            _log.warning("call_not_read", replica=guest.replica, reason=str(error))
            return
        guest.was_read = True
        if not await self._is_wanted(guest):
            # Whatever it is, it goes on here as if nobody had come.
            await self._tell(guest, "stopped", carrying.of_exchange(Exchange(repeated=True)))
            return
        call, exchange = carried.call, Exchange(notify=guest.note, refusals=carried.refusals)
        exchange.withdraw = partial(self._take_back, guest)
        if self._servers.waits(call.request_state):
            # As long as nothing of this reaches it.
            exchange.repeated = True
            self._ledger.moved(call, exchange, guest.replica, held=False)
        await self._attended(guest, call, exchange)
        asked = guest.outcome.state if isinstance(guest.outcome, InputRequired) else call.request_state
        if self._servers.waits(asked):
            self._ledger.moved(call, exchange, guest.replica, held=True)
        await self._deliver(guest, call, exchange)

    async def _is_wanted(self, guest: _Guest) -> bool:
        """Say that the call is here, and hear that its end is waited for: until then nothing happens to it."""
        await self._tell(guest, "taken")
        try:
            async with asyncio.timeout(ANSWERED_WITHIN + BEAT):
                await guest.confirmed.wait()
        except TimeoutError:
            return False
        return not guest.is_stopped

    async def _attended(self, guest: _Guest, call: Call, exchange: Exchange) -> None:
        """Run the call, tell what happens, and end it once nobody waits for it."""
        work = self._tasks.start(self._run(guest, call, exchange), "guest's call")
        work.add_done_callback(lambda done: guest.stirred.set())
        try:
            while not work.done() and not guest.gone:
                try:
                    async with asyncio.timeout(SOON if guest.missed else BEAT):
                        await guest.stirred.wait()
                except TimeoutError:
                    await self._tell(guest, "beat")
                guest.stirred.clear()
                await self._tell_notes(guest)
        finally:
            work.cancel()
            await asyncio.wait([work])
        await self._tell_notes(guest)

    async def _run(self, guest: _Guest, call: Call, exchange: Exchange) -> None:
        guest.outcome = await self._servers.call(call, exchange)

    async def _tell_notes(self, guest: _Guest) -> None:
        while guest.notes and not guest.gone:
            number, method, params = guest.notes.popleft()
            try:
                await self._tell(guest, "note", {"number": number, "method": method, "params": params})
            except LetterTooLong:
                _log.warning("notification_too_long", replica=guest.replica, method=method)

    async def _deliver(self, guest: _Guest, call: Call, exchange: Exchange) -> None:
        """Send the outcome until it is fetched; of a call that was stopped, only how far it got."""
        facts = carrying.of_exchange(exchange)
        if guest.outcome is None:
            await self._tell(guest, "stopped", facts)
            return
        parcel = self._end(guest, guest.outcome, call, facts)
        for _ in range(TRIES):
            await self._dispatch(guest, parcel)
            try:
                async with asyncio.timeout(BEAT):
                    await guest.fetched.wait()
                return
            except TimeoutError:
                if guest.gone:
                    break
        await self._post.withdraw(parcel)
        _log.warning("outcome_not_fetched", replica=guest.replica, call=call.id)

    def _end(self, guest: _Guest, outcome: Outcome, call: Call, facts: Mapping[str, object]) -> Parcel:
        try:
            return self._post.parcel(guest.replica, "end", {**carrying.of_outcome(outcome), **facts}, guest.thread)
        except LetterTooLong:
            broken = carrying.of_outcome(carrying.broken(call.target.server))
            return self._post.parcel(guest.replica, "end", {**broken, **facts}, guest.thread)
