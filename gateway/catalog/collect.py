"""Reads every list of one server to its end, within bounds (2026-07-28 server/utilities/pagination)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.catalog import hygiene
from gateway.downstream.dialect import Hello, Page
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import CAPABILITY_OF, Definition, HeldBack, Kind, Listing
from gateway.policy import schemas
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Raw

MAX_ITEMS: Final = 10_000
MAX_PAGES: Final = 1_000
MAX_DEFINITION: Final = 256 * 1024
MAX_SHOWN_NAME: Final = 128
MAX_LEFT_OUT: Final = 1_000
"""Items of one page that are named although they could not become items."""
_AT_ONCE: Final = 50
"""Definitions read before others get their turn on the loop; some are large."""


class Source(Protocol):
    """Where lists come from: the pool."""

    async def page(self, server: str, kind: Kind, cursor: str | None) -> Page:
        """Ask the server's catalog connection for one page."""

    def hello(self, server: str) -> Hello | None:
        """Return what the server said of itself, None while it is not connected."""


@dataclass(frozen=True, slots=True)
class One:
    """One connection as a source of lists, whichever server is asked for."""

    fetch: Callable[[Kind, str | None], Awaitable[Page]]
    said: Hello

    async def page(self, server: str, kind: Kind, cursor: str | None) -> Page:
        """Ask it for one page."""
        return await self.fetch(kind, cursor)

    def hello(self, server: str) -> Hello | None:
        """Return its own words."""
        return self.said


@dataclass(slots=True)
class _Gathered:
    """The lists of one kind as they come in."""

    definitions: list[Definition] = field(default_factory=list)
    rejected: list[HeldBack] = field(default_factory=list)
    ttls: list[int] = field(default_factory=list)
    without_ttl: bool = False
    public: bool = True


async def collect(source: Source, server: str, last: Listing | None = None) -> Listing:
    """Return the complete lists of a server; all kinds are asked at once.

    What stands in its ``last`` lists word for word is taken from there: servers that often say that their lists have
    changed rarely change much of them.

    Raises:
        DownstreamError: a page could not be had, a cursor came twice, or a bound was passed: nothing is kept then.
    """
    hello = source.hello(server)
    if hello is None:
        raise DownstreamError(Reason.UNAVAILABLE, f'server "{server}" is not connected')
    kinds = [kind for kind in Kind if CAPABILITY_OF[kind] in hello.capabilities]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_one_kind(source, server, kind, _texts(last, kind))) for kind in kinds]
    except ExceptionGroup as failures:
        raise _first(failures) from None
    lists = [task.result() for task in tasks]
    await asyncio.to_thread(_judge, [item for one in lists for item in one.definitions])
    return Listing(
        server=server,
        definitions=tuple(item for one in lists for item in one.definitions),
        rejected=tuple(item for one in lists for item in one.rejected),
        ttl_ms=None
        if any(one.without_ttl for one in lists)
        else min((t for one in lists for t in one.ttls), default=None),
        public=bool(lists) and all(one.public for one in lists),
        server_info=hello.server_info,
        capabilities=hello.capabilities,
        instructions=hello.instructions,
        era=hello.era.value,
        version=hello.version,
    )


def _judge(definitions: Sequence[Definition]) -> None:
    """Look at definitions and compile the schemas of tools beside the loop: what comes of it is remembered."""
    for definition in definitions:
        hygiene.prepare(definition)
        if definition.kind is Kind.TOOL:
            schemas.judged(definition)


def _first(failures: ExceptionGroup[Exception]) -> BaseException:
    found: BaseException = failures
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _texts(last: Listing | None, kind: Kind) -> dict[bytes, Definition]:
    """Return known definitions by their text, as a server writes it that leaves no spaces between members."""
    return {} if last is None else {rawjson.encode(known.members): known for known in last.of(kind)}


async def _one_kind(source: Source, server: str, kind: Kind, known: Mapping[bytes, Definition]) -> _Gathered:
    gathered, cursor, seen = _Gathered(), None, set[str]()
    for _ in range(MAX_PAGES):
        page = await source.page(server, kind, cursor)
        for start in range(0, len(page.items), _AT_ONCE):
            _take(gathered, (server, kind), page.items[start : start + _AT_ONCE], known)
            await asyncio.sleep(0)
        gathered.rejected += [HeldBack(server, kind, name, "", reason) for name, reason in page.left_out[:MAX_LEFT_OUT]]
        _note_hints(gathered, page)
        if len(gathered.definitions) > MAX_ITEMS:
            raise DownstreamError(Reason.TOO_LARGE, f'server "{server}" lists over {MAX_ITEMS} {kind}s')
        cursor = page.next_cursor
        if cursor is None:
            return gathered
        if cursor in seen:
            raise DownstreamError(Reason.PROTOCOL_ERROR, f'server "{server}" repeats a cursor in its {kind} list')
        seen.add(cursor)
    raise DownstreamError(Reason.TOO_LARGE, f'server "{server}" has over {MAX_PAGES} pages of {kind}s')


def _take(
    gathered: _Gathered, source: tuple[str, Kind], items: Sequence[Raw], known: Mapping[bytes, Definition]
) -> None:
    server, kind = source
    for item in items:
        text = rawjson.raw_bytes(item)
        try:
            definition = known.get(text) or Definition.parse(kind, text)
        except JsonError as error:
            gathered.rejected.append(HeldBack(server, kind, "", "", f"not a usable definition: {error.reason}"))
            continue
        if len(text) > MAX_DEFINITION:
            name = definition.name[:MAX_SHOWN_NAME]
            gathered.rejected.append(HeldBack(server, kind, name, "", f"definition over {MAX_DEFINITION} bytes"))
            continue
        gathered.definitions.append(definition)


def _note_hints(gathered: _Gathered, page: Page) -> None:
    gathered.public = gathered.public and page.public
    if page.ttl_ms is None:
        gathered.without_ttl = True
    else:
        gathered.ttls.append(page.ttl_ms)
