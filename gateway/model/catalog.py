"""What the servers offer, frozen: definitions, the names they are exposed under, and where a name leads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.protocol import apps, methods, rawjson
from gateway.protocol.rawjson import Members, Object


class Kind(StrEnum):
    """The four kinds of things a server lists; the values are the selector prefixes of policies."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"
    TEMPLATE = "template"


LIST_METHOD: Final = {
    Kind.TOOL: methods.TOOLS_LIST,
    Kind.PROMPT: methods.PROMPTS_LIST,
    Kind.RESOURCE: methods.RESOURCES_LIST,
    Kind.TEMPLATE: methods.TEMPLATES_LIST,
}
LIST_KEY: Final = {
    Kind.TOOL: "tools",
    Kind.PROMPT: "prompts",
    Kind.RESOURCE: "resources",
    Kind.TEMPLATE: "resourceTemplates",
}
CAPABILITY_OF: Final = {
    Kind.TOOL: "tools",
    Kind.PROMPT: "prompts",
    Kind.RESOURCE: "resources",
    Kind.TEMPLATE: "resources",
}
"""Which of a server's capabilities says that it has such a list."""
NAME_KEY: Final = {Kind.TOOL: "name", Kind.PROMPT: "name", Kind.RESOURCE: "uri", Kind.TEMPLATE: "uriTemplate"}
KIND_OF_METHOD: Final = {method: kind for kind, method in LIST_METHOD.items()}

_DIGEST_TAG = b"mcp-gateway-definition-v1\n"


@dataclass(frozen=True, slots=True)
class Definition:
    """One item as its server lists it.

    ``name`` is the server's own (a URI for resources, the template text for templates); ``members`` is the
    whole definition split one level, so that unknown fields survive; ``digest`` covers all of it.
    """

    kind: Kind
    name: str
    members: Members
    digest: str
    annotations: Object = field(default_factory=dict)
    views: tuple[str, ...] = ()
    """URIs of ``ui://`` resources that show a tool's results (MCP Apps §Resource Discovery)."""

    @classmethod
    def parse(cls, kind: Kind, item: bytes | rawjson.Raw) -> Definition:
        """Read a listed item, with exactly one reading: what the digest covers is what any client sees.

        Raises:
            JsonError: not an object, without its name, or not acceptable to ``decode_exact`` (a key that
                occurs twice could show one description to the digest and another to the client).
        """
        text = item if isinstance(item, bytes) else rawjson.raw_bytes(item)
        value = rawjson.decode_exact(text)
        if not isinstance(value, dict):
            raise rawjson.JsonError("not_an_object")
        name, hints = value.get(NAME_KEY[kind]), value.get("annotations")
        if not isinstance(name, str):
            raise rawjson.JsonError(f"no_{NAME_KEY[kind]}")
        digest = hashlib.sha256(_DIGEST_TAG + rawjson.canonical_decoded(value)).hexdigest()
        members = rawjson.decode_members(text)
        views = tuple(apps.references(value)) if kind is Kind.TOOL else ()
        return cls(kind, name, members, digest, hints if isinstance(hints, dict) else {}, views)

    def encoded(self, name: str) -> bytes:
        """Write the definition under another name; every other member keeps its bytes and its place."""
        return rawjson.encode(self.members | {NAME_KEY[self.kind]: rawjson.raw(name)})


@dataclass(frozen=True, slots=True)
class Route:
    """Where an exposed name leads: the server's configured name and its own definition.

    ``wire`` is the definition as clients see it, encoded once when the catalog is built.
    """

    server: str
    exposed: str
    definition: Definition
    wire: bytes

    @property
    def kind(self) -> Kind:
        return self.definition.kind

    @property
    def name(self) -> str:
        """The server's own name for it."""
        return self.definition.name


@dataclass(frozen=True, slots=True)
class HeldBack:
    """An item that is not exposed, and why; for the operator alone."""

    server: str
    kind: Kind
    name: str
    exposed: str
    reason: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something about a definition that an operator should look at; ``rule`` says what."""

    server: str
    kind: Kind
    name: str
    rule: str
    digest: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The last complete lists of one server.

    ``ttl_ms`` is the server's own hint (None where it gave none); ``public`` only if it said so for all of them.
    """

    server: str
    definitions: tuple[Definition, ...] = ()
    ttl_ms: int | None = None
    public: bool = False
    server_info: Object = field(default_factory=dict)
    capabilities: Object = field(default_factory=dict)
    instructions: str = ""
    era: str = ""
    version: str = ""
    rejected: tuple[HeldBack, ...] = ()

    def of(self, kind: Kind) -> tuple[Definition, ...]:
        """Return the definitions of one kind in the server's order."""
        return tuple(item for item in self.definitions if item.kind is kind)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The aggregate of all listings: routes in config order, then each server's own."""

    routes: tuple[Route, ...] = ()
    held_back: tuple[HeldBack, ...] = ()
    listings: Mapping[str, Listing] = field(default_factory=dict)
    by_name: Mapping[tuple[Kind, str], Route] = field(default_factory=dict)
    by_kind: Mapping[Kind, tuple[Route, ...]] = field(default_factory=dict)
    by_uri: Mapping[tuple[Kind, str], tuple[Route, ...]] = field(default_factory=dict)
    by_view: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    """Tools by the ``ui://`` URIs in their definitions: a server need not list those resources."""
    suspicions: tuple[Suspicion, ...] = ()
    guidance: Mapping[str, str] = field(default_factory=dict)
    """What servers say to models about themselves, as clients may be told it."""

    @classmethod
    def of(cls, routes: Iterable[Route], held_back: Iterable[HeldBack], listings: Mapping[str, Listing]) -> Catalog:
        """Index routes: tools and prompts by exposed name, resources and templates by own URI."""
        ordered = tuple(routes)
        by_kind = {kind: tuple(route for route in ordered if route.kind is kind) for kind in Kind}
        named: dict[tuple[Kind, str], Route] = {
            (r.kind, r.exposed): r for r in ordered if r.kind in (Kind.TOOL, Kind.PROMPT)
        }
        by_uri: dict[tuple[Kind, str], tuple[Route, ...]] = {}
        for route in (*by_kind[Kind.RESOURCE], *by_kind[Kind.TEMPLATE]):
            key = (route.kind, route.name)
            by_uri[key] = (*by_uri.get(key, ()), route)
        by_view: dict[str, tuple[Route, ...]] = {}
        for route in by_kind[Kind.TOOL]:
            for uri in route.definition.views:
                by_view[uri] = (*by_view.get(uri, ()), route)
        return cls(
            ordered,
            tuple(held_back),
            MappingProxyType(dict(listings)),
            MappingProxyType(named),
            MappingProxyType(by_kind),
            MappingProxyType(by_uri),
            MappingProxyType(by_view),
        )

    def claims(self, uri: str) -> frozenset[str]:
        """Return the servers that say a resource is theirs: they list it, or a tool of theirs is shown with it."""
        routes = (*self.by_uri.get((Kind.RESOURCE, uri), ()), *self.by_view.get(uri, ()))
        return frozenset(route.server for route in routes)
