"""Checks the arguments of a tool against the schema it was listed with, before anything is dispatched (S69).

Servers must do so themselves; many do not, and a model learns more from a refusal that names the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.catalog import Kind
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.policy import schemas
from gateway.policy.schemas import Unusable

Mode: TypeAlias = Literal["enforce", "warn", "off"]

NOTE = "arguments"
"""Under which the audit record of a call says that its arguments did not fit, in mode ``warn``."""


class Validate:
    """Refuses arguments that do not fit; ``mode`` tells how a server wants it."""

    def __init__(self, mode: Callable[[str], Mode]) -> None:
        self._mode = mode

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        # A listen is a call too, and of no server.
        if call.definition is None or call.target.kind is not Kind.TOOL:
            return await call_next(call, passage)
        mode = self._mode(call.target.server)
        if mode == "off":
            return await call_next(call, passage)
        schema = schemas.judged(call.definition)
        if isinstance(schema, Unusable):
            faults: tuple[str, ...] = (schema.reason,)
        else:
            faults = schema.faults(call.arguments)
        if not faults:
            return await call_next(call, passage)
        if mode == "warn":
            passage.exchange.notes[NOTE] = "; ".join(faults)
            return await call_next(call, passage)
        return Failure(
            Reason.INVALID_ARGUMENTS,
            f"The arguments do not fit the tool's inputSchema: {'; '.join(faults)}. The call did not run. "
            "Correct the arguments and try again.",
        )
