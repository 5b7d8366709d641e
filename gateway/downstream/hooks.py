"""What the pool tells the rest of the gateway, and what all its members share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.downstream.connection import MakeTransport
from gateway.downstream.eras import Eras
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.parking import Parking
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange


def _no_change(server: str, kinds: frozenset[Kind]) -> None:
    """Take a change nobody listens to."""


def _nothing(server: str, text: str) -> None:
    """Take an event nobody listens to."""


def _no_call(call: Call, exchange: Exchange) -> None:
    """Take the end of a call nobody waits for."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the pool tells its owner; none may block.

    ``on_change``: a catalog connection came up, or said that lists changed. ``on_down``: it ended, and why.
    ``on_resource_updated``: a subscribed resource changed. ``on_circuit``: calls are refused after too many failures
    (``open``), or let through again (``closed``). ``on_lapsed``: a parked call was cancelled, as nobody came back.
    """

    on_change: Callable[[str, frozenset[Kind]], None] = _no_change
    on_down: Callable[[str, str], None] = _nothing
    on_resource_updated: Callable[[str, str], None] = _nothing
    on_circuit: Callable[[str, str], None] = _nothing
    on_lapsed: Callable[[Call, Exchange], None] = _no_call


@dataclass(frozen=True, slots=True)
class Environment:
    """What all members share."""

    make: MakeTransport
    eras: Eras
    hooks: Hooks = field(default_factory=Hooks)
    meters: Meters = field(default_factory=NoMeters)
    parking: Parking = field(default_factory=Parking)
