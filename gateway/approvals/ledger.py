"""Every approval of one gateway: found or made, decided, used once, ended. Bounded; what counts is durable first.

Changes come one after the other, and none is visible before it is durable: a yes that was used cannot come back with
a restart, and a call that waits is not forgotten by one. Several replicas may share the entries: each change is made to
what the others have written, or made again. Knows no policy and nothing of how people are told.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.approvals.entry import Entry, Need, State, Subject, Vote
from gateway.approvals.file import ApprovalFile
from gateway.errors import ConfigError, GatewayError
from gateway.state.documents import Conflict, Version

MAX_ARGUMENTS: Final = 128 * 1024
"""Bytes of arguments that a person is shown; nobody reads more."""

_TRIES: Final = 50
"""Attempts at a change, each lost to another replica that made one."""
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LENGTH: Final = 10


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many entries there may be, of one principal and in all, and how many bytes of arguments in all of them."""

    principal: int = 32
    total: int = 512
    size: int = 8 * 2**20


class Full(GatewayError):
    """Too many entries already."""


class TooLarge(GatewayError):
    """Arguments that cannot be shown whole."""


class Unwritable(GatewayError):
    """It cannot be kept, so nothing was changed."""


class Ineligible(GatewayError):
    """Somebody who is not asked."""


class Settled(GatewayError):
    """An entry that was decided already; the text says how."""


Told: TypeAlias = Callable[[str, Entry], None]
"""Takes what became of an entry: ``requested``, ``approved``, ``denied``, ``used``, ``expired`` or ``voided``."""
_Entries: TypeAlias = Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to be instead of some entries, what is told of it, and what who asked gets. Equal entries: no change."""

    entries: _Entries
    told: tuple[tuple[str, Entry], ...] = ()
    entry: Entry | None = None


@dataclass(slots=True)
class _Writing:
    """A change on its way; who made it may have left. ``version`` is there once it is durable."""

    change: _Change
    expected: Version
    version: Version | None = None
    over: bool = field(default=False)


class Ledger:
    """The entries; ``clock`` gives seconds since the epoch, since they outlive the process."""

    def __init__(
        self, file: ApprovalFile, told: Told, clock: Callable[[], float] = time.time, bounds: Bounds | None = None
    ) -> None:
        """Read what was kept.

        Raises:
            ConfigError: the file is damaged.
        """
        self._file = file
        self._told = told
        self._clock = clock
        self._bounds = bounds or Bounds()
        entries, self._version = file.load()
        self._entries: _Entries = {entry.id: entry for entry in entries}
        self._left: list[_Writing] = []
        self._changing = asyncio.Lock()
        self._news = asyncio.Event()
        self.released = False
        """Whether calls are not held any more, since the gateway is about to end."""

    def entries(self) -> list[Entry]:
        """Return what waits or is decided, the oldest first."""
        now = self._clock()
        return sorted((each for each in self._entries.values() if each.ends_at > now), key=lambda each: each.asked_at)

    @property
    def pending(self) -> int:
        """How many calls wait for a person."""
        return sum(entry.state is State.PENDING for entry in self._entries.values())

    async def ask(self, subject: Subject, needs: tuple[Need, ...], timeout: float) -> Entry:
        """Return how a call stands, after asking for it where nobody has; ``timeout`` is that of a new entry.

        Raises:
            TooLarge: nobody could look at it.
            Full: too many are there.
            Unwritable: it cannot be kept.
        """
        if len(subject.arguments.encode()) > MAX_ARGUMENTS:
            raise TooLarge
        key = subject.key
        if self._file.shared and any(
            each.key == key and each.state is State.PENDING for each in self._entries.values()
        ):
            # Whoever comes again may have heard of the answer sooner than this replica. Without it the call waits on.
            with suppress(Unwritable):
                await self.reread()
        asked = await self._change(lambda entries: self._asked(entries, subject, needs, timeout))
        assert asked is not None
        return asked

    def _asked(self, entries: _Entries, subject: Subject, needs: tuple[Need, ...], timeout: float) -> _Change:
        now, key = self._clock(), subject.key
        told: tuple[tuple[str, Entry], ...] = ()
        found = next((each for each in entries.values() if each.key == key and each.ends_at > now), None)
        if found is not None and found.subject.definition == subject.definition:
            current = found.with_needs(needs, now)
            return _Change({**entries, current.id: current} if current != found else entries, (), current)
        if found is not None:
            entries, told = _without(entries, [found]), (("voided", found),)
        self._check_room(entries, subject)
        entry = Entry(_new_id(entries), key, subject, needs, now, now + timeout)
        return _Change({**entries, entry.id: entry}, (*told, ("requested", entry)), entry)

    async def changed(self, entry: Entry) -> None:
        """Wait until an entry is not any more what it was, or nobody is held any more."""
        while self._entries.get(entry.id) == entry and not self.released:
            await self._news.wait()

    def release(self) -> None:
        """Hold nobody from now on: whoever waits is told to come again, and what is asked stays open."""
        self.released = True
        self._tell()

    async def use(self, entry: Entry) -> bool:
        """Spend a granted entry; False where it is not there any more, since somebody else was faster.

        Raises:
            Unwritable: that cannot be kept, and the entry is as it was.
        """

        def used(entries: _Entries) -> _Change:
            found = entries.get(entry.id)
            if found != entry or found.state is not State.GRANTED or found.ends_at <= self._clock():
                return _Change(entries)
            return _Change(_without(entries, [found]), (("used", found),), found)

        return await self._change(used) is not None

    async def approve(self, entry_id: str, user: str) -> Entry:
        """Take a yes.

        Raises:
            KeyError: no such entry.
            Ineligible: this user is not asked.
            Settled: it was decided, or this user has said yes before.
            Unwritable: that cannot be kept, and the entry is as it was.
        """

        def approved(entries: _Entries) -> _Change:
            entry = self._mine(entries, entry_id, user)
            if entry.state is not State.PENDING:
                raise Settled(f"it is {entry.state.value} already")
            if user in entry.users:
                raise Settled("you have said yes already; it waits for somebody else")
            entry = entry.approved(Vote(user, self._clock()))
            return _Change({**entries, entry.id: entry}, (("approved", entry),), entry)

        return await self._decided(approved)

    async def deny(self, entry_id: str, user: str, reason: str) -> Entry:
        """Take a no, also about what was granted and not used yet; raises as ``approve`` does."""

        def denied(entries: _Entries) -> _Change:
            entry = self._mine(entries, entry_id, user)
            if entry.state is State.DENIED:
                raise Settled("it is denied already")
            entry = entry.denied(reason)
            return _Change({**entries, entry.id: entry}, (("denied", entry),), entry)

        return await self._decided(denied)

    async def _decided(self, decide: Callable[[_Entries], _Change]) -> Entry:
        decided = await self._change(decide)
        assert decided is not None
        return decided

    async def sweep(self) -> None:
        """End what is over.

        Raises:
            Unwritable: that cannot be kept; what is over counts for nothing all the same.
        """

        def swept(entries: _Entries) -> _Change:
            over = [entry for entry in entries.values() if entry.ends_at <= self._clock()]
            return _Change(_without(entries, over) if over else entries, tuple(("expired", entry) for entry in over))

        if self._left or any(entry.ends_at <= self._clock() for entry in self._entries.values()):
            await self._change(swept)

    async def reread(self) -> None:
        """Take what other replicas have written.

        Raises:
            Unwritable: it cannot be read, or is damaged; what is known stays.
        """
        async with self._changing:
            self._settle()
            await self._read()

    def find(self, entry_id: str) -> Entry:
        """Return an entry.

        Raises:
            KeyError: there is none of that id.
        """
        return self._found(self._entries, entry_id)

    def _found(self, entries: _Entries, entry_id: str) -> Entry:
        entry = entries.get(entry_id)
        if entry is None or entry.ends_at <= self._clock():
            raise KeyError(entry_id)
        return entry

    def _mine(self, entries: _Entries, entry_id: str, user: str) -> Entry:
        entry = self._found(entries, entry_id)
        if not entry.may_decide(user):
            raise Ineligible
        return entry

    def _check_room(self, entries: _Entries, subject: Subject) -> None:
        mine = sum(entry.subject.asker.id == subject.asker.id for entry in entries.values())
        size = sum(len(entry.subject.arguments) for entry in entries.values()) + len(subject.arguments)
        bounds = self._bounds
        if mine >= bounds.principal or len(entries) >= bounds.total or size > bounds.size:
            raise Full

    async def _change(self, decide: Callable[[_Entries], _Change]) -> Entry | None:
        """Make a change to what is there, again when another replica was faster; tell of it once it is durable."""
        async with self._changing:
            self._settle()
            for _ in range(_TRIES):
                change = decide(self._entries)
                if change.entries is self._entries:
                    return change.entry
                if await self._write(change):
                    return change.entry
                await self._read()
        raise Unwritable("others write all the time")

    async def _write(self, change: _Change) -> bool:
        writing = _Writing(change, self._version)
        # Kept until it is known how it ended: who waits for it may be cancelled, and it goes on.
        self._left.append(writing)
        try:
            await self._file.beside(self._written, writing)
        except Conflict:
            self._left.remove(writing)
            return False
        except OSError as error:
            self._left.remove(writing)
            raise Unwritable(error.strerror or type(error).__name__) from None
        self._settle()
        return True

    def _written(self, writing: _Writing) -> None:
        try:
            writing.version = self._file.write(writing.change.entries.values(), writing.expected)
        finally:
            writing.over = True

    def _settle(self) -> None:
        """Put in force, and tell, what has become durable."""
        for writing in [each for each in self._left if each.over]:
            self._left.remove(writing)
            if writing.version is None:
                continue
            if writing.expected == self._version:
                self._take(writing.change.entries, writing.version)
            for outcome, entry in writing.change.told:
                self._told(outcome, entry)

    async def _read(self) -> None:
        try:
            entries, version = await self._file.beside(self._file.load)
        except ConfigError as error:
            raise Unwritable(error.problems[0].message) from None
        except OSError as error:
            raise Unwritable(error.strerror or type(error).__name__) from None
        self._settle()
        if version != self._version:
            self._take({entry.id: entry for entry in entries}, version)

    def _take(self, entries: _Entries, version: Version) -> None:
        self._entries, self._version = entries, version
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _without(entries: _Entries, gone: Iterable[Entry]) -> _Entries:
    names = {entry.id for entry in gone}
    return {name: entry for name, entry in entries.items() if name not in names}


def _new_id(entries: _Entries) -> str:
    while True:
        made = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))
        if made not in entries:
            return made
