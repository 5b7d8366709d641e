"""What the audit log is told of a call: put together once, shared by all of its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.audit import payload, record
from gateway.audit.keys import AuditKey
from gateway.audit.record import DecisionFacts
from gateway.model.call import Call
from gateway.model.outcome import Complete, Outcome
from gateway.pipeline.interceptor import Passage
from gateway.protocol.rawjson import Object


class Log(Protocol):
    """The audit log, as far as a call needs it."""

    async def append(self, entry: Object, *, durable: bool) -> int:
        """Write a record and return its sequence number; with ``durable`` only once it cannot be lost.

        Raises:
            AuditUnavailable: it cannot be written, and nothing may happen without a record.
        """


def least_revealing(*modes: str) -> payload.Mode:
    """Return the mode that keeps least; modes that keep values are refused when a config is loaded."""
    return min((mode for mode in payload.MODES if mode in modes), key=payload.MODES.index, default="none")


@dataclass(frozen=True, slots=True)
class Account:
    """Log, key and rules for the records of calls.

    ``mode`` is what is kept of payloads where no policy says less; ``durable_end`` makes a reply wait for the disk.
    """

    log: Log
    key: AuditKey
    mode: payload.Mode
    config_digest: str
    durable_end: bool = False

    def mode_of(self, passage: Passage) -> payload.Mode:
        """Return what is kept of this call's payloads."""
        decided = passage.decision.payload if passage.decision is not None else None
        return self.mode if decided is None else least_revealing(self.mode, decided)

    def describe(self, call: Call, passage: Passage) -> Object:
        """Return the part that all records of the call share."""
        if passage.described is None:
            block = payload.arguments_block(self.mode_of(passage), call.arguments, self.key)
            passage.described = record.describe(call, self._decision(passage), block, self.key)
        return passage.described

    def result(self, passage: Passage, outcome: Outcome) -> Object:
        """Return what is kept of the result."""
        if not isinstance(outcome, Complete):
            return {}
        return payload.result_block(self.mode_of(passage), outcome.result, self.key)

    def _decision(self, passage: Passage) -> DecisionFacts:
        decision = passage.decision
        if decision is None:
            return DecisionFacts("deny", config_sha256=self.config_digest)
        return DecisionFacts(
            action="allow" if decision.allowed else "deny",
            policy=decision.policy,
            rule=decision.rule,
            reason=decision.reason,
            limits={"scope": passage.limit_scope} if passage.limit_scope else {},
            shadow={str(number): text for number, text in enumerate(decision.shadow)},
            config_sha256=self.config_digest,
        )
