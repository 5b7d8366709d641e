"""Which server a resource URI leads to (contract: Resources): listed, else template, else the only one of a scheme."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.model.call import Target
from gateway.model.catalog import Catalog, Definition, Kind
from gateway.model.naming import slug
from gateway.protocol import apps

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MAX_URI = 8192
_OPTIONAL_OPERATORS = frozenset("/.;?&#")


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a URI leads. ``target`` is None where it leads nowhere; ``ambiguous`` names visible servers then."""

    target: Target | None
    definition: Definition | None = None
    ambiguous: tuple[str, ...] = ()


NOWHERE = Resolved(None)


def resolve(catalog: Catalog, servers: Iterable[str], uri: str, visible: Callable[[Target], bool]) -> Resolved:
    """Find the one visible server that serves ``uri``; one that is ``qualified`` is always accepted.

    ``visible`` judges a resource target, as for a read of that URI.
    """
    if len(uri) > _MAX_URI:
        return NOWHERE
    names = list(servers)
    for server in names:
        own = uri.removeprefix(f"{server}+")
        if own != uri and _SCHEME.match(own):
            target = Target(Kind.RESOURCE, server, own)
            return Resolved(target, _listed(catalog, server, own)) if visible(target) else NOWHERE
        shown = apps.unqualified(slug(server), uri)
        if shown is not None:
            # Before what others list under just this name: nobody takes another server's views.
            target = Target(Kind.RESOURCE, server, shown)
            return Resolved(target, _listed(catalog, server, shown)) if visible(target) else NOWHERE
    for candidates in (catalog.claims(uri), _by_template(catalog, uri), _by_scheme(catalog, uri)):
        found = [name for name in names if name in candidates and visible(Target(Kind.RESOURCE, name, uri))]
        if len(found) == 1:
            return Resolved(Target(Kind.RESOURCE, found[0], uri), _listed(catalog, found[0], uri))
        if found:
            return Resolved(None, ambiguous=tuple(found))
    return NOWHERE


def qualified(server: str, uri: str) -> str:
    """Return a URI with its server's name: in front, or for the views of MCP Apps, which keep their scheme, within."""
    return apps.qualified(slug(server), uri) if uri.startswith(apps.SCHEME) else f"{server}+{uri}"


def shown(catalog: Catalog, server: str, uri: str, visible: Callable[[Target], bool]) -> str:
    """Return how a server's resource is shown: bare, unless that would lead to another visible server or to several."""
    others = catalog.claims(uri) - {server}
    return qualified(server, uri) if any(visible(Target(Kind.RESOURCE, other, uri)) for other in others) else uri


def _listed(catalog: Catalog, server: str, uri: str) -> Definition | None:
    routes = catalog.by_uri.get((Kind.RESOURCE, uri), ())
    return next((route.definition for route in routes if route.server == server), None)


def _by_template(catalog: Catalog, uri: str) -> set[str]:
    templates = catalog.by_kind.get(Kind.TEMPLATE, ())
    return {route.server for route in templates if matches_template(route.name, uri)}


def _by_scheme(catalog: Catalog, uri: str) -> set[str]:
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return set()
    prefix = scheme[0].lower()
    routes = (*catalog.by_kind.get(Kind.RESOURCE, ()), *catalog.by_kind.get(Kind.TEMPLATE, ()))
    views = catalog.by_view.values() if apps.SCHEME.startswith(prefix) else ()
    found = {route.server for route in routes if route.name.lower().startswith(prefix)}
    return found | {route.server for tools in views for route in tools}


@dataclass(frozen=True, slots=True)
class _Gap:
    """A variable part of a template: may be empty, may hold slashes."""

    empty: bool
    slashes: bool


def matches_template(template: str, uri: str) -> bool:
    """Tell whether a URI can be an expansion of an RFC 6570 template, in time linear in template times URI.

    Simple expressions match within one path segment; ``+``, ``#`` and exploded ones over several; those with an
    operator that brings its own separator may be absent.
    """
    parts = _split(template)
    positions = {0}
    for part in parts:
        if isinstance(part, str):
            positions = {at + len(part) for at in positions if uri.startswith(part, at)}
        else:
            positions = _reach(uri, positions, part)
        if not positions:
            return False
    return len(uri) in positions


def _reach(uri: str, positions: set[int], gap: _Gap) -> set[int]:
    """Return every position a gap can end at, walking the URI once."""
    reached: set[int] = set()
    active = False
    for at in range(len(uri) + 1):
        if at in positions and gap.empty:
            reached.add(at)
        if active:
            reached.add(at)
        if at < len(uri):
            active = (active or at in positions) and (gap.slashes or uri[at] != "/")
    return reached


def _split(template: str) -> list[str | _Gap]:
    parts: list[str | _Gap] = []
    end = 0
    for match in _EXPRESSION.finditer(template):
        if match.start() > end:
            parts.append(template[end : match.start()])
        operator, variables = match[1], match[2]
        slashes = operator in ("+", "#", "/", "?", "&") or "*" in variables
        parts.append(_Gap(empty=operator in _OPTIONAL_OPERATORS, slashes=slashes))
        end = match.end()
    if end < len(template):
        parts.append(template[end:])
    return parts
