"""The shape of a step, and how steps become a chain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.policy.decision import Decision
from gateway.protocol.rawjson import Object


@dataclass(frozen=True, slots=True)
class Approved:
    """The approval a call is about, and the admin users who have said yes to it."""

    id: str
    by: tuple[str, ...] = ()


@dataclass(slots=True)
class Passage:
    """One call's way through the chain: its exchange, and what the steps learned for those around them.

    ``started`` is set once the start record is on its way to the log; ``described`` is what all records of the call
    share; ``rounds`` counts the times the server was called, earlier requests of the same call included. ``repeat``
    is the policy that wants a person's yes because the same call came before, ``approved`` what came of asking for one,
    ``waited`` how many seconds of those it may wait for people are gone.
    """

    exchange: Exchange
    decision: Decision | None = None
    started: bool = False
    limit_scope: str = ""
    described: Object | None = None
    rounds: int = 1
    repeat: str = ""
    approved: Approved | None = None
    waited: float = 0.0


CallNext: TypeAlias = Callable[[Call, Passage], Awaitable[Outcome]]


class Interceptor(Protocol):
    """One step. It may answer itself, pass the call on, or look at the outcome on the way back."""

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        """Handle the call."""


class Chain:
    """Steps composed once, outermost first; ``end`` is the step that has no next."""

    def __init__(self, steps: Sequence[Interceptor], end: CallNext) -> None:
        entry = end
        for step in reversed(steps):
            entry = partial(step, call_next=entry)
        self._entry = entry

    async def run(self, call: Call, exchange: Exchange) -> Outcome:
        """Send a call through every step."""
        return await self._entry(call, Passage(exchange, rounds=call.round))
