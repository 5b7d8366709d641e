"""Names what the servers listed: from listings to the one catalog, purely (contract: Names)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from gateway.catalog import hygiene
from gateway.config.root import Naming
from gateway.config.servers import Server
from gateway.model.catalog import Catalog, Definition, HeldBack, Kind, Listing, Route
from gateway.model.naming import exposed_name, slug
from gateway.policy import schemas
from gateway.policy.schemas import Unusable
from gateway.protocol import headers, rawjson
from gateway.protocol.rawjson import JsonError

Part: TypeAlias = tuple[Route | HeldBack, ...]
"""What one server contributes to a catalog, named and judged by itself; other servers' names may still collide."""

Hold: TypeAlias = Callable[[str, Definition], str | None]
"""Says why a server's definition must not be exposed, None where it may: what pins and text rules have to say."""


def nothing_held(server: str, definition: Definition) -> str | None:
    """Hold nothing back."""
    return None


def build(
    naming: Naming, servers: Mapping[str, Server], listings: Mapping[str, Listing], hold: Hold = nothing_held
) -> Catalog:
    """Aggregate the listings of the configured servers: config order first, then each server's own order.

    Tools and prompts whose exposed names are equal after NFKC and casefold are all held back and reported;
    adding a server never moves a name to it.
    """
    return whole(parted(naming, servers, listings, hold), listings)


def parted(
    naming: Naming, servers: Mapping[str, Server], listings: Mapping[str, Listing], hold: Hold = nothing_held
) -> dict[str, Part]:
    """Return what each server contributes that has listed anything, in config order."""
    return {name: part(naming, server, listings[name], hold) for name, server in servers.items() if name in listings}


def whole(parts: Mapping[str, Part], listings: Mapping[str, Listing]) -> Catalog:
    """Make a catalog of parts, with what an operator should look at in it."""
    mine = {name: listings[name] for name in parts}
    catalog = assembled(parts, mine)
    return replace(catalog, suspicions=tuple(hygiene.suspicions(mine.values(), catalog.routes)))


def part(naming: Naming, server: Server, listing: Listing, hold: Hold = nothing_held) -> Part:
    """Name what one server lists, in its own order."""
    return (*listing.rejected, *_named(naming, server, listing, hold))


def assembled(parts: Mapping[str, Part], listings: Mapping[str, Listing]) -> Catalog:
    """Make a catalog of parts in this order; names that are equal across them are held back."""
    routes, held = _without_collisions(item for each in parts.values() for item in each)
    return Catalog.of(routes, held, listings)


def _named(naming: Naming, server: Server, listing: Listing, hold: Hold) -> Iterable[Route | HeldBack]:
    name = listing.server
    namespace = slug(name) if server.namespace is None else server.namespace
    seen: set[tuple[Kind, str]] = set()
    for definition in listing.definitions:
        key = (definition.kind, definition.name)
        if definition.kind in (Kind.RESOURCE, Kind.TEMPLATE):
            exposed = definition.name
        else:
            shown = server.tools.rename.get(definition.name, definition.name)
            exposed = exposed_name(namespace, name, shown, separator=naming.separator, max_length=naming.max_length)
        reason = "listed twice by its server; the first one counts" if key in seen else _refused(server, definition)
        reason = reason or hold(name, definition) or _unclean(server, definition)
        seen.add(key)
        if reason is not None:
            yield HeldBack(name, definition.kind, definition.name, exposed, reason)
        else:
            yield Route(name, exposed, definition, hygiene.shown(definition, server.text).encoded(exposed))


def _refused(server: Server, definition: Definition) -> str | None:
    """Say why a definition is left out, if it is."""
    if definition.kind is not Kind.TOOL:
        return None
    choice = server.tools
    if not any(fnmatchcase(definition.name, glob) for glob in choice.include):
        return "not in tools.include"
    if any(fnmatchcase(definition.name, glob) for glob in choice.exclude):
        return "in tools.exclude"
    if server.validate_ == "enforce":
        judged = schemas.judged(definition)
        if isinstance(judged, Unusable):
            return f"{judged.text} (validate: off exposes it)"
    if server.kind != "http":
        return None
    try:
        schema = definition.members.get("inputSchema")
        headers.param_headers(rawjson.decode_value(schema) if schema is not None else None)
    except (headers.HeaderError, JsonError) as error:
        # streamable-http §Schema Extension: such a tool must be left out, and only it.
        return f"invalid x-mcp-header: {error}"
    return None


def _unclean(server: Server, definition: Definition) -> str | None:
    """Say why a definition is held back for what stands in it, if it is."""
    reason = hygiene.examined(definition).refused(server.text, strict=server.pin.mode == "strict")
    return None if reason is None else f"{reason} (text: {server.text})"


def _without_collisions(found: Iterable[Route | HeldBack]) -> tuple[list[Route], list[HeldBack]]:
    claims: dict[tuple[Kind, str], list[Route]] = {}
    ordered: list[Route] = []
    held: list[HeldBack] = []
    for item in found:
        match item:
            case HeldBack():
                held.append(item)
            case Route():
                ordered.append(item)
                if item.kind in (Kind.TOOL, Kind.PROMPT):
                    claims.setdefault((item.kind, _folded(item.exposed)), []).append(item)
    rivals = {id(route): group for group in claims.values() if len(group) > 1 for route in group}
    for route in ordered:
        if id(route) in rivals:
            others = ", ".join(sorted({f"{r.server}/{r.name}" for r in rivals[id(route)] if r is not route}))
            held.append(HeldBack(route.server, route.kind, route.name, route.exposed, f"same name as {others}"))
    return [route for route in ordered if id(route) not in rivals], held


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
