"""Where the operations of a document are called: at the address an operator wrote, or at one the document names. Pure.

Credentials go wherever calls go. So an address that a fetched document names counts only at the origin it was fetched
from, which an operator wrote. For any other one the operator writes ``url``; then no address in the document counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urljoin, urlsplit

from gateway.config.types import split_http_url
from gateway.downstream.openapi.document import DocumentError
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import printable

_VARIABLE: Final = re.compile(r"\{([^{}]{1,128})\}")
_LITERAL: Final = "/%:@!$&'()*+,;=~"
_IN_QUERY: Final = _LITERAL + "?[]"
_PORTS: Final = {"http": 80, "https": 443}
MAX_ADDRESS: Final = 2_048
METHOD_FIELD: Final = "_method"
"""A field by which many frameworks take a request for one of another method."""
_SHOWN: Final = 128
_SET_URL: Final = "set url to the address that is to be called"


@dataclass(frozen=True, slots=True)
class Terms:
    """What the config says. ``url`` is "" where it says none, ``document_url`` for a file.

    ``headers`` are the names, in lower case, of what is sent with every request whatever the arguments are.
    """

    url: str = ""
    document_url: str = ""
    headers: frozenset[str] = frozenset()

    @property
    def query(self) -> str:
        """The query of ``url``, which is sent with every request: it may hold a key."""
        return quote(urlsplit(self.url).query, safe=_IN_QUERY)

    @property
    def fixed(self) -> frozenset[str]:
        """The names, as they compare, of query parameters that no argument may set."""
        return names_in(self.query)


def names_in(query: str) -> frozenset[str]:
    """Return the names of a query's parameters, as they compare."""
    return frozenset(query_name(name) for name, _ in parse_qsl(query, keep_blank_values=True))


def query_name(name: str) -> str:
    """Return the name of a query parameter or a form's field as the most lenient frameworks read it.

    They do not tell ``key`` from ``KEY``, ``key[]``, ``key[0]`` and `` key``, nor ``a_b`` from ``a.b``, ``a b`` and
    ``a[b``.
    """
    text = name.partition("\0")[0].strip().casefold()
    if "]" in text:
        text = text.partition("[")[0]
    return re.sub(r"[ .\[]", "_", text)


@dataclass(frozen=True, slots=True)
class Base:
    """Where requests go: ``origin`` as scheme, host and port, ``prefix`` the path before every operation's own."""

    origin: str
    prefix: str = ""


def base_of(terms: Terms, *levels: Value) -> Base:
    """Return the base address for an operation; ``levels`` are ``servers`` lists, the nearest to it first.

    Raises:
        DocumentError: there is none that may be used; the text says what to configure.
    """
    if terms.url:
        return _split(terms.url)
    named = next((_first(level) for level in levels if isinstance(level, list) and level), None)
    written = _filled(named) if named is not None else "/"
    address = urljoin(terms.document_url, written) if terms.document_url else written
    try:
        parts = split_http_url(address)
    except ValueError:
        shown = printable(written, _SHOWN)
        raise DocumentError(f"names no http address to call ({shown}): {_SET_URL}") from None
    if parts.query or "@" in parts.netloc:
        raise DocumentError(f"names an address to call that holds a query or a user: {_SET_URL}")
    base = _split(address)
    if terms.document_url and base.origin != _split(terms.document_url).origin:
        raise DocumentError(f"names another origin than its own to call ({base.origin}): {_SET_URL}")
    return base


def _first(servers: list[Value]) -> Object:
    first = servers[0]
    return first if isinstance(first, dict) else {}


def _filled(server: Object) -> str:
    """Return a server's address with every variable at its default."""
    url, variables = server.get("url"), server.get("variables")

    def default(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, dict) else None
        value = variable.get("default") if isinstance(variable, dict) else None
        return str(value) if isinstance(value, (str, int, float)) else match[0]

    return _VARIABLE.sub(default, url[:MAX_ADDRESS]) if isinstance(url, str) else "/"


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address that was checked before, in one spelling."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port not in (None, _PORTS.get(scheme)) else ""
    return f"{scheme}://{host}{port}"


def _split(url: str) -> Base:
    prefix = _literal(urlsplit(url).path).rstrip("/")
    if any(is_dots(segment) for segment in prefix.split("/")):
        raise DocumentError(f"names an address to call that leads upwards: {_SET_URL}")
    return Base(origin_of(url), prefix)


def _literal(text: str) -> str:
    """Encode what cannot stand in a path; what is encoded stays as it is."""
    return quote(text, safe=_LITERAL, errors="replace")


def is_dots(segment: str) -> bool:
    """Tell whether a segment of a path, in any spelling, stands for the folder itself or the one above."""
    return unquote(segment) in (".", "..")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation is called: its path, with its ``{names}`` still in it, and a query that always goes along."""

    template: str
    query: str = ""


def place_of(path: str) -> Place:
    """Read the key of an operation's path. A fragment only tells operations of one path apart, and is never sent.

    Raises:
        DocumentError: it is none that can be called.
    """
    sent, _, _ = path.partition("#")
    plain, _, query = sent.partition("?")
    if not plain.startswith("/") or "\\" in plain:
        raise DocumentError("has a path that is none: it needs to begin with /")
    if "{" in query:
        raise DocumentError("has names in the query of its path, where only values can stand")
    pieces = re.split(r"(\{[^{}/]{1,128}\})", plain)
    made = "".join(each if number % 2 else _literal(each) for number, each in enumerate(pieces))
    if any(is_dots(segment) for segment in made.split("/")):
        raise DocumentError("has a path that leads upwards")
    return Place(made, quote(query, safe=_IN_QUERY, errors="replace"))
