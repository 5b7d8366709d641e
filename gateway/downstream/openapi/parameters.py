"""The parameters of an operation: which there are, what a tool calls them, and how each is written. Pure.

Left out are those that an argument must never decide: what the gateway itself says about a request, what would make it
another method or another host, and what the config sends with every request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.downstream.openapi.addresses import Terms, names_in, place_of, query_name
from gateway.downstream.openapi.document import Document, DocumentError, Found
from gateway.downstream.openapi.output import is_json, media_of
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import printable

MAX_PARAMETERS: Final = 200
MAX_NAME: Final = 256
"""Characters of a parameter's name; one with a longer name is left out."""

_STYLES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The ways to write a parameter of each place; the first is what counts where nothing is said."""

_OURS: Final = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type"}
    | {"cookie", "expect", "host", "keep-alive", "proxy", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "user-agent", "via", "traceparent", "tracestate", "baggage"}
    | {"forwarded", "forwarded-for", "x-forwarded", "x-host", "x-original-host", "x-original-url", "x-rewrite-url"}
    | {"cf-connecting-ip", "client-ip", "fastly-client-ip", "true-client-ip", "x-client-ip", "x-cluster-client-ip"}
    | {"x-original-forwarded-for", "x-real-ip", "x-remote-user", "remote-user"}
    | {"x-http-method", "x-http-method-override", "x-method-override"}
)
"""Header fields that no argument may set: what a request is, and what proxies say about who sent it.

OpenAPI itself ignores Accept, Content-Type and Authorization.
"""
_OUR_PREFIX: Final = "x-forwarded-"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMES_IN_PATH: Final = re.compile(r"\{([^{}/]{1,128})\}")
_ORDER: Final = ("path", "query", "header", "cookie")


@dataclass(frozen=True, slots=True)
class _Ours:
    """What is sent whatever the arguments are: names of header fields and of query parameters, as they compare."""

    fields: frozenset[str]
    query: frozenset[str]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. ``argument`` is what the tool calls it; a value with a ``media`` type is written as that says."""

    argument: str
    name: str
    place: str
    style: str
    explode: bool
    required: bool
    schema: Value
    description: str = ""
    deprecated: bool = False
    reserved: bool = False
    media: str = ""

    @property
    def plan(self) -> list[Value]:
        """Everything about it that is not in the tool's schema."""
        return [self.argument, self.name, self.place, self.style, self.explode, self.reserved, self.media]


def field_name(name: str) -> str:
    """Return the name of a header field as servers compare it: many (WSGI, CGI) do not tell ``_`` from ``-``."""
    return name.lower().replace("_", "-")


def is_argument(name: str) -> bool:
    """Tell whether every model API takes a name for a tool's argument."""
    return _NAME.fullmatch(name) is not None


def parameters_of(document: Document, found: Found, terms: Terms) -> tuple[Parameter, ...]:
    """Read the parameters of an operation, path before query, header and cookie.

    Raises:
        DocumentError: one cannot be read or written, or there are too many.
    """
    nodes: dict[tuple[str, str], Object] = {}
    for level in (found.item, found.node):
        written = level.get("parameters")
        for entry in written[: MAX_PARAMETERS + 1] if isinstance(written, list) else []:
            node = document.resolved(entry)
            name, place = node.get("name"), node.get("in")
            if isinstance(name, str) and isinstance(place, str) and len(name) <= MAX_NAME:
                nodes[place, name.lower() if place == "header" else name] = node
    if len(nodes) > MAX_PARAMETERS:
        raise DocumentError(f"has more than {MAX_PARAMETERS} parameters")
    called = place_of(found.path)
    ours = _Ours(frozenset(field_name(name) for name in terms.headers), terms.fixed | names_in(called.query))
    in_path = dict.fromkeys(_NAMES_IN_PATH.findall(called.template))
    for name in in_path:
        nodes.setdefault(("path", name), {"name": name, "in": "path", "required": True, "schema": {"type": "string"}})
    taken: dict[str, str] = {}
    chosen = [(place, node) for (place, _), node in nodes.items() if _counts(place, node, in_path, ours)]
    ordered = sorted(chosen, key=lambda each: _ORDER.index(each[0]))
    return tuple(_read(document, place, node, taken) for place, node in ordered)


def _counts(place: str, node: Object, in_path: Mapping[str, object], ours: _Ours) -> bool:
    """Tell whether a parameter is an argument of the tool."""
    name = str(node["name"])
    match place:
        case "path":
            return name in in_path
        case "query":
            return query_name(name) not in ours.query
        case "header":
            field = field_name(name)
            may = field not in _OURS | ours.fields and not field.startswith(_OUR_PREFIX)
            return may and _TOKEN.fullmatch(name) is not None
        case "cookie":
            return "cookie" not in ours.fields and _TOKEN.fullmatch(name) is not None
        case _:
            shown = printable(place, 32)
            raise DocumentError(f"has a parameter in {shown}, which is not supported")


def _read(document: Document, place: str, node: Object, taken: dict[str, str]) -> Parameter:
    name, description = str(node["name"]), node.get("description")
    style, explode = node.get("style"), node.get("explode")
    known = style if isinstance(style, str) and style in _STYLES[place] else _STYLES[place][0]
    media, schema = _content(document, node)
    return Parameter(
        argument=_argument(name, place, taken),
        name=name,
        place=place,
        style=known,
        explode=explode if isinstance(explode, bool) else known == "form",
        required=place == "path" or node.get("required") is True,
        schema=schema,
        description=description if isinstance(description, str) else "",
        deprecated=node.get("deprecated") is True,
        reserved=node.get("allowReserved") is True and place == "query",
        media=media,
    )


def _content(document: Document, node: Object) -> tuple[str, Value]:
    """Return media type and schema of a parameter; most have no media type."""
    content = node.get("content")
    if not isinstance(content, dict) or not content:
        return "", node.get("schema", {"type": "string"})
    media, entry = next(iter(content.items()))
    schema = document.resolved(entry).get("schema")
    text = media_of(media)
    return text, schema if is_json(text) and schema is not None else {"type": "string"}


def _argument(name: str, place: str, taken: dict[str, str]) -> str:
    """Return what the tool calls a parameter: its name, where two have the same one with the place behind it."""
    plain = name if is_argument(name) else re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:48] or place
    for candidate in _candidates(plain, place):
        if candidate not in taken:
            taken[candidate] = place
            return candidate
    raise AssertionError("there is always another one")


def _candidates(plain: str, place: str) -> Iterator[str]:
    yield plain
    yield f"{plain}_{place}"
    for number in range(2, MAX_PARAMETERS + 3):
        yield f"{plain}_{place}_{number}"
