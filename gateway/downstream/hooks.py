"""What the pool tells the rest of the gateway, and what all its members share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.downstream.eras import Eras
from gateway.downstream.inspection import Inspector
from gateway.downstream.meters import Meters, NoMeters
from gateway.downstream.oauth.credentials import Desk
from gateway.downstream.parking import Parking
from gateway.downstream.setup import MakeTransport
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.news import TaskNews
from gateway.model.outcome import Outcome
from gateway.telemetry.spans import OFF, Tracer


def _no_change(server: str, kinds: frozenset[Kind]) -> None:
    """Take a change nobody listens to."""


def _no_own_change(server: str, whose: str, kinds: frozenset[Kind]) -> None:
    """Take a change of one principal's lists nobody listens to."""


def _no_news(news: TaskNews) -> None:
    """Take a task's change nobody listens to."""


def _nothing(server: str, text: str) -> None:
    """Take an event nobody listens to."""


def _no_call(call: Call, exchange: Exchange, outcome: Outcome) -> None:
    """Take the end of a call nobody waits for."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the pool tells its owner; none may block.

    ``on_change``: a catalog connection came up, or said that lists changed. ``on_down``: it ended, and why.
    ``on_resource_updated``: a subscribed resource changed. ``on_circuit``: calls are refused after too many failures
    (``open``), or let through again (``closed``). ``on_ended``: a parked call ended while its client was away, so
    that no request of the client tells of it. ``on_elicited``: people are done with a page of this id. ``on_task``: a
    task has changed, on whichever connection; the pool hears it itself. ``on_own_change``: the connection of one
    principal, by id, said that its lists changed, or the principal has signed in.
    """

    on_change: Callable[[str, frozenset[Kind]], None] = _no_change
    on_down: Callable[[str, str], None] = _nothing
    on_resource_updated: Callable[[str, str], None] = _nothing
    on_circuit: Callable[[str, str], None] = _nothing
    on_ended: Callable[[Call, Exchange, Outcome], None] = _no_call
    on_elicited: Callable[[str, str], None] = _nothing
    on_task: Callable[[TaskNews], None] = _no_news
    on_own_change: Callable[[str, str, frozenset[Kind]], None] = _no_own_change


@dataclass(frozen=True, slots=True)
class Environment:
    """What all members share."""

    make: MakeTransport
    eras: Eras
    hooks: Hooks = field(default_factory=Hooks)
    meters: Meters = field(default_factory=NoMeters)
    parking: Parking = field(default_factory=Parking)
    inspector: Inspector = field(default_factory=Inspector)
    desk: Desk = field(default_factory=Desk)
    tracer: Tracer = OFF
