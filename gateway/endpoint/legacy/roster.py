"""Legacy sessions as all replicas know them: kept where each can find them, changed and ended for all at once.

Without other replicas it does nothing. Who changes one reads first what others wrote, in turn with them. While the
shared store is away, sessions go on where they are known; what changed or ended meanwhile is told once it is back.
Knows neither requests nor streams.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, Protocol

from gateway.endpoint.legacy import facts
from gateway.endpoint.legacy.facts import Agreed, Facts
from gateway.endpoint.legacy.session import IDLE, Session
from gateway.protocol import rawjson
from gateway.replicas.post import Letter, Post
from gateway.state.sealing import Sealer
from gateway.state.store import Store
from gateway.tasks import TaskSet

REFRESH: Final = 60.0
"""Seconds between two notes in the store that a session is in use."""

MAX_ENDED: Final = 4096
"""Ids of sessions that ended and are remembered: one that is just being taken over must not come back. As many of
those whose end could not be told yet."""

MARKED: Final = 300.0
"""Seconds for which the store says that a session has ended, to a replica whose connection to it was just away."""

TURN: Final = 2.0
"""Seconds after which a turn is over, whatever became of who had it."""
PATIENCE: Final = 1.0
"""Seconds to wait for a turn; then it is done without. What is written at once by two is merged at the next turn."""
POLL: Final = 0.02

_ENDED: Final = "session.ended"
_CHANGED: Final = "session.changed"


class Here(Protocol):
    """The sessions of this replica."""

    def all(self) -> list[Session]:
        """Return every session."""

    def known(self, identifier: str) -> Session | None:
        """Return a session that is known here."""

    def ended_elsewhere(self, session: Session) -> None:
        """End one that is over."""

    def changed_elsewhere(self, session: Session, said: Facts) -> None:
        """Take what is new of one."""


class Means(Protocol):
    """What the roster uses of the gateway."""

    @property
    def store(self) -> Store: ...
    @property
    def post(self) -> Post: ...
    @property
    def sealer(self) -> Sealer: ...


class Roster:
    """Writes and reads what replicas tell each other of sessions; ``clock`` gives monotonic seconds."""

    def __init__(self, means: Means, here: Here, tasks: TaskSet, clock: Callable[[], float] = time.monotonic) -> None:
        self._means = means
        self._here = here
        self._tasks = tasks
        self._clock = clock
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._untold: OrderedDict[str, None] = OrderedDict()
        self._anew: asyncio.Task[None] | None = None
        self.alone = means.post.alone
        if not self.alone:
            means.post.on(_ENDED, self._heard_ended)
            means.post.on(_CHANGED, self._heard_changed)
            means.store.returned(self._write_anew)

    @property
    def tag(self) -> str:
        """What tells the streams of this replica from those of others; empty without others."""
        return "" if self.alone else f"{self._means.post.replica}-"

    async def find(self, identifier: str) -> Facts | None:
        """Return what another replica wrote of a session that has not ended."""
        if self.alone:
            return None
        value = await self._means.store.get(facts.key_of(identifier))
        if value is None or identifier in self._gone:
            return None
        return facts.opened(self._means.sealer, identifier, value)

    async def keep(self, session: Session) -> None:
        """Let other replicas find a session."""
        if not self.alone:
            await self._put(session, session.facts())

    async def _put(self, session: Session, said: Facts) -> None:
        session.kept = self._clock()
        value = facts.seal(self._means.sealer, session.id, said, IDLE + REFRESH)
        await self._means.store.put(facts.key_of(session.id), value, IDLE)
        if self._means.store.reaches_others:
            session.revision = said.revision
            session.agreed = Agreed(said.revision, said.log_level, dict(said.uris))
        if session.ended:
            # It ended while this was under way.
            await self._forget(session.id)

    async def changed(self, session: Session) -> None:
        """Have those who know a session already hear that it is different now, and others find it so."""
        if not self.alone:
            await self._agree(session)

    async def _agree(self, session: Session) -> None:
        """Write what a session is like here together with what others wrote of it, and tell of it where that is new."""
        async with session.turn, self._turn(session.id) as is_ours:
            is_there = await self._reread(session)
            if session.ended:
                return
            now, known = session.facts(), session.agreed
            is_new = (now.log_level, now.uris) != (known.log_level, known.uris)
            if is_new:
                now = replace(now, revision=now.revision + 1)
            # Out of turn a mere note that it is in use could replace what another has just written.
            if is_new or is_ours or not is_there:
                await self._put(session, now)
            if is_new:
                await self._means.post.broadcast(_CHANGED, {"id": session.id, "revision": now.revision})

    @asynccontextmanager
    async def _turn(self, identifier: str) -> AsyncIterator[bool]:
        """Be the only replica that changes a session; False: it has to be done without being so."""
        store, key, token = self._means.store, facts.turn_of(identifier), secrets.token_hex(8).encode()
        began = last = time.monotonic()
        while is_taken := await store.claim(key, token, TURN) is not None:
            if last - began >= PATIENCE:
                break
            await asyncio.sleep(POLL)
            last = time.monotonic()
        try:
            yield not is_taken
        finally:
            # After so long it may be another's.
            if not is_taken and time.monotonic() - last < TURN:
                await store.delete(key)

    def used(self, session: Session) -> None:
        """Note in the store that a session is in use, now and then, and see what others wrote of it."""
        if self._is_due(session):
            session.kept = self._clock()
            self._tasks.start(self._refresh(session), "session-refresh")

    async def hold(self, sessions: Iterable[Session]) -> None:
        """Do the same for those in use without a request, as by a stream, one by one; and tell what was not told."""
        await self._tell_untold()
        for session in sessions:
            if self._is_due(session):
                session.kept = self._clock()
                await self._refresh(session)

    def _is_due(self, session: Session) -> bool:
        return not self.alone and self._clock() - session.kept >= REFRESH

    async def end(self, session: Session) -> None:
        """End a session everywhere; here it has ended."""
        if self.alone:
            return
        self._remember(self._gone, session.id)
        await self._forget(session.id)
        if not await self._means.post.broadcast(_ENDED, {"id": session.id}):
            self._remember(self._untold, session.id)

    async def crowded_out(self, session: Session) -> None:
        """End a session that was idle here, unless it is busy elsewhere."""
        if self.alone:
            return
        await self._means.store.delete(facts.key_of(session.id))
        await self._means.post.broadcast(_ENDED, {"id": session.id, "evicted": True})

    async def _forget(self, identifier: str) -> None:
        """Take an ended session from the store; who missed that it ended would else write it anew."""
        if self._means.store.reaches_others:
            await self._mark(identifier, MARKED)
        else:
            await self._means.store.delete(facts.key_of(identifier))

    async def _mark(self, identifier: str, seconds: float) -> None:
        mark = facts.seal_end(self._means.sealer, identifier, seconds + REFRESH)
        await self._means.store.put(facts.key_of(identifier), mark, seconds)

    def _remember(self, where: OrderedDict[str, None], identifier: str) -> None:
        where[identifier] = None
        if len(where) > MAX_ENDED:
            where.popitem(last=False)

    async def _tell_untold(self) -> None:
        """Say which sessions ended while the store was away. Who comes back to it later than this finds it there."""
        while self._untold and self._means.store.reaches_others:
            identifier = next(iter(self._untold))
            await self._mark(identifier, IDLE)
            if not await self._means.post.broadcast(_ENDED, {"id": identifier}):
                return
            self._untold.pop(identifier, None)

    def _write_anew(self) -> None:
        """Have others find what is known here: the store was away, and may have forgotten it or never heard of it."""
        if self._anew is None or self._anew.done():
            self._anew = self._tasks.start(self._refresh_all(), "session-refresh")

    async def _refresh_all(self) -> None:
        await self._tell_untold()
        for session in self._here.all():
            await self._refresh(session)

    async def _refresh(self, session: Session) -> None:
        if not session.ended:
            await self._agree(session)

    async def _reread(self, session: Session) -> bool:
        """Take what others wrote of a session; False: there is nothing of now."""
        value = await self._means.store.get(facts.key_of(session.id))
        if value is None or session.ended:
            return False
        if facts.tells_end(self._means.sealer, session.id, value):
            self._remember(self._gone, session.id)
            self._here.ended_elsewhere(session)
            return True
        found = facts.opened(self._means.sealer, session.id, value)
        if found is None or found.revision < session.revision:
            return False
        known = replace(session.agreed, revision=session.revision)
        is_same = (found.revision, found.log_level, found.uris) == (known.revision, known.log_level, known.uris)
        if not is_same:
            new = facts.merged(known, found, session.own())
            session.agreed = Agreed(found.revision, found.log_level, dict(found.uris))
            self._here.changed_elsewhere(session, replace(found, log_level=new.log_level, uris=new.uris))
        return True

    def _heard_ended(self, letter: Letter) -> None:
        identifier = rawjson.peek((letter.short or {}).get("id"))
        if not isinstance(identifier, str):
            return
        session = self._here.known(identifier)
        if rawjson.peek((letter.short or {}).get("evicted")) is True:
            if session is not None:
                self._heard_crowded_out(session)
            return
        self._remember(self._gone, identifier)
        if session is not None:
            self._here.ended_elsewhere(session)
            # A note that it is in use may have been on its way.
            self._tasks.start(self._forget(identifier), "session-delete")

    def _heard_crowded_out(self, session: Session) -> None:
        if session.busy:
            # It was forgotten where it was idle, and with that everywhere.
            self._tasks.start(self._refresh(session), "session-refresh")
        else:
            self._here.ended_elsewhere(session)

    def _heard_changed(self, letter: Letter) -> None:
        said = letter.short or {}
        identifier, revision = rawjson.peek(said.get("id")), rawjson.peek(said.get("revision"))
        session = self._here.known(identifier) if isinstance(identifier, str) else None
        if session is None or not isinstance(revision, int) or revision < session.revision:
            return
        # Of the same number, it may be another change, which was written at the same time.
        work = self._agree(session) if revision == session.revision else self._hear(session)
        session.rereading = self._tasks.start(work, "session-reread")

    async def _hear(self, session: Session) -> None:
        await self._reread(session)
