"""Asks the policies: the same engine that decided what was listed decides what may be called."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.policy.decision import HOURS, Decision, Question
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
        if call.task is not None:
            decision = self._of_task(call, decision)
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

    def _of_task(self, call: Call, decision: Decision) -> Decision:
        """Decide about a task: its arguments were judged when it began, and are not known any more."""
        if decision.allowed or decision.reason == HOURS:
            return decision
        return replace(decision, allowed=self._engine.visible(call.principal, call.target, call.caller.view))
