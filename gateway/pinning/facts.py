"""What an operator wrote about who a server is, as facts that can be compared one by one. Pure.

Whatever may be a secret is a keyed digest, so that neither the pin file nor an audit record helps to guess it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from gateway.config.servers import Server
from gateway.protocol import rawjson

Facts: TypeAlias = Mapping[str, str]
"""Facts by ``aspect`` or ``aspect:subject``, such as ``origin`` and ``header:authorization``."""

CONFIGURED: Final = frozenset({"origin", "path", "address", "header", "argument", "sandbox", "cwd", "env"})
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
    """Return the facts of a server's config: address and headers, or arguments, directory and environment."""
    return dict(_address(server, key) if server.kind == "http" else _process(server, key))


def keyed(key: bytes, value: object) -> str:
    """Return the hex digest of a value under the gateway's own key."""
    return hmac.new(key, _KEYED + rawjson.canonical(value), hashlib.sha256).hexdigest()


def digest(value: object) -> str:
    """Return the hex digest of a value that is no secret."""
    return hashlib.sha256(_PLAIN + rawjson.canonical(value)).hexdigest()


def _address(server: Server, key: bytes) -> Iterator[tuple[str, str]]:
    parts = urlsplit(server.url.get_secret_value() if server.url is not None else "")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    yield "origin", f"{parts.scheme}://{host}:{parts.port or _PORTS.get(parts.scheme, 0)}"
    yield "path", parts.path or "/"
    yield "address", keyed(key, [parts.username, parts.password, parts.query])
    for name, value in server.headers.items():
        yield f"header:{name.casefold()}", keyed(key, value.get_secret_value())


def _process(server: Server, key: bytes) -> Iterator[tuple[str, str]]:
    yield "cwd", server.cwd
    for aspect, words in (("sandbox", server.sandbox), ("argument", server.args)):
        for number, word in enumerate(words, 1):
            yield f"{aspect}:{number}", keyed(key, word)
    for name, value in server.env.items():
        yield f"env:{name}", keyed(key, value.get_secret_value())
