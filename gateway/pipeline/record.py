"""Writes how a call ended, whatever happens: ``call.end`` for one that was dispatched, else ``call.denied``.

One that waits for its client's answers has not ended: it gets a ``call.round``. So does each request about the task
that a call became, after that call's own end, and one that comes again for an outcome whose record is written already.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Final

from gateway.audit import record
from gateway.audit.record import Ending
from gateway.errors import AuditUnavailable, Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, InputRequired, Outcome
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.telemetry.logs import get_logger

_log = get_logger("audit")

_EARLIER: Final = (
    "That is about this round: an earlier one of the same call reached its server, so the call may have run in part. "
    "Check its effect before you try again."
)


class Record:
    """No answer leaves before its record is written; one that cannot be recorded is withheld."""

    def __init__(self, account: Account) -> None:
        self._account = account

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        outcome: Outcome | None = None
        broken = Reason.PROTOCOL_ERROR
        try:
            outcome = await call_next(call, passage)
        except asyncio.CancelledError:
            broken = Reason.CANCELLED
            raise
        finally:
            if outcome is None:
                gone = Failure(broken, "", may_have_run=passage.exchange.dispatched)
                # The task may be cancelled again while it writes; the record must not be lost to that.
                await asyncio.shield(self._write(call, passage, _whole(passage, gone)))
        return await self._write(call, passage, _whole(passage, outcome))

    async def _write(self, call: Call, passage: Passage, outcome: Outcome) -> Outcome:
        payload = self._account.result(call, passage, outcome) if passage.started else {}
        ending = Ending(passage.exchange, outcome, time.monotonic(), passage.rounds, payload)
        described = self._account.describe(call, passage)
        if not passage.started:
            entry = record.call_denied(described, ending)
        elif isinstance(outcome, InputRequired):
            # What another replica holds is in that one's log.
            entry = record.call_round(described, ending, held=outcome.held and not outcome.at)
        elif call.task is not None or passage.exchange.repeated:
            entry = record.call_round(described, ending, held=False)
        else:
            entry = record.call_end(described, ending)
        try:
            await self._account.log.append(entry, durable=passage.started and self._account.durable_end)
        except AuditUnavailable:
            return _withheld(passage, outcome)
        return outcome


def _whole(passage: Passage, outcome: Outcome) -> Outcome:
    """Have a refusal speak of the whole call: one that stops a later round stops what may have run in part."""
    if passage.rounds == 1 or not isinstance(outcome, Failure) or outcome.error is not None or outcome.may_have_run:
        return outcome
    text = f"{outcome.text} {_EARLIER}" if outcome.text else ""
    return replace(outcome, text=text, may_have_run=True)


def _withheld(passage: Passage, outcome: Outcome) -> Outcome:
    """Choose what a client hears when the end of its call cannot be recorded: never a result."""
    if not passage.started:
        return outcome
    _log.error("call_end_not_recorded")
    return Failure(
        Reason.AUDIT_UNAVAILABLE,
        "The gateway's audit log cannot be written, so the result is withheld. The call may have run; "
        "check its effect before you try again. The gateway's operators need to look at it.",
        may_have_run=True,
    )
