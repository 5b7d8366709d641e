"""Sessions of legacy clients: what a handshake agreed on, kept until it is ended, idle too long or crowded out.

A session belongs to a principal, whatever credential it came with, and to one view. Its id proves nothing (S89).
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from gateway.endpoint.legacy.asks import Asks
from gateway.endpoint.legacy.facts import Agreed, Facts, within
from gateway.endpoint.legacy.shelf import Shelf
from gateway.endpoint.legacy.track import Track, Tracks
from gateway.endpoint.running import Ticket
from gateway.endpoint.stream import EventStream
from gateway.endpoint.updates import Claims
from gateway.errors import Reason
from gateway.model.principal import Principal
from gateway.protocol import jsonrpc, methods, rawjson
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import Object

IDLE: Final = 1800.0
"""Seconds after its last request, with no call and no stream, when a session ends."""

MAX_SESSIONS: Final = 10_000
"""Sessions of all principals together."""

MAX_URIS: Final = 1000

MAX_UNHEARD: Final = 256
LONGEST_UNHEARD: Final = 512
"""Changes of resources that wait for a stream, and bytes of each: a stream must be able to hold them all at once."""

_ID_BYTES: Final = 32
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")

CallKey: TypeAlias = tuple[type, Id]


def key_of(identifier: Id) -> CallKey:
    """Return what a call is known by: its id with the type, since 1 and "1" are two calls (G043)."""
    return type(identifier), identifier


class Full(Exception):
    """No session can be opened: all of this principal's are busy."""


class Hearer(Protocol):
    """What listens for changes on a session's behalf, as far as its principal may see them."""

    principal: Principal


@dataclass(slots=True, eq=False)
class Session:
    """One client's session. Times are monotonic seconds."""

    id: str
    principal: Principal
    view: str | None
    version: str
    capabilities: Object
    info: Object
    used: float
    log_level: str | None = None
    uris: Claims = field(default_factory=dict)
    calls: dict[CallKey, Ticket] = field(default_factory=dict)
    asks: Asks = field(default_factory=Asks)
    tracks: Tracks = field(default_factory=lambda: Tracks(Shelf()))
    streams: list[EventStream | Track] = field(default_factory=list)
    rejoined: list[EventStream] = field(default_factory=list)
    """Connections that a client came back on for the rest of a call's stream."""
    subscriptions: list[Callable[[], None]] = field(default_factory=list)
    hearers: list[Hearer] = field(default_factory=list)
    unheard: dict[bytes, None] = field(default_factory=dict)
    ended: bool = False
    elsewhere: Claims = field(default_factory=dict)
    """What it subscribed to at another replica, for as long as it has no stream here."""
    heeded: Callable[[], None] = lambda: None
    """Called when a stream came that can carry what is subscribed to."""
    revision: int = 0
    """How often what other replicas know of it has changed."""
    agreed: Agreed = field(default_factory=Agreed)
    """What they know of it, as far as it was heard of here: what differs from that is still to be told."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by who tells them."""
    kept: float = 0.0
    """When that was written last."""
    rereading: asyncio.Task[None] | None = None
    """What reads a change that another replica told of; requests wait for it."""

    @property
    def busy(self) -> bool:
        """Whether something of it is open."""
        return bool(self.calls) or bool(self.streams) or bool(self.rejoined)

    def facts(self) -> Facts:
        """Return what other replicas have to know."""
        return Facts(
            self.principal.id,
            self.view,
            self.version,
            rawjson.raw(self.capabilities),
            rawjson.raw(self.info),
            self.log_level,
            within(self.elsewhere | self.uris),
            self.revision,
        )

    def own(self) -> Agreed:
        """Return what it is like here."""
        return Agreed(self.revision, self.log_level, self.elsewhere | self.uris)

    def renew(self, principal: Principal) -> None:
        """Judge from now on by the credential used last: the groups and scopes of a newer token may be others."""
        if self.principal is not principal:
            self.principal = principal
            for hearer in self.hearers:
                hearer.principal = principal

    def announce(self, method: str) -> None:
        """Tell of a change on one stream, the newest (transports §Multiple Connections); keep it if there is none."""
        message = jsonrpc.encode_notification(method, None)
        if not self.tell(message):
            self.keep(message)

    def keep(self, message: bytes) -> None:
        """Send a message on the next stream there is; equal ones once. Who keeps any bounds their number."""
        self.unheard[message] = None

    def updated(self, uri: str) -> None:
        """Tell of a changed resource, likewise; without a stream only so many are kept, of names that are not long."""
        message = jsonrpc.encode_notification(methods.RESOURCE_UPDATED, {"uri": uri})
        if not self.tell(message) and len(self.unheard) < MAX_UNHEARD and len(message) <= LONGEST_UNHEARD:
            self.keep(message)

    def tell(self, data: bytes) -> bool:
        """Send a message that belongs to no request on one stream, the newest; False if there is none."""
        for stream in reversed(self.streams):
            if stream.open:
                stream.send(data)
                return True
        return False

    def attach(self, stream: EventStream | Track) -> None:
        """Take a stream, and send on it what could not be told before."""
        self.streams.append(stream)
        unheard, self.unheard = self.unheard, {}
        for message in unheard:
            if not self.tell(message):
                self.keep(message)
        self.heeded()

    def detach(self, stream: EventStream | Track) -> None:
        """Let go of a stream."""
        if stream in self.streams:
            self.streams.remove(stream)

    def cancel(self, identifier: object) -> bool:
        """Stop the call with this id (G048, G049); False where none of this session runs here."""
        ticket = self.calls.get(key_of(identifier)) if isinstance(identifier, (int, str)) else None
        if ticket is not None:
            ticket.stop(Reason.CANCELLED)
        return ticket is not None

    def end(self) -> None:
        """Stop its calls and end its streams."""
        self.ended = True
        for unsubscribe in self.subscriptions:
            unsubscribe()
        for ticket in self.calls.values():
            ticket.stop(Reason.CANCELLED)
        for stream in (*self.streams, *self.rejoined):
            stream.end()
        self.tracks.close()


class Sessions:
    """Every session, longest unused first.

    ``limit`` is per principal, and a reload may change it; ``clock`` gives monotonic seconds.
    """

    def __init__(self, limit: int, clock: Callable[[], float], most: int = MAX_SESSIONS) -> None:
        self.limit = limit
        self._clock = clock
        self._most = most
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, session: Session) -> Session | None:
        """Add a session; return the one that had to make room for it and is ended now, if any.

        Raises:
            Full: none of this principal's, or of all, is idle.
        """
        own = [each for each in self._by_id.values() if each.principal.id == session.principal.id]
        crowded = own if len(own) >= self.limit else list(self._by_id.values())
        evicted = None
        if len(own) >= self.limit or len(self._by_id) >= self._most:
            evicted = next((each for each in crowded if not each.busy), None)
            if evicted is None:
                raise Full
            self._remove(evicted)
        self._by_id[session.id] = session
        return evicted

    def find(self, identifier: str, principal: Principal, view: str | None) -> Session | None:
        """Return a session to whom it belongs, and note its use; None alike for every other case."""
        session = self._by_id.get(identifier)
        if session is None or session.principal.id != principal.id or session.view != view:
            return None
        if self._idle(session):
            return None
        session.renew(principal)
        self.touch(session)
        return session

    def known(self, identifier: str) -> Session | None:
        """Return a session by its id alone, for who has proven whose it is."""
        return self._by_id.get(identifier)

    def touch(self, session: Session) -> None:
        """Note that a session is in use."""
        session.used = self._clock()
        if session.id in self._by_id:
            self._by_id.move_to_end(session.id)

    def is_foreign(self, identifier: str, principal: Principal) -> bool:
        """Tell the audit log whether an id is another principal's."""
        session = self._by_id.get(identifier)
        return session is not None and session.principal.id != principal.id

    def close(self, session: Session) -> None:
        """End a session; its id is unknown from now on."""
        self._remove(session)

    def expired(self) -> list[Session]:
        """End and return every session that was idle too long."""
        over = [session for session in self._by_id.values() if self._idle(session)]
        for session in over:
            self._remove(session)
        return over

    def all(self) -> list[Session]:
        """Return every session."""
        return list(self._by_id.values())

    def _idle(self, session: Session) -> bool:
        return not session.busy and self._clock() - session.used >= IDLE

    def _remove(self, session: Session) -> None:
        self._by_id.pop(session.id, None)
        session.end()


def new_session_id() -> str:
    """Mint an id of 256 random bits in visible ASCII (S87)."""
    return secrets.token_urlsafe(_ID_BYTES)


def is_session_id(text: str) -> bool:
    """Tell whether a text has the form of such an id."""
    return _ID.fullmatch(text) is not None
