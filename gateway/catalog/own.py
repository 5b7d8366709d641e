"""The lists of single principals, of servers that list by who asks: read when somebody needs them, kept for a while.

Each is read over its principal's own connection, by one for all who wait, and nobody waits long: whose lists do not
come in time gets the last complete ones, or none of that server, and hears of the change when they are there. Kept in
memory alone: what somebody may see is not written anywhere. Knows neither pins nor snapshots.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from gateway.catalog.refresh import COALESCE, RETRY, age
from gateway.downstream.oauth.errors import ConsentNeeded
from gateway.errors import DownstreamError
from gateway.model.catalog import Kind, Listing
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger

_log = get_logger("catalog")

MAX_LISTINGS: Final = 2_000
"""Lists of one principal at one server that are kept; those that nobody asked for longest go first."""
HASTE: Final = 0.5
"""Seconds that anybody waits for lists that could not be had the last time."""
LONGEST_RETRY: Final = 60.0
"""Seconds after which lists that cannot be had are tried again at the latest, where somebody asks for them."""
AT_ONCE: Final = 8
"""Lists of one server that are read at once because it said that they have changed; others wait their turn."""
CALM: Final = 1.0
"""Seconds between two readings of lists because of that: some servers say so whenever they are asked for them."""
_READINGS: Final = 2
"""How often lists are read for one who waits, where they change while they are read."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How one server's lists are read: ``mark`` names its config, ``patience`` is how long a request waits (s)."""

    mark: str
    patience: float


@dataclass(frozen=True, slots=True)
class Known:
    """Complete lists, and a digest of all that a catalog takes from them."""

    listing: Listing
    digest: str

    @classmethod
    def of(cls, listing: Listing) -> Known:
        """Return lists with their digest."""
        hasher = sha256()
        for item in listing.definitions:
            hasher.update(f"{item.kind} {item.digest}\n".encode())
        said = [listing.server, listing.ttl_ms, listing.instructions, listing.era, listing.version]
        hasher.update(rawjson.canonical([*said, listing.capabilities, listing.server_info]))
        hasher.update(rawjson.canonical([[item.kind, item.name, item.reason] for item in listing.rejected]))
        return cls(listing, hasher.hexdigest())


class Desk(Protocol):
    """Where lists come from and go to."""

    async def read(self, server: str, principal: Principal, last: Listing | None) -> Listing:
        """Read a principal's lists, over its own connection.

        Raises:
            DownstreamError: they cannot be had now.
        """

    async def admit(self, listing: Listing, whose: str) -> None:
        """Judge a principal's lists before anybody sees them."""

    def published(self, now: Known, before: Known | None, whose: str, kinds: frozenset[Kind]) -> None:
        """Take lists that are in force now; of ``kinds`` the server said itself that they have changed."""

    def dropped(self, server: str, whose: str) -> None:
        """Take note that a principal's lists are not known any more."""


@dataclass(slots=True, eq=False)
class _Entry:
    """One principal's lists at one server. Times are the clock's seconds."""

    server: str
    whose: str
    known: Known | None = None
    fresh_until: float = 0.0
    changes: int = 1
    """Counts the news of changes; ``read`` is how many of them there had been when the lists were read."""
    read: int = 0
    due: frozenset[Kind] = frozenset()
    failures: int = 0
    next_try: float = 0.0
    reason: str = "not read yet"
    signs_in: bool = False
    bare: bool = False
    """Whether the last failure was one without the caller's token, which says nothing about a reading with it."""
    flight: asyncio.Task[None] | None = None
    landed: float = -CALM
    is_queued: bool = False
    awaited_until: float = 0.0
    """Nobody waits for the flight any longer than this."""

    def is_fresh(self, now: float) -> bool:
        return self.known is not None and self.read == self.changes and now < self.fresh_until


class OwnLists:
    """All of them. ``default_age`` are seconds, for servers that do not say how long their lists are good."""

    def __init__(
        self, desk: Desk, tasks: TaskSet, default_age: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.default_age = default_age
        self._desk = desk
        self._tasks = tasks
        self._clock = clock
        self._servers: Mapping[str, Terms] = {}
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def apply(self, servers: Mapping[str, Terms], renewed: Iterable[str] = ()) -> None:
        """Make these the servers that list by who asks; what another config listed says nothing about this one."""
        before, self._servers = self._servers, dict(servers)
        marks = {name: terms.mark for name, terms in before.items() if name not in set(renewed)}
        for entry in [*self._entries.values()]:
            terms = servers.get(entry.server)
            if terms is None or marks.get(entry.server) != terms.mark:
                self._drop(entry)
        self._turns = {name: self._turns.get(name) or asyncio.Semaphore(AT_ONCE) for name in servers}

    def known(self, server: str, whose: str) -> Known | None:
        """Return a principal's last complete lists."""
        entry = self._entries.get((server, whose))
        return entry.known if entry is not None else None

    def reason(self, server: str, whose: str) -> str:
        """Say why a principal's lists are not known, or not renewed, for operators; "" where all is well."""
        entry = self._entries.get((server, whose))
        return entry.reason if entry is not None else "not read yet"

    def signs_in(self, server: str, whose: str) -> bool:
        """Tell whether all that is missing is that a principal signs in there."""
        entry = self._entries.get((server, whose))
        return entry is not None and entry.known is None and entry.signs_in

    def count(self, server: str) -> tuple[int, int]:
        """Return of how many principals a server's lists are known, and of how many they cannot be had."""
        mine = [entry for entry in self._entries.values() if entry.server == server]
        return sum(entry.known is not None for entry in mine), sum(entry.failures > 0 for entry in mine)

    def changed(self, server: str, whose: str | None = None, kinds: frozenset[Kind] = frozenset()) -> None:
        """Note that lists may have changed, or may be had now: one principal's, or everybody's at a server."""
        if whose is not None:
            entry = self._entries.get((server, whose))
            entries = [entry] if entry is not None else []
        else:
            entries = [entry for entry in self._entries.values() if entry.server == server]
        for entry in entries:
            entry.changes += 1
            entry.due |= kinds
            entry.failures, entry.next_try = 0, 0.0

    async def ready(self, principal: Principal) -> None:
        """Have a principal's lists read that are out of date, and wait for them as long as is worth it."""
        await asyncio.gather(*(self._awaited(entry, principal) for entry in self.refresh(principal)))

    async def _awaited(self, entry: _Entry, principal: Principal) -> None:
        """Wait until lists are up to date, read once more where they change meanwhile, unless that takes too long."""
        until = entry.awaited_until
        for _ in range(_READINGS):
            if not self._is_kept(entry) or not self._flown(entry, principal) or not await self._passed(entry, until):
                return

    def refresh(self, principal: Principal) -> list[_Entry]:
        """Have a principal's lists read that are out of date; returns those that are being read."""
        found = [self._entry(server, principal.id) for server in self._servers]
        return [entry for entry in found if self._flown(entry, principal)]

    def relist(self, server: str, principal: Principal, kinds: frozenset[Kind]) -> None:
        """Have lists read because their server said that they have changed; a few at once, others in turn."""
        if server not in self._servers:
            return
        entry = self._entry(server, principal.id)
        entry.due |= kinds
        if not entry.is_queued:
            entry.is_queued = True
            self._tasks.start(self._in_turn(entry, principal, self._turns[server]), f"relist {server}")

    async def _in_turn(self, entry: _Entry, principal: Principal, turns: asyncio.Semaphore) -> None:
        await asyncio.sleep(max(COALESCE, entry.landed + CALM - self._clock()))
        async with turns:
            # One that is under way may have begun before the change.
            await self._passed(entry, entry.awaited_until)
            entry.is_queued = False
            if self._is_kept(entry) and self._flown(entry, principal):
                await self._passed(entry, entry.awaited_until)

    async def _passed(self, entry: _Entry, until: float) -> bool:
        """Wait for a flight as long as is worth it, and no longer than ``until``; tell whether it is over."""
        left = min(until, entry.awaited_until) - self._clock()
        if entry.flight is None or left <= 0:
            return entry.flight is None
        # ``wait`` leaves the reading alone when one of those who wait is cancelled.
        done, _ = await asyncio.wait([entry.flight], timeout=left)
        return bool(done)

    def _entry(self, server: str, whose: str) -> _Entry:
        entry = self._entries.pop((server, whose), None)
        if entry is None:
            while len(self._entries) >= MAX_LISTINGS:
                self._drop(next(iter(self._entries.values())))
            entry = _Entry(server, whose)
        # Used last, goes last.
        self._entries[server, whose] = entry
        return entry

    def _drop(self, entry: _Entry) -> None:
        del self._entries[entry.server, entry.whose]
        self._desk.dropped(entry.server, entry.whose)

    def _is_kept(self, entry: _Entry) -> bool:
        return self._entries.get((entry.server, entry.whose)) is entry

    def _flown(self, entry: _Entry, principal: Principal) -> bool:
        """Begin to read lists that are out of date, once for all who want them; tell whether they are being read."""
        now = self._clock()
        better = entry.bare and bool(principal.token)
        if entry.flight is None and not entry.is_fresh(now) and (better or now >= entry.next_try):
            patience = self._servers[entry.server].patience
            entry.awaited_until = now + (min(patience, HASTE) if entry.failures and not better else patience)
            entry.flight = self._tasks.start(self._fly(entry, principal), f"list {entry.server}")
        return entry.flight is not None

    async def _fly(self, entry: _Entry, principal: Principal) -> None:
        changes, before = entry.changes, entry.known
        try:
            last = before.listing if before is not None else self._of_anybody(entry.server)
            listing = await self._desk.read(entry.server, principal, last)
            # What a server listed under another config says nothing about the one that has its name now.
            if self._is_kept(entry):
                await self._desk.admit(listing, entry.whose)
        except DownstreamError as error:
            entry.reason, entry.signs_in = error.message, isinstance(error, ConsentNeeded)
            entry.bare = not principal.token
            if changes == entry.changes:
                entry.failures += 1
                entry.next_try = self._clock() + min(LONGEST_RETRY, RETRY * 2 ** min(entry.failures - 1, 8))
            _log.info("own_lists_not_read", server=entry.server, principal=principal.label, reason=error.message)
            return
        finally:
            entry.flight, entry.landed = None, self._clock()
        if not self._is_kept(entry):
            if (entry.server, entry.whose) not in self._entries:
                self._desk.dropped(entry.server, entry.whose)
            return
        entry.known, entry.read, entry.reason, entry.failures = Known.of(listing), changes, "", 0
        entry.fresh_until = self._clock() + age(listing, self.default_age)
        due = entry.due
        if changes == entry.changes:
            entry.due = frozenset()
        self._desk.published(entry.known, before, entry.whose, due)

    def _of_anybody(self, server: str) -> Listing | None:
        """Return lists in which the same texts may stand, so that they are held in memory once."""
        for entry in self._entries.values():
            if entry.server == server and entry.known is not None:
                return entry.known.listing
        return None
