"""The accounts that calls are written down in: one kind for each config in force, and the end of those left open."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from gateway.audit import record
from gateway.audit.keys import AuditKey
from gateway.audit.log import AuditLog
from gateway.audit.record import Ending
from gateway.config.root import LoadedConfig
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Outcome
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import Passage
from gateway.pipeline.snapshot import Snapshot
from gateway.policy.decision import Question
from gateway.protocol.rawjson import Object


class Accounts:
    """Opens accounts. ``key`` hides what may not be kept; ``write`` takes a record that nobody waits for.

    ``replica`` is whose log it is, "" where there is but one.
    """

    def __init__(self, log: AuditLog, key: AuditKey, write: Callable[[Object], None], replica: str = "") -> None:
        self._replica = replica
        self._log = log
        self._key = key
        self._write = write

    def of(self, loaded: LoadedConfig) -> Account:
        """Return how calls are written down under a config."""
        audit = loaded.config.audit
        return Account(
            self._log,
            self._key,
            audit.payload,
            loaded.digest,
            durable_end=audit.durability == "each",
            keep=self._log.keep,
            replica=self._replica,
        )

    def describe(self, snapshot: Snapshot, call: Call, exchange: Exchange) -> Object:
        """Return the part that all records of a call share, for a request of which no step runs here."""
        return self.of(snapshot.loaded).describe(call, _passage(snapshot, call, exchange))

    def close(self, snapshot: Snapshot, call: Call, exchange: Exchange, outcome: Outcome) -> None:
        """Close the account of a parked call that ended while its client was away."""
        account, passage = self.of(snapshot.loaded), _passage(snapshot, call, exchange)
        ending = Ending(exchange, outcome, time.monotonic(), call.round, account.result(call, passage, outcome))
        described = account.describe(call, passage)
        # A request about a task is part of a call that has ended already.
        over = record.call_end if call.task is None else partial(record.call_round, held=False)
        self._write(over(described, ending))


def _passage(snapshot: Snapshot, call: Call, exchange: Exchange) -> Passage:
    now = datetime.now(UTC)
    question = Question(call.principal, call.target, call.arguments, call.caller.view, now)
    return Passage(exchange, snapshot.engine.decide(question))
