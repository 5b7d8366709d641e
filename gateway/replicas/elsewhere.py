"""Servers here and at other replicas: a call that waits at another one, or whose task runs there, is passed on to it.

The other replica holds the call as it would for a client of its own; here is its client, which gets what happens and
the end. Whatever happens to either replica or to the store between them, the call ends: with its outcome, or with a
failure that says that it may have run. Each letter that matters is repeated until it is answered.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

from gateway.errors import AuditUnavailable, Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError
from gateway.replicas import carrying
from gateway.replicas.post import AGAIN, MISSES, SOON, Letter, LetterLost, LetterTooLong, Parcel, Post
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

ANSWERED_WITHIN: Final = 5.0
"""Seconds in which another replica says that it has a call; else nothing happens to it. A store that was away for a
moment is back by then."""
BEAT: Final = 2.0
"""Seconds between two signs of life, each way."""
SILENCE: Final = 12.0
"""Seconds without any after which the other side is lost: longer than a store takes to come back."""
STOPPED_WITHIN: Final = 1.0
"""Seconds in which a call that was cancelled here ends there."""
STOP_AGAIN: Final = 0.25
"""Seconds after which that is said again, as long as it is not answered."""
RETRY_MS: Final = 2000
"""Milliseconds after which a client may send the same again."""
MAX_WAITING: Final = 256
"""Letters of one call that wait to be read; more are dropped, and those that matter come again."""
MAX_FETCHED: Final = 4096
"""Calls whose end was fetched, and which is said again where that was not heard; the newest."""

_log = get_logger("replicas")


TakeOver: TypeAlias = Callable[[Call, Exchange, str], Awaitable[None]]
"""Notes durably that a call of that replica has its end here, before it is said there that it does."""


class Here(Protocol):
    """The servers of this replica."""

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on to its server."""

    def home(self, call: Call) -> str:
        """Return the replica at which a call waits or its task runs; "" where any will do."""

    async def homeless(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass on a call whose home is gone, if that is of use."""


@dataclass(slots=True, eq=False)
class _Thread:
    """One call at another replica, as seen from here."""

    home: str
    name: str
    letters: asyncio.Queue[Letter] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))
    begun: bool = False
    """The other replica has the call."""
    notes: int = 0
    missed: int = 0

    def take(self, letter: Letter) -> None:
        if letter.sender == self.home and not self.letters.full():
            self.letters.put_nowait(letter)

    async def next(self, seconds: float) -> Letter | None:
        """Return the next letter; None where there is none for so long."""
        try:
            async with asyncio.timeout(seconds):
                return await self.letters.get()
        except TimeoutError:
            return None


_GONE: Final = "gone"
"""What is said here of a replica that is not there any more."""
_KINDS: Final = ("taken", "busy", "beat", "note", "end", "stopped")


class Elsewhere:
    """Implements the servers of the chain."""

    def __init__(self, here: Here, post: Post, tasks: TaskSet, take_over: TakeOver) -> None:
        self._take_over = take_over
        self._here = here
        self._post = post
        self._tasks = tasks
        self._threads: dict[str, _Thread] = {}
        self._fetched: OrderedDict[str, str] = OrderedDict()
        # Of those that wait for a client's answers here, for as long as somebody does.
        self._asking: WeakValueDictionary[tuple[str, str], Exchange] = WeakValueDictionary()
        post.on("withdraw", self._taken_back)
        for kind in _KINDS:
            post.on(kind, self._arrived)

    def __len__(self) -> int:
        return len(self._threads)

    def _arrived(self, letter: Letter) -> None:
        thread = self._threads.get(letter.thread)
        if thread is not None:
            thread.take(letter)
        elif letter.kind == "end" and self._fetched.get(letter.thread) == letter.sender:
            self._tasks.start(self._say_got(letter.sender, letter.thread), "say it again")

    def _taken_back(self, letter: Letter) -> None:
        """Take back a question that a client is asked here and the server, there, does not ask any more."""
        said = letter.short or {}
        ticket, key = rawjson.peek(said.get("ticket")), rawjson.peek(said.get("key"))
        exchange = self._asking.get((letter.sender, ticket)) if isinstance(ticket, str) else None
        if exchange is not None and isinstance(key, str):
            exchange.withdraw(key)

    async def _say_got(self, home: str, thread: str) -> None:
        await self._post.send(home, "got", thread=thread)

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on to its server, here or at the replica that holds it."""
        home = self._here.home(call)
        if self._post.alone:
            return await self._here.call(call, exchange)
        if home in ("", self._post.replica):
            try:
                return await self._here.call(call, exchange)
            finally:
                _called_by(exchange, self._post.replica)
        thread = _Thread(home, secrets.token_hex(16))
        self._threads[thread.name] = thread
        try:
            return await self._passed_on(thread, call, exchange)
        finally:
            del self._threads[thread.name]

    async def _passed_on(self, thread: _Thread, call: Call, exchange: Exchange) -> Outcome:
        try:
            refused = await self._begun(thread, call, exchange)
        except LetterTooLong:
            exchange.repeated = True
            what = "waits at another replica of the gateway, to which so much is not passed on."
            return _failure(call, what, again=False)
        except (asyncio.CancelledError, AuditUnavailable):
            # It may have been taken, or even begun, there: whoever waited for it has left.
            if thread.begun:
                await self._stopped(thread, exchange)
            else:
                # It waits there as before, and the log there has its end.
                exchange.repeated = True
                await self._post.send(thread.home, "stop", thread=thread.name)
            raise
        if refused is not None:
            return refused
        beats = self._tasks.start(self._beat(thread), "signs of life")
        try:
            return await self._followed(thread, call, exchange)
        except asyncio.CancelledError:
            beats.cancel()
            await self._stopped(thread, exchange)
            raise
        finally:
            beats.cancel()

    async def _begun(self, thread: _Thread, call: Call, exchange: Exchange) -> Outcome | None:
        """Send the call until the other replica has it; then None, else what its client is told.

        One letter that finds nobody, or is not answered, is no sign of the replica's end: the store may falter.
        """
        parcel = self._post.parcel(thread.home, "call", carrying.of_call(call, exchange), thread.name)
        try:
            return await self._asked(thread, parcel, call, exchange)
        finally:
            if not thread.begun:
                await self._post.withdraw(parcel)

    async def _asked(self, thread: _Thread, parcel: Parcel, call: Call, exchange: Exchange) -> Outcome | None:
        loop = asyncio.get_running_loop()
        until, nobody = loop.time() + ANSWERED_WITHIN, 0
        while loop.time() < until:
            if await self._post.dispatch(parcel):
                nobody = 0
            elif self._post.reaches_others:
                nobody += 1
            if nobody >= MISSES:
                return await self._here.homeless(call, exchange)
            letter = await thread.next(SOON if nobody else AGAIN)
            if letter is not None and letter.kind == "busy":
                return _busy(call, exchange)
            if letter is not None and letter.kind == "taken":
                if call.task is None:
                    await self._take_over(call, exchange, thread.home)
                # From now on the log here has its end.
                thread.begun, exchange.repeated = True, False
                exchange.mark_dispatched()
                await self._post.send(thread.home, "here", thread=thread.name)
                return None
        await self._post.send(thread.home, "stop", thread=thread.name)
        return _unreachable(call, exchange)

    async def _followed(self, thread: _Thread, call: Call, exchange: Exchange) -> Outcome:
        while (letter := await thread.next(SILENCE)) is not None:
            match letter.kind:
                case "taken":
                    await self._post.send(thread.home, "here", thread=thread.name)
                case "gone" | "stopped":
                    return _lost(call)
                case "note":
                    await self._noted(thread, letter, exchange)
                case "end":
                    outcome = await self._ended(thread, letter, call, exchange)
                    if outcome is not None:
                        return outcome
                case _:
                    continue
        await self._post.send(thread.home, "stop", thread=thread.name)
        return _lost(call)

    async def _beat(self, thread: _Thread) -> None:
        """Show that somebody waits here, and find out whether anybody still is there."""
        while True:
            await asyncio.sleep(SOON if thread.missed else BEAT)
            if await self._post.send(thread.home, "here", thread=thread.name):
                thread.missed = 0
            elif self._post.reaches_others:
                thread.missed += 1
            if thread.missed >= MISSES:
                thread.take(Letter(_GONE, thread.home, thread.name))

    async def _noted(self, thread: _Thread, letter: Letter, exchange: Exchange) -> None:
        """Pass on what the server says meanwhile; it is news, so what got lost is not asked for again."""
        try:
            said = await self._post.read(letter)
            number, method = rawjson.peek(said.get("number")), rawjson.peek(said.get("method"))
            params = rawjson.decode_members(said.get("params", rawjson.raw(None)))
        except (LetterLost, JsonError):
            return
        if not isinstance(number, int) or not isinstance(method, str):
            return
        if number > thread.notes + 1:
            _log.info("notifications_lost", replica=thread.home, count=number - thread.notes - 1)
        if number > thread.notes:
            thread.notes = number
            exchange.notify(method, params)

    async def _ended(self, thread: _Thread, letter: Letter, call: Call, exchange: Exchange) -> Outcome | None:
        """Take the outcome; None where the letter cannot be read, which then comes again."""
        try:
            said = await self._post.read(letter)
            outcome = carrying.read_outcome(said)
            carrying.note_exchange(said, exchange)
        except (LetterLost, JsonError) as error:
            _log.warning("outcome_lost", replica=thread.home, call=call.id, reason=type(error).__name__)
            return None
        self._fetched[thread.name] = thread.home
        if len(self._fetched) > MAX_FETCHED:
            self._fetched.popitem(last=False)
        await self._say_got(thread.home, thread.name)
        _called_by(exchange, thread.home)
        if isinstance(outcome, InputRequired) and outcome.held:
            exchange.abandon = lambda: self._abandon(thread.home, outcome.state or "")
            self._asking[thread.home, outcome.state or ""] = exchange
            return replace(outcome, at=thread.home)
        return outcome

    async def _stopped(self, thread: _Thread, exchange: Exchange) -> None:
        """Have a call end that nobody waits for here, and hear whether another request tells of its end."""
        try:
            async with asyncio.timeout(STOPPED_WITHIN):
                letter: Letter | None = None
                while letter is None or letter.kind not in ("stopped", "end"):
                    is_sent = letter is not None or await self._post.send(thread.home, "stop", thread=thread.name)
                    if not is_sent and self._post.reaches_others:
                        return
                    letter = await thread.next(STOP_AGAIN)
                carrying.note_exchange(await self._post.read(letter), exchange)
        except (TimeoutError, LetterLost, JsonError):
            _log.info("stop_not_confirmed", replica=thread.home)

    def _abandon(self, home: str, ticket: str) -> None:
        """Give up a call that waits there for answers that will not come."""
        self._tasks.start(self._tell(home, ticket), "abandon")

    async def _tell(self, home: str, ticket: str) -> None:
        await self._post.send(home, "abandon", {"ticket": ticket})


def _called_by(exchange: Exchange, replica: str) -> None:
    if exchange.instance is not None:
        exchange.instance = replace(exchange.instance, replica=replica)


def _failure(call: Call, what: str, *, again: bool) -> Failure:
    text = f'The call of server "{call.target.server}" {what}'
    wait = RETRY_MS if again else None
    return Failure(Reason.UNAVAILABLE, text, True, wait, detail="replica_unreachable")


def _unreachable(call: Call, exchange: Exchange) -> Failure:
    """Refuse what never arrived: the call waits there as before."""
    exchange.repeated = True
    what = "waits at another replica of the gateway, which cannot be reached now. Send the same again in some seconds."
    return _failure(call, what, again=True)


def _busy(call: Call, exchange: Exchange) -> Failure:
    exchange.repeated = True
    what = "waits at another replica of the gateway, which is busy. Send the same again in some seconds."
    return _failure(call, what, again=True)


def _lost(call: Call) -> Failure:
    what = (
        "went on at another replica of the gateway, which was lost before the end. The call may have run: "
        "check its effect before you try again."
    )
    return _failure(call, what, again=False)
