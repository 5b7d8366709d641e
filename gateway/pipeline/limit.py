"""Charges every limit that applies to a call, all or nothing, and frees what it held when the call ends.

A call is charged once, however many rounds it takes: with its server's questions the client gets a pass for the next
one. A pass is good once, so a state that is sent again is charged like a new call. What is asked about a task belongs
to the call that it began as.
"""

from __future__ import annotations

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.policy.limits import InFlight, Limiter, LimitFacts, Refused
from gateway.telemetry.metrics import Metrics


class Limit:
    """First the principal's own cap of calls in flight, then the limits of every policy that matched."""

    def __init__(self, limiter: Limiter, in_flight: InFlight, metrics: Metrics) -> None:
        self._limiter = limiter
        self._in_flight = in_flight
        self._metrics = metrics

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        if not self._in_flight.acquire(call.principal.id):
            passage.limit_scope = "in_flight"
            self._metrics.ratelimit_refused_total.inc(scope="in_flight", client=call.principal.label)
            return Failure(
                Reason.OVERLOADED,
                "Too many calls of this client are in flight. This one did not run. "
                "Wait until one of them has ended, then try again.",
            )
        try:
            return await self._charged(call, passage, call_next)
        finally:
            self._in_flight.release(call.principal.id)

    async def _charged(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        limits = passage.decision.limits if passage.decision is not None else ()
        if not limits or call.task is not None:
            return await call_next(call, passage)
        if call.round > 1 and await self._limiter.use_pass(call.id, call.round):
            limits = tuple(limit for limit in limits if limit.allowance is None)
        facts = LimitFacts(call.principal, call.target, call.caller.view)
        admission = await self._limiter.admit(limits, facts)
        if isinstance(admission, Refused):
            passage.limit_scope = admission.scope
            self._metrics.ratelimit_refused_total.inc(scope=admission.scope, client=call.principal.label)
            return _refusal(admission)
        try:
            outcome = await call_next(call, passage)
        finally:
            admission.release()
        if isinstance(outcome, InputRequired):
            await self._limiter.give_pass(call.id, call.round + 1)
        return outcome


def _refusal(refused: Refused) -> Failure:
    if refused.retry_after_ms is None:
        return Failure(
            Reason.RATE_LIMITED,
            f"Too many calls at once for this limit ({refused.limit}). This one did not run. "
            "Wait until one of them has ended, then try again.",
            detail=f"{refused.policy}: {refused.limit}",
        )
    seconds = refused.retry_after_ms / 1000
    return Failure(
        Reason.RATE_LIMITED,
        f"Rate limit reached ({refused.limit}). This call did not run. Try again in {seconds:.1f} seconds.",
        retry_after_ms=refused.retry_after_ms,
        detail=f"{refused.policy}: {refused.limit}",
    )
