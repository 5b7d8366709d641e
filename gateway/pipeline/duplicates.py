"""Looks for the same call again: an agent in a loop, a retry of something that has run. Flags it or refuses it.

The same is the same principal, tool and arguments. A call is remembered while it runs and for the window after its
end, so that a retry after a timeout is found too. What was refused, here or later, is not remembered, and the next
round of a call is no other call.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.policy.decision import Repeat
from gateway.policy.repeats import Memory, Repeats
from gateway.protocol.methods import TOOLS_CALL
from gateway.telemetry.metrics import Metrics

NOTE: Final = "duplicate"
"""Under which the audit record of a call says which earlier one it repeats."""
_STRICTEST: Final = ("refuse", "approve", "flag")


class Duplicates:
    """Applies ``duplicates`` of every policy that is about the caller; the strictest action wins."""

    def __init__(self, repeats: Repeats, metrics: Metrics) -> None:
        self._repeats = repeats
        self._metrics = metrics

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        rules = passage.decision.repeats if passage.decision is not None else ()
        if not rules or call.method != TOOLS_CALL:
            return await call_next(call, passage)
        if call.round > 1:
            return await self._remembered(self._repeats.known(call, rules), call, passage, call_next)
        memory = await self._repeats.meet(call, rules)
        if memory.met:
            rule = min(memory.met, key=lambda each: _STRICTEST.index(each.action))
            self._metrics.duplicates_total.inc(action=rule.action, client=call.principal.label)
            passage.exchange.notes[NOTE] = f"{rule.action} by {rule.policy}: repeats {memory.met[rule]}"
            if rule.action == "refuse":
                await self._repeats.forget(memory)
                return _refusal(rule, memory.met[rule])
            if rule.action == "approve":
                passage.repeat = rule.policy
        return await self._remembered(memory, call, passage, call_next)

    async def _remembered(self, memory: Memory, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        try:
            return await call_next(call, passage)
        finally:
            after = self._repeats.keep(call, memory) if passage.started else self._repeats.forget(memory)
            # Also when the client has left: that is when it comes again.
            await asyncio.shield(after)


def _refusal(rule: Repeat, earlier: str) -> Failure:
    return Failure(
        Reason.DUPLICATE,
        f"The same call with the same arguments was made less than {rule.window:g} seconds ago or still runs. This one "
        "did not run. Use the result of the earlier call, or wait before you make it again.",
        detail=f"{rule.policy}: repeats {earlier}",
    )
