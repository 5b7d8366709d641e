"""Lets a call pass only where what it names is, at this moment, what was approved; marks it with the pin state.

Asked again right before the call leaves, since it may have waited in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from gateway.errors import DownstreamError
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.interceptor import CallNext, Passage

Cleared: TypeAlias = Callable[[Call], Awaitable[Failure | None]]
"""Says why a call must not be sent, None where it may.

Raises:
    DownstreamError: that cannot be told now.
"""


class Guard:
    """Knows how each server's pin stands."""

    def __init__(self, pin_state: Callable[[str], str], cleared: Cleared) -> None:
        self._pin_state = pin_state
        self._cleared = cleared

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        try:
            refusal = await self._cleared(call)
        except DownstreamError as error:
            return Failure.of(error)
        if refusal is not None:
            return refusal
        try:
            return await call_next(call, passage)
        finally:
            exchange = passage.exchange
            if exchange.instance is not None:
                exchange.instance = replace(exchange.instance, pin=self._pin_state(call.target.server))
