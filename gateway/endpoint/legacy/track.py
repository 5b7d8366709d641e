"""Streams that outlive their connection: numbered events, sent again to a client that names the last one it has.

Follows 2025-11-25 basic/transports §Resumability and Redelivery: an event id names its stream and its place in it,
and only what was sent on that stream is sent again. Knows bytes and connections; not what the events say.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import count
from typing import Final

from aiohttp import web

from gateway.endpoint.legacy.shelf import Kept, Shelf
from gateway.endpoint.stream import EventStream
from gateway.protocol import sse

RETRY_MS: Final = 1000
"""How long a client is told to wait before it comes back."""

PRIME_AFTER: Final = 0.05
"""Seconds after which a call's response begins as a stream: what takes long is worth an id to come back with."""

MAX_TRACKS: Final = 64
"""Streams one session may come back to, besides those that are open."""

OVERHEAD: Final = 128
"""Bytes of an event beside its data, at most: JSON of ours has no line breaks."""

TRACK_EVENTS: Final = 1000
"""Events of one stream that are kept, the newest."""

_EVENT_ID = re.compile(r"((?:[0-9a-f]{1,32}-)?([cg])[0-9]{1,12})\.([0-9]{1,12})", re.ASCII)


class Sort(StrEnum):
    """``call``: ends with the answer to its request. ``get``: carries what belongs to no request."""

    CALL = "c"
    GET = "g"


class Forgotten(LookupError):
    """An event of a call's stream that is not known any more: nothing will come after it."""


class Track:
    """One stream of a session, over whichever connection carries it now.

    With ``primed`` its first event has an id and no data, so that a client can come back from then on.
    """

    def __init__(self, name: str, shelf: Shelf, stream: EventStream, *, primed: bool) -> None:
        self.name = name
        self._sort = Sort(name.rpartition("-")[2][0])
        self.over = False
        self._shelf = shelf
        self._primed = primed
        self._first = self._stream = stream
        self._count = 0
        self._kept: deque[Kept] = deque()
        if primed:
            stream.prologue = sse.encode(b"", self._id(), RETRY_MS)

    @property
    def sort(self) -> Sort:
        """What is sent on it."""
        return self._sort

    @property
    def started(self) -> bool:
        """Whether a response has become this stream."""
        return self._first.started

    @property
    def open(self) -> bool:
        """Whether somebody hears what is sent now."""
        return self._stream.open

    @property
    def worthless(self) -> bool:
        """Whether it is over and there is nothing left to come back for."""
        return self.over and not any(kept.data for kept in self._kept)

    def still_allowed(self) -> bool:
        """Tell whether the connection that carries it may go on."""
        return self._stream.still_allowed()

    @contextmanager
    def begun_when_late(self) -> Iterator[None]:
        """Begin the response if the body takes long."""
        with self._first.begun_when_late(PRIME_AFTER if self._primed else None):
            yield

    def send(self, data: bytes) -> None:
        """Send one message and keep it; a client that has gone may come back for it, if it was ever told an id."""
        if self.over or not (self.started or self.open):
            return
        self._stream.put(self._next(data))

    def offer(self, data: bytes) -> None:
        """Do the same with a message that may be lost, and is where the connection has no room for it."""
        if self._stream.has_room(len(data) + OVERHEAD):
            self.send(data)

    def close(self, data: bytes | None) -> None:
        """Send the last message, if any; the stream is over, once and for all."""
        if not self.over:
            last = None if data is None else self._next(data)
            self.over = True
            self._stream.close(last)

    async def finish(self, data: bytes | None) -> web.StreamResponse:
        """Close the stream; returns the first connection's response when that is written or the client gone."""
        self.close(data)
        return await self._first.wait_ended()

    def end(self) -> None:
        """End the connection after what is queued; the stream may be continued on another one."""
        self._stream.end()

    def abandon(self) -> None:
        """Forget the first connection, whose client has gone."""
        self._first.abandon()

    def rejoin(self, stream: EventStream, after: int) -> None:
        """Go on over a new connection, with what was sent after an event first; the old connection ends."""
        stream.prologue = b"".join(kept.data for kept in self._kept if kept.number > after)
        old, self._stream = self._stream, stream
        old.end()
        stream.start()
        if self.over:
            stream.close(None)

    def forget(self) -> None:
        """Let go of what was kept."""
        for kept in self._kept:
            self._shelf.forget(kept)
        self._kept.clear()

    def _id(self) -> str:
        return f"{self.name}.{self._count}"

    def _next(self, data: bytes) -> bytes:
        self._count += 1
        event = sse.encode(data, self._id())
        self._kept.append(self._shelf.put(self._count, event))
        while len(self._kept) > TRACK_EVENTS or (self._kept and not self._kept[0].data):
            self._shelf.forget(self._kept.popleft())
        return event


class Tracks:
    """The streams of one session. ``tag`` begins their names, so that they are not taken for another replica's."""

    def __init__(self, shelf: Shelf, *, primed: bool = False, tag: str = "") -> None:
        self._shelf = shelf
        self._tag = tag
        self._primed = primed
        self._numbers = count(1)
        self._by_name: OrderedDict[str, Track] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_name)

    def begin(self, sort: Sort, stream: EventStream) -> Track:
        """Make a stream of a response that is about to begin."""
        self._prune()
        track = Track(f"{self._tag}{sort}{next(self._numbers)}", self._shelf, stream, primed=self._primed)
        self._by_name[track.name] = track
        return track

    def find(self, event_id: str | None) -> tuple[Track, int] | None:
        """Return the stream that an event was sent on, and its place there; None where a new stream will do.

        Raises:
            Forgotten: the event is one of a call's stream, which is gone: a new stream would say nothing of the call.
        """
        named = _EVENT_ID.fullmatch(event_id) if event_id is not None else None
        if named is None:
            return None
        track = self._by_name.get(named[1])
        if track is None or track.worthless:
            if named[2] == Sort.CALL:
                raise Forgotten
            return None
        return track, int(named[3])

    def drop(self, track: Track) -> None:
        """Forget a stream that nobody can come back to."""
        if self._by_name.pop(track.name, None) is not None:
            track.forget()

    def close(self) -> None:
        """Forget every stream."""
        for track in tuple(self._by_name.values()):
            self.drop(track)

    def _prune(self) -> None:
        """Forget what is of no use, then the oldest of what nobody hears."""
        self._shelf.sweep()
        for track in [track for track in self._by_name.values() if track.worthless]:
            self.drop(track)
        silent = [track for track in self._by_name.values() if not track.open]
        for track in silent[: max(0, len(silent) - MAX_TRACKS + 1)]:
            self.drop(track)
