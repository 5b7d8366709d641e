"""MCP Apps on the wire: where a tool's definition or result names a ``ui://`` resource. Pure.

The extension ``io.modelcontextprotocol/ui``, 2026-01-26 §Resource Discovery, with the flat key of its drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Members, Object, Raw

SCHEME: Final = "ui://"

_NESTED: Final = "ui"
_URI: Final = "resourceUri"
_FLAT: Final = "ui/resourceUri"

Shown = Callable[[str], str]
"""Takes a server's own URI and returns the one to show."""


def references(definition: Object) -> Iterator[str]:
    """Yield the ``ui://`` URIs a tool's definition names, each once."""
    meta = definition.get("_meta")
    if not isinstance(meta, dict):
        return
    nested = meta.get(_NESTED)
    found = (nested.get(_URI) if isinstance(nested, dict) else None, meta.get(_FLAT))
    yield from dict.fromkeys(uri for uri in found if isinstance(uri, str) and uri.startswith(SCHEME))


def rewritten(members: Members, shown: Shown) -> Members:
    """Return a definition or result with other URIs where it names ``ui://`` resources; the same object if none is."""
    own = members.get("_meta")
    if own is None or b"resourceUri" not in rawjson.raw_bytes(own):
        return members
    try:
        meta = rawjson.decode_members(own)
        changed = _replaced(meta, _FLAT, shown)
        if _NESTED in meta:
            inner = rawjson.decode_members(meta[_NESTED])
            after = _replaced(inner, _URI, shown)
            changed = changed if after is inner else changed | {_NESTED: rawjson.raw(after)}
    except JsonError:
        return members
    return members if changed is meta else members | {"_meta": rawjson.raw(changed)}


def _replaced(members: Members, key: str, shown: Shown) -> Members:
    item: Raw | None = members.get(key)
    uri = rawjson.peek(item)
    if not isinstance(uri, str) or not uri.startswith(SCHEME):
        return members
    after = shown(uri)
    return members if after == uri else members | {key: rawjson.raw(after)}


def qualified(slug: str, uri: str) -> str:
    """Return a ``ui://`` URI that says whose it is and still is one: hosts accept no other scheme for a view."""
    return f"{SCHEME}{slug}+{uri.removeprefix(SCHEME)}"


def unqualified(slug: str, uri: str) -> str | None:
    """Return a server's own URI from its qualified form; None for any other."""
    prefix = f"{SCHEME}{slug}+"
    return SCHEME + uri.removeprefix(prefix) if uri.startswith(prefix) else None
