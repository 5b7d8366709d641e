"""What a dialect is: it speaks one era to one server, and is modern towards the rest of the gateway.

A dialect knows MCP and one transport; it knows no pool, no policy and no client connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from gateway import __version__
from gateway.config.servers import Timeouts
from gateway.downstream.leg import Leg
from gateway.downstream.transport import Answer, Later, Reply, Request, Transport
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.catalog import LIST_KEY, Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.protocol import methods, results
from gateway.protocol.rawjson import JsonError, Members, Object, Raw, decode_items, decode_members, decode_value
from gateway.protocol.versions import Era

CLIENT_NAME: Final = "aiohttp-mcp-gateway"
CLIENT_INFO: Final[Mapping[str, str]] = MappingProxyType({"name": CLIENT_NAME, "version": __version__})
"""How we introduce ourselves to servers, whoever the client is."""

MAX_PAGE_ITEMS: Final = 10_000
"""Items of one page; a server that sends more is not listed."""

CHANGES: Final[Mapping[str, frozenset[Kind]]] = MappingProxyType(
    {
        methods.TOOLS_CHANGED: frozenset({Kind.TOOL}),
        methods.PROMPTS_CHANGED: frozenset({Kind.PROMPT}),
        methods.RESOURCES_CHANGED: frozenset({Kind.RESOURCE, Kind.TEMPLATE}),
    }
)
"""Which lists a notification says have changed."""

ALL_KINDS: Final = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class Hello:
    """What a server says of itself when it is met; none of it is proof of anything."""

    era: Era
    version: str
    server_info: Object = field(default_factory=dict)
    capabilities: Object = field(default_factory=dict)
    instructions: str = ""

    def has(self, capability: str) -> bool:
        """Tell whether the server declared a capability."""
        return isinstance(self.capabilities.get(capability), dict)

    def flag(self, capability: str, name: str) -> bool:
        """Tell whether a capability's flag, such as ``listChanged``, is declared true."""
        item = self.capabilities.get(capability)
        return isinstance(item, dict) and item.get(name) is True

    @property
    def completes(self) -> bool:
        """Tell whether completion may be asked for; the oldest version has it without declaring it."""
        return self.has("completions") or self.version == "2024-11-05"

    @property
    def product(self) -> str:
        """Name and version in one short string for audit records."""
        name, version = self.server_info.get("name"), self.server_info.get("version")
        return f"{name if isinstance(name, str) else ''}/{version if isinstance(version, str) else ''}"[:128]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: items as the server wrote them, the cursor of the next page (None: last), cache hints.

    ``left_out`` are the names of what could not become items, each with the reason; for operators alone.
    """

    items: list[Raw]
    next_cursor: str | None = None
    ttl_ms: int | None = None
    public: bool = False
    left_out: tuple[tuple[str, str], ...] = ()


def _no_change(kinds: frozenset[Kind]) -> None:
    """Take a change nobody listens to."""


def _no_update(uri: str) -> None:
    """Take an update nobody listens to."""


def _no_task(task: str, state: Members) -> None:
    """Take a task's change nobody listens to."""


def _no_violation(kind: str) -> None:
    """Take a violation nobody counts."""


@dataclass(frozen=True, slots=True)
class Events:
    """What a dialect hands up: none of these may block.

    ``changed`` names the lists that are stale, ``updated`` a resource's URI, ``tasked`` a task by the server's id and
    its state, ``elicited`` the id of a page that people are done with. ``violation`` takes one of few constants:
    ``bad_progress``, ``unattributed_log``, ``unexpected_notification``, ``unexpected_request``, or a transport's own.
    """

    changed: Callable[[frozenset[Kind]], None] = _no_change
    updated: Callable[[str], None] = _no_update
    violation: Callable[[str], None] = _no_violation
    tasked: Callable[[str, Members], None] = _no_task
    elicited: Callable[[str], None] = _no_update

    def missed(self, lists: frozenset[Kind], uris: Iterable[str]) -> None:
        """Take for changed what may have changed while nobody listened: no client sees that gap."""
        self.changed(lists)
        for uri in sorted(uris):
            self.updated(uri)


class VersionRefused(DownstreamError):
    """The server no longer speaks the era it was met in; the connection is of no further use."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a dialect speaks to and within which bounds. ``asks`` are the capabilities clients may be asked for."""

    name: str
    transport: Transport
    timeouts: Timeouts
    asks: tuple[str, ...] = ()
    events: Events = field(default_factory=Events)
    leg: Leg | None = None

    async def request(self, request: Request, version: str = "") -> Reply:
        """Send a request that is answered once; ``version`` is the protocol's, "" before there is one.

        Raises:
            DownstreamError: there is no answer.
        """
        if self.leg is None:
            return await self.transport.request(request)
        return await self.leg.request(self.transport.request, request, version)

    @property
    def is_http(self) -> bool:
        """Tell whether requests need headers beside their bodies."""
        return self.transport.kind == "http"

    def error(self, reason: Reason, what: str, *, may_have_run: bool = False) -> DownstreamError:
        """Make an error that names the server."""
        return DownstreamError(reason, f'server "{self.name}" {what}', may_have_run=may_have_run)


class Dialect(Protocol):
    """One live conversation with one server."""

    @property
    def hello(self) -> Hello:
        """The server's own words about itself."""

    def notification(self, method: str, params: Members) -> None:
        """Take a notification that belongs to no particular request, as far as the transport can tell."""

    def ask(self, method: str, params: Members) -> Answer | Later:
        """Answer a request of the server."""

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        """Pass a call on; a server's error answer is a ``Failure`` with ``error`` set.

        Raises:
            DownstreamError: there is no answer.
        """

    async def page(self, kind: Kind, cursor: str | None) -> Page:
        """Fetch one page of a list; empty where the server does not offer the kind.

        Raises:
            DownstreamError: there is no usable answer.
        """

    async def listen(self) -> None:
        """Hear of changes until cancelled; returns at once where they come by themselves or never."""

    async def subscribe(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        """Make these the resources and tasks whose changes are heard of; a legacy server tells of tasks by itself.

        Raises:
            DownstreamError: the server did not take it.
        """

    async def abandon(self) -> None:
        """Drop what runs, without a word: the other side is gone."""

    async def aclose(self) -> None:
        """Say goodbye where the era has a word for it; bounded in time. The transport stays the owner's."""


def read_hello(era: Era, version: str, server_info: Object, result: Members) -> Hello:
    """Read what discovery and handshake have in common."""
    capabilities = _object(result.get("capabilities"))
    instructions = decode_value(result["instructions"]) if "instructions" in result else ""
    return Hello(era, version, server_info, capabilities, instructions if isinstance(instructions, str) else "")


def read_page(kind: Kind, result: Members) -> Page:
    """Read a list result.

    Raises:
        JsonError: the list is missing or is no array, it is too long, or the cursor is no string.
    """
    key = LIST_KEY[kind]
    if key not in result:
        raise JsonError("no_list")
    items = decode_items(result[key])
    if len(items) > MAX_PAGE_ITEMS:
        raise JsonError("page_too_long")
    cursor = decode_value(result["nextCursor"]) if "nextCursor" in result else None
    if cursor is not None and not isinstance(cursor, str):
        raise JsonError("cursor_no_string")
    ttl, public = results.cache_hints(result)
    return Page(items, cursor, ttl, public)


def _object(item: Raw | None) -> Object:
    value = decode_value(item) if item is not None else None
    return value if isinstance(value, dict) else {}


def read_object(members: Members, key: str) -> Object:
    """Return a member that should be an object; empty where it is missing or something else."""
    try:
        return _object(members.get(key))
    except JsonError:
        return {}


def read_members(members: Members, key: str) -> Members:
    """Return a member that should be an object, split one level; empty where it is missing or something else."""
    try:
        return decode_members(members[key]) if key in members else {}
    except JsonError:
        return {}


def read_string(members: Members, key: str) -> str | None:
    """Return a member that should be a string; None where it is missing or something else."""
    try:
        value = decode_value(members[key]) if key in members else None
    except JsonError:
        return None
    return value if isinstance(value, str) else None


_REJECTED: Final = frozenset({401, 403})
REFUSED: Final = _REJECTED | {429}
"""HTTP statuses that are about the gateway and not about the request, whatever message comes with them."""


class Unserved(DownstreamError):
    """The server answered, but did not serve the request: sending it again would be no better."""


def unanswered(peer: Peer, reply: Reply) -> Unserved:
    """Say what an HTTP answer without a usable JSON-RPC message means; the text is safe to show."""
    status, seconds = reply.status, reply.headers.get("retry-after", "")
    if status in _REJECTED:
        return Unserved(Reason.UNAVAILABLE, f'server "{peer.name}" refused the gateway: credential rejected')
    if status in REFUSED:
        wait = int(seconds) * 1000 if seconds.isdecimal() and len(seconds) < 6 else None
        return Unserved(Reason.UNAVAILABLE, f'server "{peer.name}" is limiting the gateway', retry_after_ms=wait)
    if status >= 500:
        text = f'server "{peer.name}" answered with HTTP status {status}'
        return Unserved(Reason.UNAVAILABLE, text, may_have_run=True)
    text = f'server "{peer.name}" answered with HTTP status {status} and no message'
    return Unserved(Reason.PROTOCOL_ERROR, text, may_have_run=not 400 <= status < 500)
