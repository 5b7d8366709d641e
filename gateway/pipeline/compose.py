"""Puts the steps in their order, once per snapshot (design: the life of a call)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.pipeline.account import Account
from gateway.pipeline.authorize import Authorize
from gateway.pipeline.dispatch import Dispatch, Servers
from gateway.pipeline.guard import Guard
from gateway.pipeline.interceptor import Chain
from gateway.pipeline.limit import Limit
from gateway.pipeline.observe import Observe
from gateway.pipeline.record import Record
from gateway.pipeline.rounds import Rounds, Terms
from gateway.pipeline.seal import Seal
from gateway.pipeline.tasks import TaskQuestions
from gateway.policy.engine import Engine
from gateway.policy.limits import InFlight, Limiter
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What the steps are made of; ``terms`` are those on which a server may ask clients."""

    engine: Engine
    account: Account
    limiter: Limiter
    in_flight: InFlight
    servers: Servers
    metrics: Metrics
    pin_state: Callable[[str], str]
    terms: Callable[[str], Terms]


def compose(parts: Ingredients) -> Chain:
    """Return the chain: observe, record, authorize, limit, guard, seal, rounds, tasks, dispatch, outermost first."""
    return Chain(
        [
            Observe(parts.metrics),
            Record(parts.account),
            Authorize(parts.engine, parts.metrics),
            Limit(parts.limiter, parts.in_flight, parts.metrics),
            Guard(parts.pin_state),
            Seal(parts.account),
            Rounds(parts.account, parts.terms, parts.pin_state),
            TaskQuestions(),
        ],
        Dispatch(parts.servers),
    )
