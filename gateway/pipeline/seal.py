"""Writes ``call.start``, or that a call goes on, after every check and before dispatch: no record, no call."""

from __future__ import annotations

from gateway.audit import record
from gateway.downstream.tickets import is_ticket, issuer_of
from gateway.errors import AuditUnavailable, Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import CallNext, Passage
from gateway.protocol.rawjson import Object


class Seal:
    """Waits for the start record to be as durable as ``audit.durability`` says, then lets the call go."""

    def __init__(self, account: Account) -> None:
        self._account = account

    async def __call__(self, call: Call, passage: Passage, call_next: CallNext) -> Outcome:
        described = self._account.describe(call, passage)
        entry = record.call_start(described) if call.round == 1 else self._resumed(call, described)
        # Set before the wait: the record is written even when the client leaves meanwhile, and then needs its end.
        passage.started = True
        # A call that waits for these answers is told of by whoever they reach; until then it waits on, also without us.
        passage.exchange.repeated = is_ticket(call.request_state)
        try:
            await self._account.log.append(entry, durable=True)
        except AuditUnavailable:
            passage.started = False
            return Failure(
                Reason.AUDIT_UNAVAILABLE,
                "The gateway's audit log cannot be written, so no call is made. This one did not run. "
                "Try again later; the gateway's operators need to look at it.",
            )
        return await call_next(call, passage)

    def _resumed(self, call: Call, described: Object) -> Object:
        """Return the record of a round; a call that waits elsewhere is open there until that replica hands it over."""
        home = issuer_of(call.request_state)
        if self._account.replica and home not in ("", self._account.replica):
            return record.call_moved(described, call.round, home, held=False)
        return record.call_resumed(described, call.round)
