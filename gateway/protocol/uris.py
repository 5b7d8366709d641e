"""Resource URIs as text: which of them lie within which. Knows no server and no scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAX_LEVELS: Final = 64
"""Levels of one URI that are looked at, from its end."""

_BORDERS: Final = "/?#"


def enclosing(uri: str) -> Iterator[str]:
    """Yield a URI and every one it lies within, the longest first, each with and without its last slash.

    A server may tell of a part of what was subscribed to (schema, ``ResourceUpdatedNotification``). An authority lies
    within nothing.
    """
    yield uri
    end, least = len(uri), uri.find("://") + 3 if "://" in uri else uri.find(":") + 1
    for _ in range(MAX_LEVELS):
        end = max(uri.rfind(border, least, end) for border in _BORDERS)
        if end < least:
            return
        if end + 1 < len(uri):
            yield uri[: end + 1]
        if end > least:
            yield uri[:end]
