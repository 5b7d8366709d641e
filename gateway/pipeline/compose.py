"""Puts the steps in their order, once per snapshot (design: the life of a call)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.pipeline.account import Account
from gateway.pipeline.approve import Approve, Desk
from gateway.pipeline.authorize import Authorize
from gateway.pipeline.dispatch import Dispatch, Servers
from gateway.pipeline.duplicates import Duplicates
from gateway.pipeline.filter import Filter
from gateway.pipeline.guard import Cleared, Guard
from gateway.pipeline.interceptor import Chain
from gateway.pipeline.limit import Limit
from gateway.pipeline.observe import NO_ROLL, Observe, Roll, Watch, untraced, unwatched
from gateway.pipeline.record import Record
from gateway.pipeline.rounds import Rounds, Terms
from gateway.pipeline.seal import Seal
from gateway.pipeline.tasks import TaskQuestions
from gateway.pipeline.validate import Mode, Validate
from gateway.policy.engine import Engine
from gateway.policy.limits import InFlight, Limiter
from gateway.policy.repeats import Repeats
from gateway.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What the steps are made of; ``terms`` are those on which a server may ask clients, ``validation`` how the
    arguments of its tools are checked, ``filter``
    what is done to its results."""

    engine: Engine
    account: Account
    limiter: Limiter
    in_flight: InFlight
    servers: Servers
    metrics: Metrics
    pin_state: Callable[[str], str]
    terms: Callable[[str], Terms]
    validation: Callable[[str], Mode]
    cleared: Cleared
    filter: Filter
    repeats: Repeats
    desk: Desk
    watch: Watch = unwatched
    roll: Roll = NO_ROLL
    traced: Callable[[], bool] = untraced


def compose(parts: Ingredients) -> Chain:
    """Return the chain, outermost step first."""
    return Chain(
        [
            Observe(parts.metrics, parts.watch, parts.roll, parts.traced),
            Record(parts.account),
            Authorize(parts.engine, parts.metrics),
            Limit(parts.limiter, parts.in_flight, parts.metrics),
            Guard(parts.pin_state, parts.cleared),
            Validate(parts.validation),
            Duplicates(parts.repeats, parts.metrics),
            Approve(parts.desk, lambda server: parts.terms(server).patience),
            Seal(parts.account),
            parts.filter,
            Rounds(parts.account, parts.terms, parts.pin_state),
            TaskQuestions(),
        ],
        Dispatch(parts.servers),
    )
