"""Asks the policies: the same engine that decided what was listed decides what may be called."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.policy.decision import Question
from gateway.policy.engine import Engine
from gateway.telemetry.metrics import Metrics


class Authorize:
    """Refuses what no policy allows; the decision stays with the passage for limits and audit."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        question = Question(call.principal, call.target, call.arguments, call.caller.view, datetime.now(UTC))
        decision = self._engine.decide(question)
        passage.decision = decision
        self._metrics.policy_decisions_total.inc(
            decision="allow" if decision.allowed else "deny", reason=decision.reason
        )
        if decision.allowed:
            return await call_next(call, passage)
        return Failure(
            Reason.DENIED,
            f"Not allowed: a policy of this gateway refuses this call ({decision.reason}). "
            "It did not run. Change the arguments, or ask the gateway's operators for access.",
            detail=f"{decision.policy}/{decision.rule}",
            scopes=decision.scopes,
        )
