"""The status of everything as one JSON object, for ``status`` and the admin listener. Pure; holds no secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.config.root import LoadedConfig
from gateway.downstream.health import ServerStatus
from gateway.model.catalog import Catalog, HeldBack, Kind
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
    for name in loaded.config.servers:
        status = statuses.get(name)
        report[name] = _server(status, name, catalog, pin(name)) if status is not None else {"state": "starting"}
    for name, reason in loaded.off.items():
        report[name] = {"state": "off", "last_error": reason}
    return report


def _server(status: ServerStatus, name: str, catalog: Catalog, pin: PinReport) -> Object:
    counts = Counter(route.kind for route in catalog.routes if route.server == name)
    size = sum(len(route.wire) for route in catalog.by_kind.get(Kind.TOOL, ()) if route.server == name)
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
        "pin": pin.state,
        "pin_changed": [printable(text, _MAX_NAME) for text in pin.changed[:_MAX_HELD]],
        "listed": name in catalog.listings,
        "tools": counts[Kind.TOOL],
        "prompts": counts[Kind.PROMPT],
        "resources": counts[Kind.RESOURCE] + counts[Kind.TEMPLATE],
        "approx_tokens": size // BYTES_PER_TOKEN,
        "held_back": [_held(item) for item in catalog.held_back if item.server == name][:_MAX_HELD],
    }


def _held(item: HeldBack) -> Value:
    return {"kind": item.kind.value, "name": printable(item.name, _MAX_NAME), "reason": printable(item.reason, 512)}
