"""All servers behind the gateway: routes calls to them, and carries them over a reload.

One dead, slow or crashing server never delays another or the start (G117, S188): members share nothing but the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from gateway.config.servers import Server
from gateway.downstream.connection import Connection
from gateway.downstream.dialect import Hello, Page
from gateway.downstream.eras import Eras
from gateway.downstream.fingerprint import fingerprint
from gateway.downstream.guardian import Guardian
from gateway.downstream.health import ServerStatus
from gateway.downstream.hooks import Environment, Hooks
from gateway.downstream.inspection import Inspector
from gateway.downstream.member import Member
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.oauth import signin
from gateway.downstream.oauth.credentials import Desk
from gateway.downstream.oauth.offer import Receiver
from gateway.downstream.parking import Parking, unknown
from gateway.downstream.setup import MakeTransport
from gateway.downstream.tickets import is_ticket, issuer_of
from gateway.downstream.transports import Transports
from gateway.downstream.wishes import Wanted
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Failure, Outcome
from gateway.model.principal import Principal
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash
from gateway.telemetry.spans import OFF, Tracer

CLOSE_TIMEOUT: Final = 15.0
"""Seconds that all servers together may take to end."""
_log = get_logger("downstream")


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """What the pool is given.

    ``guardian`` watches the processes; the pool neither starts nor ends it. ``make_transport`` opens nothing yet and
    is for tests. ``eras`` is a file in ``state.dir``, None for memory alone. ``key`` keys the
    fingerprints, which clients see the first digits of: without one they would help to guess secrets. ``replica`` is
    the id of this process, by which others know where a call waits.
    """

    guardian: Guardian
    make_transport: MakeTransport | None = None
    eras: Path | None = None
    key: bytes = b""
    hooks: Hooks = field(default_factory=Hooks)
    meters: Meters = field(default_factory=NoMeters)
    inspector: Inspector = field(default_factory=Inspector)
    desk: Desk = field(default_factory=Desk)
    tracer: Tracer = OFF
    replica: str = ""


class Pool:
    """The servers, by configured name."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        make = options.make_transport or Transports(options.guardian, options.meters)
        hooks = replace(options.hooks, on_task=self._tasked)
        self._parking = Parking(options.replica)
        self._environment = Environment(
            make,
            Eras(options.eras),
            hooks,
            options.meters,
            self._parking,
            inspector=options.inspector,
            desk=options.desk,
            tracer=options.tracer,
        )
        self._listeners: list[Callable[[TaskNews], None]] = []
        self._members: dict[str, Member] = {}
        self._wishes: dict[str, Wanted] = {}
        self._tasks = TaskSet(on_crash(_log))
        self._retiring: set[Member] = set()
        options.desk.consents.reach = self._receiver

    def apply(self, servers: Mapping[str, Server], renewed: Collection[str] = ()) -> None:
        """Make these the servers, without waiting for any of them; ``renewed`` count as changed whatever they say.

        Unchanged ones keep their processes and sessions; changed and removed ones finish their calls and end in the
        background; new ones start in the background.
        """
        kept: dict[str, Member] = {}
        for name, server in servers.items():
            digest = fingerprint(name, server, self._options.key)
            member = self._members.pop(name, None)
            if member is not None and (member.fingerprint != digest or name in renewed):
                self._retire(member)
                member = None
            if member is None:
                wishes = self._wishes.setdefault(name, Wanted())
                member = Member(name, server, digest, self._environment, wishes)
                member.start()
            kept[name] = member
        for member in self._members.values():
            self._retire(member)
        self._members = kept

    async def reread(self, changed: Callable[[str], bool]) -> bool:
        """Take the credentials that other replicas have kept; ``changed`` tells which documents may be others.

        Always done: one that cannot be read now is read again before anybody is asked for it.
        """
        for member in list(self._members.values()):
            await member.credentials.reread(changed)
        return True

    def _receiver(self, server: str, owner: str) -> Receiver | None:
        member = self._members.get(server)
        return member.credentials.receiver(owner) if member is not None else None

    def _retire(self, member: Member) -> None:
        self._retiring.add(member)
        self._tasks.start(self._retired(member), f"retire {member.name}")

    async def _retired(self, member: Member) -> None:
        try:
            await member.retire()
        finally:
            self._retiring.discard(member)

    def _member(self, server: str) -> Member:
        member = self._members.get(server)
        if member is None:
            raise DownstreamError(Reason.UNAVAILABLE, f'server "{server}" is not configured any more')
        return member

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on to its server; whatever happens, the outcome says so."""
        try:
            member = self._member(call.target.server)
            send = member.own.signed_in if member.own.answers(call) else partial(member.call, exchange=exchange)
            return await signin.call(member.credentials, call, send)
        except DownstreamError as error:
            return Failure.of(error)

    def home(self, call: Call) -> str:
        """Return the replica at which a call waits or its task runs; "" where any will do."""
        return issuer_of(call.request_state) or (call.task.replica if call.task is not None else "")

    async def homeless(self, call: Call, exchange: Exchange) -> Outcome:
        """Answer for a replica that is gone: a call that waited there is lost, a task may be known to its server."""
        if is_ticket(call.request_state) or call.task is None:
            return unknown(call, exchange)
        elsewhere = replace(call.task, instance=f"{call.task.replica} {call.task.instance}")
        return await self.call(replace(call, task=elsewhere), exchange)

    def waits(self, ticket: str | None) -> bool:
        """Tell whether a call is parked here under this ticket."""
        return self._parking.waits(ticket)

    def abandon(self, ticket: str) -> Call | None:
        """Give up the call that is parked here under this ticket, and return it."""
        return self._parking.abandon(ticket)

    async def page(self, server: str, kind: Kind, cursor: str | None = None) -> Page:
        """Fetch one page of a server's list over its catalog connection.

        Raises:
            DownstreamError: there is no usable answer.
        """
        return await self._member(server).page(kind, cursor)

    def borrowed(self, server: str, principal: Principal) -> AbstractAsyncContextManager[Connection]:
        """Lend the connection that a principal's calls use, to read its lists over it.

        Raises:
            DownstreamError: no such server; entering it raises that where there is no connection now.
        """
        return self._member(server).own.borrowed(principal)

    def hello(self, server: str) -> Hello | None:
        """Return what a server said of itself, None while it is not connected."""
        member = self._members.get(server)
        return member.hello() if member is not None else None

    def key_digest(self, server: str) -> str:
        """Return the digest of a server's TLS key as last seen, "" without TLS or connection."""
        member = self._members.get(server)
        return member.key_digest() if member is not None else ""

    def retry(self, server: str) -> None:
        """Connect to a server now, whenever it would have been tried again."""
        member = self._members.get(server)
        if member is not None:
            member.keeping.retry()
            member.own.retry()

    def sever(self, server: str, reason: str) -> None:
        """Leave a server: its connections end, and are opened again as after any end."""
        member = self._members.get(server)
        if member is not None:
            member.sever(reason)

    def status(self) -> Mapping[str, ServerStatus]:
        """Return what is shown of each server."""
        return {name: member.status() for name, member in self._members.items()}

    async def end_session(self, session: str) -> None:
        """End the connections that belong to a legacy client session."""
        for member in self._members.values():
            member.end_session(session)

    def subscribe(self, server: str, uri: str) -> None:
        """Hear of a resource's updates through ``on_resource_updated``; each call needs its ``unsubscribe``.

        Raises:
            DownstreamError: too many resources, or no such server.
        """
        self._member(server).telling.subscribe(uri)

    def unsubscribe(self, server: str, uri: str) -> None:
        """Undo one ``subscribe``, also of a server that is not configured at the moment."""
        member = self._members.get(server)
        if member is not None:
            member.telling.unsubscribe(uri)
        elif server in self._wishes:
            self._wishes[server].resources.remove(uri)

    def watch_task(self, server: str, task: str) -> None:
        """Hear of a task's changes, where the server can tell of them; each call needs its ``unwatch_task``.

        Raises:
            DownstreamError: too many tasks, or no such server.
        """
        self._member(server).telling.watch(task)

    def unwatch_task(self, server: str, task: str) -> None:
        """Undo one ``watch_task``, also of a server that is not configured at the moment."""
        member = self._members.get(server)
        if member is not None:
            member.telling.unwatch(task)
        elif server in self._wishes:
            self._wishes[server].tasks.remove(task)

    def task_news(self, listener: Callable[[TaskNews], None]) -> Callable[[], None]:
        """Call ``listener`` when a task has changed, of whoever it is, until the result is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _tasked(self, news: TaskNews) -> None:
        for listener in tuple(self._listeners):
            listener(news)

    async def subscribed(self, servers: Iterable[str]) -> None:
        """Wait until these servers have taken what was subscribed to, or have taken too long over it."""
        members = [self._members[name] for name in set(servers) if name in self._members]
        await asyncio.gather(*(member.telling.told() for member in members))

    async def aclose(self) -> None:
        """End all servers at once, in bounded time."""
        members = [*self._members.values(), *self._retiring]
        self._members = {}
        await self._tasks.aclose()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await asyncio.gather(*(member.aclose() for member in members))
        except TimeoutError:
            _log.error("pool_not_closed", servers=[member.name for member in members])
