"""A scripted source of lists, in place of a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.downstream.dialect import Hello, Page
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Value
from gateway.protocol.versions import Era

EVERYTHING: dict[str, Value] = {"tools": {}, "prompts": {}, "resources": {}}


class ScriptedSource:
    """Serves prepared pages per server and kind; ``asked`` keeps every (server, kind, cursor)."""

    def __init__(self, pages: Mapping[tuple[str, Kind], Sequence[Page]], capabilities: dict[str, Value] | None = None):
        self.pages = dict(pages)
        self.capabilities = EVERYTHING if capabilities is None else capabilities
        self.connected = True
        self.failing = False
        self.asked: list[tuple[str, Kind, str | None]] = []

    def hello(self, server: str) -> Hello | None:
        if not self.connected:
            return None
        return Hello(Era.MODERN, "2026-07-28", {"name": server, "version": "1"}, self.capabilities, "hi")

    async def page(self, server: str, kind: Kind, cursor: str | None) -> Page:
        self.asked.append((server, kind, cursor))
        if self.failing:
            raise DownstreamError(Reason.UNAVAILABLE, "gone")
        pages = self.pages.get((server, kind), [Page([])])
        return pages[int(cursor) if cursor else 0]


def page(*items: Value, after: str | None = None, ttl_ms: int | None = None, public: bool = False) -> Page:
    """Return a page of the given items."""
    return Page([rawjson.raw(item) for item in items], after, ttl_ms, public)
