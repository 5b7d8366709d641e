"""Keeps one listen stream open to a modern server (2026-07-28 basic/patterns/subscriptions).

A stream that ends is opened again, ever slower; a changed filter opens the new stream before the old one is closed, so
that nothing is missed in between. After a gap all lists and resources that the stream covers count as changed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from gateway.downstream import backoff, requests
from gateway.downstream.dialect import CHANGES, Hello, Peer, read_members, read_object, read_string
from gateway.downstream.transport import Reply, Request
from gateway.errors import DownstreamError
from gateway.model.catalog import Kind
from gateway.protocol import capabilities, codes, meta, methods
from gateway.protocol.jsonrpc import Id
from gateway.protocol.rawjson import JsonError, Members, Object, Value, decode_value
from gateway.protocol.tasks import declared, read
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

SETTLED: Final = 30.0
"""Seconds after which a stream that ends counts as the first failure again."""
FIRST_DELAY: Final = 1.0

_FILTERS: Final = {
    "toolsListChanged": ("tools", frozenset({Kind.TOOL})),
    "promptsListChanged": ("prompts", frozenset({Kind.PROMPT})),
    "resourcesListChanged": ("resources", frozenset({Kind.RESOURCE, Kind.TEMPLATE})),
}
_TASK_IDS: Final = "taskIds"
_STREAM_KINDS: Final = frozenset(
    {methods.ACKNOWLEDGED, methods.CANCELLED, methods.RESOURCE_UPDATED, methods.TASK_CHANGED, *CHANGES}
)
_log = get_logger("downstream")


@dataclass(eq=False, slots=True)
class Stream:
    """One listen request. ``id`` is what the server calls it, known from the acknowledgment."""

    wanted: Object
    opened: float
    acknowledged: bool = False
    ended: bool = False
    refused: bool = False
    id: Id | None = None
    task: asyncio.Task[None] | None = None


class Listening:
    """The wish to hear of changes, and the stream that fulfils it."""

    def __init__(self, peer: Peer, hello: Hello) -> None:
        self._peer = peer
        self._hello = hello
        self._flags: Object = {
            name: True for name, (capability, _) in _FILTERS.items() if hello.flag(capability, "listChanged")
        }
        self._covered = frozenset(kind for name in self._flags for kind in _FILTERS[name][1])
        self._uris: frozenset[str] = frozenset()
        self._tasks: frozenset[str] = frozenset()
        self._kick = asyncio.Event()
        self._streams: list[Stream] = []

    def want(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        """Change the resources and tasks whose changes are asked for; only who runs tasks is asked for theirs."""
        self._uris = uris
        self._tasks = tasks if declared(self._hello.capabilities) else frozenset()
        self._kick.set()

    def heard(self, method: str, params: Members, stream: Stream | None = None) -> None:
        """Take a notification; ``stream`` is set where the transport knows which one it came on."""
        if method not in _STREAM_KINDS:
            self._peer.events.violation("unexpected_notification")
            return
        identifier = _identifier(read_members(params, "_meta"), meta.SUBSCRIPTION_ID)
        owner = stream if stream is not None else self._owner(identifier)
        match method:
            case methods.ACKNOWLEDGED:
                self._acknowledged(owner, params, identifier)
            case methods.CANCELLED:
                self._torn_down(_identifier(params, "requestId"))
            case _ if owner is None:
                self._peer.events.violation("unexpected_notification")
            case _:
                if not owner.acknowledged:
                    self._peer.events.violation("unexpected_notification")
                self._changed(method, params)

    def _owner(self, identifier: Id | None) -> Stream | None:
        """Find the stream of a shared channel; before its acknowledgment a stream's id is not known."""
        live = [stream for stream in self._streams if not stream.ended]
        named = [stream for stream in live if stream.id is not None and _same(stream.id, identifier)]
        return next(iter(named or [stream for stream in reversed(live) if stream.id is None]), None)

    def _acknowledged(self, stream: Stream | None, params: Members, identifier: Id | None) -> None:
        if stream is None or stream.acknowledged:
            self._peer.events.violation("unexpected_notification")
            return
        stream.acknowledged, stream.id = True, identifier
        honoured = read_object(params, "notifications")
        missing = sorted(key for key in stream.wanted if key not in honoured)
        if missing:
            _log.info("listen_reduced", server=self._peer.name, missing=missing)
        self._kick.set()

    def _torn_down(self, identifier: Id | None) -> None:
        """Take the server's word that a stream is over; its completion result may follow."""
        for stream in self._streams:
            if stream.id is not None and _same(stream.id, identifier):
                stream.ended = True
                self._kick.set()

    def _changed(self, method: str, params: Members) -> None:
        if method in CHANGES:
            self._peer.events.changed(CHANGES[method])
        elif method == methods.TASK_CHANGED:
            task = read(params, Era.MODERN)
            if task is None or task.id not in self._tasks:
                self._peer.events.violation("unexpected_notification")
            else:
                self._peer.events.tasked(task.id, params)
        elif (uri := read_string(params, "uri")) is not None:
            self._peer.events.updated(uri)

    async def run(self) -> None:
        """Listen until cancelled, or until the server says that it offers no such stream."""
        tasks = TaskSet(on_crash(_log))
        failures, gap = 0, False
        loop = asyncio.get_running_loop()
        try:
            while True:
                wanted = self._filter()
                if not wanted:
                    await self._retire(None)
                    await self._kicked()
                    continue
                stream = Stream(wanted, loop.time())
                stream.task = tasks.start(self._open(stream), f"listen {self._peer.name}")
                self._streams.append(stream)
                await self._until_settled(stream)
                await self._retire(stream)
                if stream.acknowledged and gap:
                    self._peer.events.missed(self._covered, self._uris)
                gap = gap and not stream.acknowledged
                while stream.acknowledged and not stream.ended and self._filter() == wanted:
                    await self._kicked()
                if stream.refused:
                    return
                if stream.ended or not stream.acknowledged:
                    gap = True
                    failures = 1 if loop.time() - stream.opened >= SETTLED else failures + 1
                    await self._retire(None)
                    await asyncio.sleep(backoff.delay(failures, FIRST_DELAY))
        finally:
            await tasks.aclose()
            self._streams.clear()

    async def _kicked(self) -> None:
        await self._kick.wait()
        self._kick.clear()

    async def _until_settled(self, stream: Stream) -> None:
        """Wait until a stream is acknowledged or over, no longer than a start may take."""
        try:
            async with asyncio.timeout(self._peer.timeouts.start):
                while not (stream.acknowledged or stream.ended):
                    await self._kicked()
        except TimeoutError:
            _log.info("listen_not_acknowledged", server=self._peer.name)
        # A filter that changed meanwhile must be seen by the loop.
        self._kick.set()

    async def _retire(self, kept: Stream | None) -> None:
        """End every stream but one."""
        for stream in [item for item in self._streams if item is not kept]:
            self._streams.remove(stream)
            if stream.task is not None and not stream.task.done():
                stream.task.cancel()
                await asyncio.wait([stream.task])

    def _filter(self) -> Object:
        uris: list[Value] = [*sorted(self._uris)]
        tasks: list[Value] = [*sorted(self._tasks)]
        wanted: Object = {"resourceSubscriptions": uris} if uris else {}
        return self._flags | wanted | ({_TASK_IDS: tasks} if tasks else {})

    async def _open(self, stream: Stream) -> None:
        """Send the request; its answer is the end of the stream."""
        params: Object = {"notifications": stream.wanted}
        headers = requests.standard_headers(methods.LISTEN, params) if self._peer.is_http else {}
        request = Request(
            methods.LISTEN,
            params | {"_meta": _meta(stream.wanted)},
            headers,
            on_notification=lambda method, said: self.heard(method, said, stream),
            cancel=None if self._peer.is_http else lambda wire_id: (methods.CANCELLED, {"requestId": wire_id}),
        )
        try:
            reply = await self._peer.transport.request(request)
            stream.refused = not stream.acknowledged and _refuses(reply)
        except DownstreamError as error:
            _log.info("listen_lost", server=self._peer.name, reason=error.message)
        finally:
            stream.ended = True
            self._kick.set()


def _meta(wanted: Object) -> Object:
    """Return the ``_meta`` of a listen request; tasks are told of only to who declares them (Tasks extension)."""
    base = requests.base_meta()
    if _TASK_IDS not in wanted:
        return base
    return base | {meta.CLIENT_CAPABILITIES: {capabilities.EXTENSIONS: {capabilities.TASKS: {}}}}


def _refuses(reply: Reply) -> bool:
    """Tell whether asking again is useless: the method or the capability is not there (G024: no storm)."""
    if reply.error is not None:
        return reply.error.code in (codes.METHOD_NOT_FOUND, codes.INVALID_PARAMS, codes.MISSING_CLIENT_CAPABILITY)
    return reply.result is None and reply.status in (404, 405, 501)


def _identifier(members: Members, key: str) -> Id | None:
    try:
        value = decode_value(members[key]) if key in members else None
    except JsonError:
        return None
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _same(left: Id, right: Id | None) -> bool:
    return type(left) is type(right) and left == right
