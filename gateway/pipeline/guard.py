"""Marks every call with the pin state of the server that answered it; in mode ``warn`` it stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.model.call import Call
from gateway.model.outcome import Outcome
from gateway.pipeline.interceptor import CallNext, Passage


class Guard:
    """Knows how each server's pin stands."""

    def __init__(self, pin_state: Callable[[str], str]) -> None:
        self._pin_state = pin_state

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        try:
            return await call_next(call, passage)
        finally:
            exchange = passage.exchange
            if exchange.instance is not None:
                exchange.instance = replace(exchange.instance, pin=self._pin_state(call.target.server))
