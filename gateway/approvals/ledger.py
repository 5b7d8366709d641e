"""Every approval of one gateway: found or made, decided, used once, ended. Bounded; what counts is durable first.

Changes come one after the other, and none is visible before it is on the disk: a yes that was used cannot come back
with a restart, and a call that waits is not forgotten by one. Knows no policy and nothing of how people are told.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.approvals.entry import Entry, Need, State, Subject, Vote
from gateway.approvals.file import ApprovalFile
from gateway.errors import GatewayError

MAX_ARGUMENTS: Final = 128 * 1024
"""Bytes of arguments that a person is shown; nobody reads more."""

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
    """The file cannot be written, so nothing was changed."""


class Ineligible(GatewayError):
    """Somebody who is not asked."""


class Settled(GatewayError):
    """An entry that was decided already; the text says how."""


Told: TypeAlias = Callable[[str, Entry], None]
"""Takes what became of an entry: ``requested``, ``approved``, ``denied``, ``used``, ``expired`` or ``voided``."""


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
        self._entries = {entry.id: entry for entry in file.load()}
        self._version = 0
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
        async with self._changing:
            now, key = self._clock(), subject.key
            found = next((each for each in self._entries.values() if each.key == key and each.ends_at > now), None)
            if found is not None and found.subject.definition != subject.definition:
                await self._forget([found], "voided")
                found = None
            if found is not None:
                current = found.with_needs(needs, now)
                if current != found:
                    await self._put(current)
                return current
            self._check_room(subject)
            entry = Entry(self._new_id(), key, subject, needs, now, now + timeout)
            await self._put(entry)
            self._told("requested", entry)
            return entry

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
        async with self._changing:
            found = self._entries.get(entry.id)
            if found != entry or found.state is not State.GRANTED or found.ends_at <= self._clock():
                return False
            await self._forget([found], "used")
            return True

    async def approve(self, entry_id: str, user: str) -> Entry:
        """Take a yes.

        Raises:
            KeyError: no such entry.
            Ineligible: this user is not asked.
            Settled: it was decided, or this user has said yes before.
            Unwritable: that cannot be kept, and the entry is as it was.
        """
        async with self._changing:
            entry = self._mine(entry_id, user)
            if entry.state is not State.PENDING:
                raise Settled(f"it is {entry.state.value} already")
            if user in entry.users:
                raise Settled("you have said yes already; it waits for somebody else")
            entry = entry.approved(Vote(user, self._clock()))
            await self._put(entry)
            self._told("approved", entry)
            return entry

    async def deny(self, entry_id: str, user: str, reason: str) -> Entry:
        """Take a no, also about what was granted and not used yet; raises as ``approve`` does."""
        async with self._changing:
            entry = self._mine(entry_id, user)
            if entry.state is State.DENIED:
                raise Settled("it is denied already")
            entry = entry.denied(reason)
            await self._put(entry)
            self._told("denied", entry)
            return entry

    async def sweep(self) -> None:
        """End what is over.

        Raises:
            Unwritable: that cannot be kept; what is over counts for nothing all the same.
        """
        now = self._clock()
        if any(entry.ends_at <= now for entry in self._entries.values()):
            async with self._changing:
                await self._forget([entry for entry in self._entries.values() if entry.ends_at <= now], "expired")

    def find(self, entry_id: str) -> Entry:
        """Return an entry.

        Raises:
            KeyError: there is none of that id.
        """
        entry = self._entries.get(entry_id)
        if entry is None or entry.ends_at <= self._clock():
            raise KeyError(entry_id)
        return entry

    def _mine(self, entry_id: str, user: str) -> Entry:
        entry = self.find(entry_id)
        if not entry.may_decide(user):
            raise Ineligible
        return entry

    def _check_room(self, subject: Subject) -> None:
        entries = self._entries.values()
        mine = sum(entry.subject.asker.id == subject.asker.id for entry in entries)
        size = sum(len(entry.subject.arguments) for entry in entries) + len(subject.arguments)
        bounds = self._bounds
        if mine >= bounds.principal or len(self._entries) >= bounds.total or size > bounds.size:
            raise Full

    def _new_id(self) -> str:
        while True:
            made = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))
            if made not in self._entries:
                return made

    async def _put(self, entry: Entry) -> None:
        await self._write({**self._entries, entry.id: entry})

    async def _forget(self, gone: Iterable[Entry], outcome: str) -> None:
        over = {entry.id: entry for entry in gone}
        await self._write({name: entry for name, entry in self._entries.items() if name not in over})
        for entry in over.values():
            self._told(outcome, entry)

    async def _write(self, entries: dict[str, Entry]) -> None:
        self._version += 1
        try:
            await asyncio.to_thread(self._file.write, list(entries.values()), self._version)
        except OSError as error:
            raise Unwritable(error.strerror or type(error).__name__) from None
        self._entries = entries
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
