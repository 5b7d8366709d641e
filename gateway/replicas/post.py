"""Post between replicas: sealed letters over topics of the store they share.

A short letter travels whole. A long one waits in the store in pieces for its reader: one that lags may miss a letter,
but never has a part of one. Nothing is laid there for nobody, and what is sent again is laid there once. Knows nothing
of what letters say, nor whether they have to be answered.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Members
from gateway.replicas.identity import is_replica_id
from gateway.state.sealing import Sealer, SealError
from gateway.state.store import Store, StoreRefused
from gateway.tasks import outcome
from gateway.telemetry.logs import get_logger

MAX_SHORT: Final = 64 * 1024
"""Bytes of a letter that travels whole, and of each piece of a longer one."""
MAX_LETTER: Final = 64 * 2**20
"""Bytes of the longest letter."""
MAX_SEEN: Final = 4096
"""Letters that were confirmed, and are not taken again should they come again; the newest."""
DELIVERED_WITHIN: Final = 10.0
"""Seconds for which a letter is sent until it is confirmed."""
AGAIN: Final = 0.5
SOON: Final = 0.1
"""Seconds after which a letter is sent again that was not answered, and one that found nobody."""
MISSES: Final = 5
"""Letters in a row that found nobody, after which nobody is there: the store may falter, too."""
MAX_LONG: Final = 4
"""Long letters that are written at once; others wait for their turn."""
LIFETIME: Final = 120.0
"""Seconds for which a letter can be opened: what travels takes milliseconds, but clocks may differ."""
KEPT: Final = 60.0
"""Seconds for which the pieces of a long letter wait for their reader."""
RENEWED: Final = 4
"""Sendings of a long letter after which its pieces are laid out again, in the same places: the store may have lost one.
"""

_RECEIPT: Final = "receipt"
_HAIL: Final = "hail"
"""What is asked before anything is laid out: whether somebody listens. Nobody takes it."""
_VERSION: Final = 1
_PURPOSE: Final = "post"
_ALL: Final = "replicas"

_log = get_logger("replicas")


class LetterLost(Exception):
    """A long letter that is not all there any more."""


class LetterTooLong(Exception):
    """A letter over its bound."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What arrived. ``thread`` tells the letters of one conversation from those of others.

    ``short`` is the body of one that travelled whole; of a longer one ``pieces`` wait under ``name``.
    """

    kind: str
    sender: str
    thread: str = ""
    short: Members | None = field(default=None, repr=False)
    name: str = ""
    pieces: int = 0
    receipt: str = ""
    """The name under which its sender wants to hear that it arrived."""


@dataclass(slots=True, eq=False)
class Parcel:
    """A letter to one replica, to be sent as often as it takes."""

    to: str
    head: Mapping[str, object]
    said: bytes = field(repr=False)
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    """Under which its pieces lie, if it is long."""
    sent: int = 0
    """How often it was sent since its pieces were laid out."""
    laid: bool = False
    """Some of them may lie in the store."""

    @property
    def pieces(self) -> int:
        """How many there are; none of what travels whole."""
        return -(-len(self.said) // MAX_SHORT) if len(self.said) > MAX_SHORT else 0


Take: TypeAlias = Callable[[Letter], None]
"""Takes a letter; must neither block nor fail."""


class Post:
    """The post office of one replica. ``alone``: there is no other replica to write to, and never will be."""

    def __init__(self, store: Store, sealer: Sealer, replica: str, *, alone: bool = False) -> None:
        self.replica = replica
        self.alone = alone
        self.listening = asyncio.Event()
        """Set while letters arrive here."""
        self._store = store
        self._sealer = sealer
        self._takers: dict[str, Take] = {}
        self._long = asyncio.Semaphore(MAX_LONG)
        self._unconfirmed: dict[str, asyncio.Event] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self.on(_RECEIPT, self._confirmed)

    @property
    def name(self) -> str:
        """The replica's id where others may have to know it, else ""."""
        return "" if self.alone else self.replica

    @property
    def reaches_others(self) -> bool:
        """Whether a letter that finds nobody found out something about its addressee, and not about the store."""
        return not self.alone and self._store.reaches_others

    def on(self, kind: str, take: Take) -> None:
        """Have the letters of a kind taken from now on; one taker for each kind."""
        self._takers[kind] = take

    async def run(self) -> None:
        """Receive letters until cancelled."""
        if self.alone:
            return
        async with self._store.subscribe(_topic(self.replica)) as own, self._store.subscribe(_ALL) as everybodys:
            self.listening.set()
            try:
                await asyncio.gather(self._receive(_topic(self.replica), own), self._receive(_ALL, everybodys))
            finally:
                self.listening.clear()

    async def _receive(self, topic: str, messages: AsyncIterator[bytes]) -> None:
        async for message in messages:
            letter = self._opened(topic, message)
            take = self._takers.get(letter.kind) if letter is not None and letter.sender != self.replica else None
            # Of a kind that a newer version has, nothing arrives here.
            if letter is None or take is None:
                continue
            if letter.receipt:
                await self.send(letter.sender, _RECEIPT, thread=letter.receipt)
                if letter.receipt in self._seen:
                    continue
                self._seen[letter.receipt] = None
                if len(self._seen) > MAX_SEEN:
                    self._seen.popitem(last=False)
            broken = await outcome(_taken(take, letter))
            if broken is not None:
                _log.error("letter_not_taken", kind=letter.kind, error=type(broken).__name__)

    def _confirmed(self, letter: Letter) -> None:
        event = self._unconfirmed.get(letter.thread)
        if event is not None:
            event.set()

    def _opened(self, topic: str, message: bytes) -> Letter | None:
        try:
            text = self._sealer.open(_PURPOSE, message.decode("ascii", "replace"), topic.encode())
            return _read(rawjson.decode_members(text))
        except (SealError, JsonError):
            # Of another installation with the same store, of other keys, or forged: nobody's to answer.
            _log.warning("letter_not_opened", size=len(message))
            return None

    async def send(self, to: str, kind: str, body: Mapping[str, object] | None = None, thread: str = "") -> bool:
        """Write to one replica; False where nobody listens under that name, or nobody can be reached now.

        Raises:
            LetterTooLong: longer than ``MAX_LETTER``.
        """
        return await self.dispatch(self.parcel(to, kind, body or {}, thread))

    def parcel(self, to: str, kind: str, body: Mapping[str, object], thread: str = "") -> Parcel:
        """Return a letter to one replica that may have to be sent more than once.

        Raises:
            LetterTooLong: longer than ``MAX_LETTER``.
        """
        return _parcel(to, {"kind": kind, "thread": thread}, body)

    async def dispatch(self, parcel: Parcel) -> bool:
        """Send a letter, first or again; False where nobody listens under that name, or nobody can be reached now."""
        if self.alone or not is_replica_id(parcel.to):
            return False
        letter: dict[str, object] = {"v": _VERSION, "from": self.replica, **parcel.head}
        if not parcel.pieces:
            return await self._publish(_topic(parcel.to), letter | {"body": rawjson.Raw(parcel.said)})
        if parcel.sent % RENEWED == 0 and not await self._laid_out(parcel):
            return False
        sent = await self._publish(_topic(parcel.to), letter | {"name": parcel.name, "pieces": parcel.pieces})
        # What found nobody may have met a store that was away for the pieces, too.
        parcel.sent = parcel.sent + 1 if sent else 0
        return sent

    async def withdraw(self, parcel: Parcel) -> None:
        """Take back what was laid out of a letter that will not be sent again."""
        if parcel.laid:
            await self._clear(parcel.name, parcel.pieces)

    async def deliver(self, to: str, kind: str, body: Mapping[str, object]) -> bool:
        """Write to one replica until it says that the letter is there; False where nobody is, or none answers in time.

        Raises:
            LetterTooLong: longer than ``MAX_LETTER``.
        """
        if self.alone:
            return False
        receipt, event = secrets.token_hex(16), asyncio.Event()
        parcel = _parcel(to, {"kind": kind, "receipt": receipt}, body)
        self._unconfirmed[receipt] = event
        try:
            async with asyncio.timeout(DELIVERED_WITHIN):
                await self._until(event, parcel)
        except TimeoutError:
            pass
        finally:
            del self._unconfirmed[receipt]
        if not event.is_set():
            await self.withdraw(parcel)
        return event.is_set()

    async def _until(self, event: asyncio.Event, parcel: Parcel) -> None:
        nobody = 0
        while not event.is_set() and nobody < MISSES:
            sent = await self.dispatch(parcel)
            nobody = 0 if sent else nobody + self.reaches_others
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN if sent else SOON):
                    await event.wait()

    async def broadcast(self, kind: str, body: Mapping[str, object]) -> bool:
        """Write to all other replicas; who listens at this moment gets it. False: it did not leave this one.

        Raises:
            LetterTooLong: longer than what travels whole.
        """
        if self.alone:
            return False
        said = rawjson.encode(body)
        if len(said) > MAX_SHORT:
            raise LetterTooLong
        leaves = self._store.reaches_others
        letter = {"v": _VERSION, "kind": kind, "from": self.replica, "body": rawjson.Raw(said)}
        return await self._publish(_ALL, letter) and leaves

    async def _laid_out(self, parcel: Parcel) -> bool:
        """Lay out the pieces, if somebody listens who may read them."""
        if not await self._publish(_topic(parcel.to), {"v": _VERSION, "kind": _HAIL, "from": self.replica}):
            return False
        parcel.laid = True
        try:
            async with self._long:
                for number in range(parcel.pieces):
                    piece = parcel.said[number * MAX_SHORT : (number + 1) * MAX_SHORT]
                    place = _place(parcel.name, number)
                    token = self._sealer.seal(_PURPOSE, piece, place.encode(), LIFETIME)
                    await self._store.put(place, token.encode(), KEPT)
        except StoreRefused:
            _log.error("letter_refused", kind=str(parcel.head["kind"]))
            return False
        return True

    async def _clear(self, name: str, pieces: int) -> None:
        for number in range(pieces):
            await self._store.delete(_place(name, number))

    async def _publish(self, topic: str, letter: Mapping[str, object]) -> bool:
        token = self._sealer.seal(_PURPOSE, rawjson.encode(letter), topic.encode(), LIFETIME)
        try:
            return await self._store.publish(topic, token.encode()) > 0
        except StoreRefused:
            _log.error("letter_refused", kind=str(letter["kind"]))
            return False

    async def read(self, letter: Letter) -> Members:
        """Return what a letter says; of a long one only once, unless a piece was missing and is there later.

        Raises:
            LetterLost: a piece of it is missing, or none of ours.
        """
        if letter.short is not None:
            return letter.short
        said = bytearray()
        try:
            for number in range(letter.pieces):
                place = _place(letter.name, number)
                token = await self._store.get(place)
                if token is None:
                    raise LetterLost
                said += self._sealer.open(_PURPOSE, token.decode("ascii", "replace"), place.encode())
            read = rawjson.decode_members(bytes(said))
        except (SealError, JsonError):
            raise LetterLost from None
        await self._clear(letter.name, letter.pieces)
        return read


async def _taken(take: Take, letter: Letter) -> None:
    take(letter)


def _topic(replica: str) -> str:
    return f"replica:{replica}"


def _parcel(to: str, head: Mapping[str, object], body: Mapping[str, object]) -> Parcel:
    said = rawjson.encode(body)
    if len(said) > MAX_LETTER:
        raise LetterTooLong
    return Parcel(to, head, said)


def _place(name: str, number: int) -> str:
    return f"post:{name}:{number}"


def _read(members: Members) -> Letter:
    """Read an opened letter.

    Raises:
        JsonError: it has another form, as that of another version may.
    """
    said = {key: rawjson.peek(item) for key, item in members.items() if key != "body"}
    texts = [said.get(key, "") for key in ("kind", "from", "thread", "name", "receipt")]
    kind, sender, thread, name, receipt = (text if isinstance(text, str) else None for text in texts)
    pieces = said.get("pieces", 0)
    if said.get("v") != _VERSION or not isinstance(pieces, int) or not 0 <= pieces <= MAX_LETTER // MAX_SHORT:
        raise JsonError("letter")
    if kind is None or sender is None or thread is None or name is None or receipt is None:
        raise JsonError("letter")
    short = rawjson.decode_members(members["body"]) if "body" in members else None
    return Letter(kind, sender, thread, short, name, pieces, receipt)
