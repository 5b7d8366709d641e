"""The status of everything as one JSON object, for ``status`` and the admin listener. Pure; holds no secrets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.config.names import ANONYMOUS
from gateway.config.root import LoadedConfig
from gateway.downstream.health import ServerStatus
from gateway.model.catalog import Catalog, HeldBack, Kind, Route
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import printable

BYTES_PER_TOKEN: Final = 4
"""A rough measure: English JSON has about four bytes to a token."""
_MAX_HELD: Final = 100
_MAX_NAME: Final = 128


@dataclass(frozen=True, slots=True)
class PinReport:
    """How a server's pin stands, and what differs."""

    state: str
    changed: tuple[str, ...] = ()


def servers(
    loaded: LoadedConfig,
    statuses: Mapping[str, ServerStatus],
    catalog: Catalog,
    pin: Callable[[str], PinReport],
) -> Object:
    """Report every configured server, in config order, and those that are off."""
    report: Object = {}
    parts = _parts(catalog)
    for name in loaded.config.servers:
        status = statuses.get(name)
        report[name] = _server(status, parts[name], catalog, pin(name)) if status is not None else {"state": "starting"}
    for name, reason in loaded.off.items():
        report[name] = {"state": "off", "last_error": reason}
    return report


def with_own(servers: Object, counts: Mapping[str, tuple[int, int]]) -> Object:
    """Add to a report of how many principals the lists are known, and cannot be had, where each has its own."""
    for name, (known, failing) in counts.items():
        told: Object = {"known": known, "failing": failing}
        each = servers.get(name)
        servers = servers | {name: {**each, "own_lists": told} if isinstance(each, dict) else each}
    return servers


MAX_CLIENTS: Final = 50
MAX_JUDGED: Final = 20_000
"""Clients in a status, and decisions that may be spent on what they see; the status of more than that says nothing."""


def weight(routes: Iterable[Route]) -> Object:
    """Return how many tools these are and roughly how many tokens their list takes in a model's context."""
    sizes = [len(route.wire) for route in routes]
    return {"tools": len(sizes), "approx_tokens": sum(sizes) // BYTES_PER_TOKEN}


def by_server(routes: Iterable[Route]) -> Object:
    """Return the weight of each server's part, in catalog order."""
    parts: dict[str, list[Route]] = {}
    for route in routes:
        parts.setdefault(route.server, []).append(route)
    return {server: weight(part) for server, part in parts.items()}


def weighed(loaded: LoadedConfig, tools: int) -> list[str]:
    """Return the clients whose lists are weighed, anonymous callers among them; none where that would take long."""
    names = [*loaded.config.clients, *([ANONYMOUS] if loaded.anonymous else [])]
    return [] if len(names) > MAX_CLIENTS or len(names) * tools > MAX_JUDGED else names


@dataclass(slots=True)
class _Part:
    """What one server lists, and what of it is held back."""

    counts: Counter[Kind] = field(default_factory=Counter)
    tools: list[Route] = field(default_factory=list)
    held: list[Value] = field(default_factory=list)


def _parts(catalog: Catalog) -> defaultdict[str, _Part]:
    """Take the catalog apart in one pass: there may be many servers, with thousands of tools each."""
    parts: defaultdict[str, _Part] = defaultdict(_Part)
    for route in catalog.routes:
        part = parts[route.server]
        part.counts[route.kind] += 1
        if route.kind is Kind.TOOL:
            part.tools.append(route)
    for item in catalog.held_back:
        held = parts[item.server].held
        if len(held) < _MAX_HELD:
            held.append(_held(item))
    return parts


def _server(status: ServerStatus, part: _Part, catalog: Catalog, pin: PinReport) -> Object:
    counts = part.counts
    return {
        "kind": status.kind,
        "state": status.state.value,
        "since": status.since,
        "era": status.era or None,
        "version": status.version or None,
        "product": status.product or None,
        "connections": status.connections,
        "in_flight": status.in_flight,
        "last_round_trip": status.last_round_trip,
        "last_error": status.last_error or None,
        "next_retry_s": None if status.next_retry is None else round(status.next_retry),
        "restarts": status.restarts,
        "consent_url": status.consent_url or None,
        "pin": pin.state,
        "pin_changed": [printable(text, _MAX_NAME) for text in pin.changed[:_MAX_HELD]],
        "listed": status.server in catalog.listings,
        "prompts": counts[Kind.PROMPT],
        "resources": counts[Kind.RESOURCE] + counts[Kind.TEMPLATE],
        **weight(part.tools),
        "held_back": part.held,
    }


def _held(item: HeldBack) -> Value:
    return {"kind": item.kind.value, "name": printable(item.name, _MAX_NAME), "reason": printable(item.reason, 512)}
