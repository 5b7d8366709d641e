"""Definitions and listings for tests, written as a server would list them."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.catalog.build import build
from gateway.config.root import Naming
from gateway.config.servers import Server
from gateway.model.catalog import NAME_KEY, Catalog, Definition, Kind, Listing
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Value


def definition(kind: Kind, name: str, **members: Value) -> Definition:
    """Return a definition of ``kind`` with the given own name and any further members."""
    base: dict[str, Value] = {NAME_KEY[kind]: name}
    if kind is Kind.TOOL:
        base["inputSchema"] = {"type": "object"}
    return Definition.parse(kind, rawjson.encode(base | members))


def tool(name: str, **members: Value) -> Definition:
    """Return a tool."""
    return definition(Kind.TOOL, name, **members)


def listing(server: str, *definitions: Definition, **facts: object) -> Listing:
    """Return a complete listing of a server."""
    return Listing(server, definitions, **facts)  # type: ignore[arg-type]  # reason: facts are Listing's own fields.


def stdio(**settings: object) -> Server:
    """Return a stdio server's config."""
    return Server.model_validate({"command": "server"} | settings)


def http(**settings: object) -> Server:
    """Return an HTTP server's config."""
    return Server.model_validate({"url": "http://127.0.0.1:1/mcp"} | settings)


def catalog_of(lists: Mapping[str, list[Definition]], naming: Naming | None = None) -> Catalog:
    """Build the catalog of plain stdio servers from their definitions."""
    return build_catalog({server: listing(server, *items) for server, items in lists.items()}, naming)


def build_catalog(listings: Mapping[str, Listing], naming: Naming | None = None) -> Catalog:
    """Build the catalog of plain stdio servers from their listings."""
    return build(naming or Naming(), {server: stdio() for server in listings}, listings)
