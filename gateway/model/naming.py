"""How servers and their items are named outside (contract: Names). Names are looked up in a table, never split."""

from __future__ import annotations

import hashlib
import re
from typing import Final

SERVER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_OTHER = re.compile(r"[^a-z0-9]+")
_HASH_LENGTH = 8


def slug(server: str) -> str:
    """Return the namespace a server name stands for: lower case, other characters to ``-``, none doubled or last.

    ``_`` is such an other character: with ``__`` between namespace and name, no name that a server gives its tools can
    then be taken for one of another server's.
    """
    return _OTHER.sub("-", server.lower()).rstrip("-")


def exposed_name(namespace: str, server: str, name: str, separator: str, max_length: int) -> str:
    """Return the name a client sees: ``[A-Za-z0-9_-]{1,max_length}``, stable over restarts.

    A name that is too long or holds other characters keeps its first characters, the rest is replaced by
    ``_`` and 8 hex digits of the SHA-256 of ``server/name``.
    """
    plain = f"{namespace}{separator}{name}" if namespace else name
    safe = _UNSAFE.sub("_", plain)
    if safe == plain and 0 < len(plain) <= max_length:
        return plain
    digest = hashlib.sha256(f"{server}/{name}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{safe[: max_length - _HASH_LENGTH - 1]}_{digest}"
