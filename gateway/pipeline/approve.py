"""Has a call wait for a person's yes: in its own request as long as the rule says, then for its client to come again.

The way to that person is none a model can answer. A yes covers exactly what was shown, passes one call and is gone.
The further rounds of that call pass with it: a server's questions come with a pass for the next round, good once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gateway.approvals.entry import Entry, Need, State, Subject
from gateway.approvals.ledger import Full, Ledger, TooLarge, Unwritable
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.interceptor import Approved, CallNext, Passage
from gateway.pipeline.passes import Passes
from gateway.policy.decision import Approval
from gateway.protocol import methods, rawjson

METHODS: Final = frozenset({methods.TOOLS_CALL, methods.PROMPTS_GET, methods.RESOURCES_READ})
"""What somebody is asked about; completion and subscription give away nothing that a selector is written for."""
PROGRESS: Final = 5.0
"""Seconds between two words to a client that waits and asked for progress."""
_STEP: Final = 1e-6
"""So small that the server's own progress, which follows, still rises."""
_ANYBODY: Final = Approval("", "duplicates")
"""How long a repeated call waits, whose policy says nothing of that; whoever may approve is asked."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What approvals outlive a snapshot with: the entries, and the passes of calls that go on.

    ``definition`` returns the digest of what a call names as it is now, which may have changed while it waits.
    """

    ledger: Ledger
    passes: Passes
    definition: Callable[[Call], str]


class Approve:
    """``patience`` is how many seconds a server's call may wait for people."""

    def __init__(self, desk: Desk, patience: Callable[[str], float], progress: float = PROGRESS) -> None:
        self._ledger = desk.ledger
        self._passes = desk.passes
        self._definition = desk.definition
        self._patience = patience
        self._progress = progress

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        wanted = _wanted(passage)
        if not wanted or call.method not in METHODS:
            return await call_next(call, passage)
        approved = await self._passes.take(call) if call.round > 1 else None
        if approved is None:
            began = time.monotonic()
            answer = await self._asked(call, passage, wanted)
            if isinstance(answer, Failure):
                return answer
            approved = answer
            passage.waited += time.monotonic() - began
        passage.approved = approved
        outcome = await call_next(call, passage)
        if isinstance(outcome, InputRequired):
            await self._passes.give(call, approved, held=outcome.held)
        return outcome

    async def _asked(self, call: Call, passage: Passage, wanted: tuple[Approval, ...]) -> Approved | Failure:
        try:
            return await self._answer(call, passage, wanted)
        except TooLarge:
            return Failure(
                Reason.TOO_LARGE,
                "This call needs a person's approval, and its arguments are too long to be shown to one. It did not "
                "run. Make it with shorter arguments.",
            )
        except Full:
            return Failure(
                Reason.OVERLOADED,
                "This call needs a person's approval, and too many calls wait for one already. It did not run. "
                "Wait until some of them are decided, then try again.",
            )
        except Unwritable:
            return Failure(
                Reason.UNAVAILABLE,
                "This call needs a person's approval, which the gateway cannot keep now. It did not run. "
                "Try again later; the gateway's operators need to look at it.",
            )

    async def _answer(self, call: Call, passage: Passage, wanted: tuple[Approval, ...]) -> Approved | Failure:
        """Ask, and wait while the rules say so. Somebody else's call may use the yes first: then it is asked again."""
        subject = Subject.of(call)
        needs = tuple(Need(each.policy, each.rule, each.by) for each in wanted)
        timeout = min(each.timeout for each in wanted)
        hold = min(max(each.hold for each in wanted), timeout, self._patience(call.target.server))
        until, told = time.monotonic() + hold, 0
        while True:
            subject = replace(subject, definition=self._definition(call))
            entry = await self._ledger.ask(subject, needs, timeout)
            passage.approved = Approved(entry.id, entry.users)
            if entry.state is State.GRANTED:
                if await self._ledger.use(entry):
                    return Approved(entry.id, entry.users)
                continue
            if entry.state is State.DENIED:
                return _denied(entry)
            left = until - time.monotonic()
            if left <= 0 or self._ledger.released:
                return _required(entry)
            told += 1
            _say(passage.exchange, entry, told)
            try:
                async with asyncio.timeout(min(left, self._progress)):
                    await self._ledger.changed(entry)
            except TimeoutError:
                continue


def _wanted(passage: Passage) -> tuple[Approval, ...]:
    """Return every yes a call needs: those of rules, and of a policy that wants one for a repeated call."""
    rules = passage.decision.approvals if passage.decision is not None else ()
    if not passage.repeat:
        return rules
    return (*rules, Approval(passage.repeat, "duplicates", _ANYBODY.by, _ANYBODY.hold, _ANYBODY.timeout))


def _say(exchange: Exchange, entry: Entry, number: int) -> None:
    """Tell a client that asked for progress what it waits for."""
    text = f"waiting for a person to approve this call (approval {entry.id})"
    exchange.notify(methods.PROGRESS, {"progress": rawjson.raw(number * _STEP), "message": rawjson.raw(text)})


def _required(entry: Entry) -> Failure:
    left = max(entry.ends_at - time.time(), 0.0)
    return Failure(
        Reason.APPROVAL_REQUIRED,
        f"A person has to approve this call (approval {entry.id}), and has not yet. It did not run. Tell your user "
        f"that it waits for approval, and make the same call with the same arguments again within {left:.0f} seconds: "
        "once it is approved it runs, once. Other arguments need an approval of their own.",
        detail=f"approval {entry.id}",
        approval=entry.id,
    )


def _denied(entry: Entry) -> Failure:
    why = f" ({entry.reason})" if entry.reason else ""
    return Failure(
        Reason.APPROVAL_DENIED,
        f"A person refused this call{why} (approval {entry.id}). It did not run. Do not make it again as it is; ask "
        "your user what to do instead.",
        detail=f"approval {entry.id}",
        approval=entry.id,
    )
