"""Capabilities: what a client may be asked for, and what the gateway offers (basic/versioning, lifecycle)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.protocol.methods import ELICIT, ROOTS, SAMPLE
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era

ASKS: Final = {"elicitation": ELICIT, "sampling": SAMPLE, "roots": ROOTS}
"""Client capability of each request that a server may send to a client."""

_CAPABILITY_OF = {method: capability for capability, method in ASKS.items()}


def intersect(declared: Object, asks: Iterable[str]) -> Object:
    """Return what may be declared to a server: what the client declared, within what ``asks`` permits.

    A capability that is no object counts as not declared.
    """
    return {name: declared[name] for name in asks if isinstance(declared.get(name), dict)}


def capability_of(method: str) -> str | None:
    """Return the client capability that a server's request needs, None for methods that are no ask."""
    return _CAPABILITY_OF.get(method)


def offered(era: Era) -> Object:
    """Return the capabilities the endpoint offers, the same for every client (contract: Capabilities)."""
    features: Object = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "completions": {},
    }
    return features | {"logging": {}} if era is Era.LEGACY else features
