"""Outermost step: measures every call, however it ends. Sees outcomes, never contents."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from gateway.audit import record
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome, Started
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.protocol import results
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.methods import TOOLS_CALL
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.spans import exemplar


def outcome_label(outcome: Outcome) -> str:
    """Return the ``outcome`` label of a call: the word of its audit record, but ``ok`` for one that goes on."""
    return "ok" if isinstance(outcome, (InputRequired, Started)) else record.status_of(outcome)


def error_type(outcome: Outcome) -> str:
    """Return the ``error_type`` label: "" for success, ``tool_error``, a reason, or a server's error code."""
    match outcome:
        case Complete(result):
            return "tool_error" if results.is_error(result) else ""
        case InputRequired() | Started():
            return ""
        case Failure(error=None, reason=reason):
            return reason.value
        case Failure(error=ErrorObject(code=code)):
            return str(code)
        case Failure():
            return "server_error"


Watch: TypeAlias = Callable[[Call, Outcome], None]
"""Looks at each call that ended, for what somebody should be told of; must neither block nor fail."""


def unwatched(call: Call, outcome: Outcome) -> None:
    """Look at nothing."""


def untraced() -> bool:
    """Tell that there are no spans."""
    return False


class Roll(Protocol):
    """Keeps the calls that run; must neither block nor fail."""

    def began(self, call: Call, exchange: Exchange) -> None:
        """A call runs."""

    def ended(self, call: Call, label: str, seconds: float) -> None:
        """A call ended, with the ``outcome`` label of the metrics."""


class NoRoll:
    """Keeps nothing."""

    def began(self, call: Call, exchange: Exchange) -> None:
        """Keep nothing."""

    def ended(self, call: Call, label: str, seconds: float) -> None:
        """Keep nothing."""


NO_ROLL: Final = NoRoll()


class Observe:
    """Counts calls and times them; the gateway's own share is what the server did not take."""

    def __init__(
        self,
        metrics: Metrics,
        watch: Watch = unwatched,
        roll: Roll = NO_ROLL,
        traced: Callable[[], bool] = untraced,
    ) -> None:
        """``traced`` tells whether a call's trace is the gateway's, to be found where its spans go."""
        self._metrics = metrics
        self._watch = watch
        self._roll = roll
        self._traced = traced

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        outcome: Outcome = Failure(Reason.CANCELLED, "")
        self._roll.began(call, passage.exchange)
        try:
            outcome = await call_next(call, passage)
            return outcome
        finally:
            self._record(call, passage, outcome)
            self._watch(call, outcome)

    def _record(self, call: Call, passage: Passage, outcome: Outcome) -> None:
        exchange, metrics = passage.exchange, self._metrics
        method, era, server = call.method, call.caller.era.value, call.target.server
        total = time.monotonic() - exchange.started
        label, error = outcome_label(outcome), error_type(outcome)
        self._roll.ended(call, label, total)
        example = exemplar(call.trace) if self._traced() else None
        metrics.mcp_server_operation_duration_seconds.observe(
            total, example, mcp_method_name=method, era=era, error_type=error
        )
        metrics.client_calls_total.inc(client=call.principal.label, outcome=label)
        if method == TOOLS_CALL:
            metrics.tool_calls_total.inc(server=server, tool=call.exposed, outcome=label)
        if exchange.dispatched and exchange.answered_at:
            taken = exchange.answered_at - exchange.dispatched_at
            metrics.mcp_client_operation_duration_seconds.observe(
                taken, example, server=server, mcp_method_name=method, error_type=error
            )
            metrics.gateway_overhead_seconds.observe(max(0.0, total - taken), example, era=era)
