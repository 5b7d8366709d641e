"""What an operator wrote about who a server is, as facts that can be compared one by one. Pure.

Whatever may be a secret is a keyed digest, so that neither the pin file nor an audit record helps to guess it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from gateway.config.servers import Server
from gateway.protocol import rawjson

Facts: TypeAlias = Mapping[str, str]
"""Facts by ``aspect`` or ``aspect:subject``, such as ``origin`` and ``header:authorization``."""

CONFIGURED: Final = frozenset(
    {"origin", "path", "address", "document", "document_address", "document_sha256"}
    | {"header", "argument", "sandbox", "cwd", "env"}
)
"""Aspects known from the config alone."""
STARTED: Final = frozenset({"executable", "executable_sha256", "file"})
"""Aspects read right before a process starts."""
TOLD: Final = frozenset({"tls_key", "server_info", "version", "capabilities"})
"""Aspects learned from whoever answers."""

_KEYED: Final = b"mcp-gateway-pin-fact-v1\n"
_PLAIN: Final = b"mcp-gateway-pin-v1\n"
_PORTS: Final = {"http": 80, "https": 443}


def aspect_of(fact: str) -> str:
    """Return what kind of fact it is."""
    return fact.partition(":")[0]


def subject_of(fact: str) -> str:
    """Return which one of its kind it is, "" where there is only one."""
    return fact.partition(":")[2]


def configured(server: Server, key: bytes) -> dict[str, str]:
    """Return the facts of a server's config: addresses and headers, or arguments, directory and environment."""
    if server.kind == "stdio":
        return dict(_process(server, key))
    return dict([*_address(server, key), *_document(server, key)])


def keyed(key: bytes, value: object) -> str:
    """Return the hex digest of a value under the gateway's own key."""
    return hmac.new(key, _KEYED + rawjson.canonical(value), hashlib.sha256).hexdigest()


def digest(value: object) -> str:
    """Return the hex digest of a value that is no secret."""
    return hashlib.sha256(_PLAIN + rawjson.canonical(value)).hexdigest()


def _address(server: Server, key: bytes) -> Iterator[tuple[str, str]]:
    if server.url is not None:
        parts = urlsplit(server.url.get_secret_value())
        yield "origin", _origin(parts)
        yield "path", parts.path or "/"
        yield "address", keyed(key, [parts.username, parts.password, parts.query])
    for name, value in server.headers.items():
        yield f"header:{name.casefold()}", keyed(key, value.get_secret_value())


def _document(server: Server, key: bytes) -> Iterator[tuple[str, str]]:
    """Yield where an OpenAPI document comes from; of a file what is in it, since that was there before the start."""
    if server.document_url:
        parts = urlsplit(server.document_url)
        yield "document", f"{_origin(parts)}{parts.path or '/'}"
        yield "document_address", keyed(key, [parts.username, parts.password, parts.query])
    elif server.document is not None:
        yield "document_sha256", server.document.digest


def _origin(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}:{parts.port or _PORTS.get(parts.scheme, 0)}"


def _process(server: Server, key: bytes) -> Iterator[tuple[str, str]]:
    yield "cwd", server.cwd
    for aspect, words in (("sandbox", server.sandbox), ("argument", server.args)):
        for number, word in enumerate(words, 1):
            yield f"{aspect}:{number}", keyed(key, word)
    for name, value in server.env.items():
        yield f"env:{name}", keyed(key, value.get_secret_value())
