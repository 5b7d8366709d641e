"""What the audit log is told of a call: put together once, shared by all of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from gateway.audit import payload, record
from gateway.audit.keys import AuditKey
from gateway.audit.payload import Keeping
from gateway.audit.record import DecisionFacts
from gateway.audit.sidecars import Sidecar, new_sidecar_id
from gateway.model.call import Call
from gateway.model.outcome import Complete, Outcome
from gateway.model.principal import Principal
from gateway.pipeline.interceptor import Passage
from gateway.protocol.rawjson import Object


class Log(Protocol):
    """The audit log, as far as a call needs it."""

    async def append(self, entry: Object, *, durable: bool) -> int:
        """Write a record and return its sequence number; with ``durable`` only once it cannot be lost.

        Raises:
            AuditUnavailable: it cannot be written, and nothing may happen without a record.
        """


def _keep_nothing(sidecar: Sidecar) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Account:
    """Log, key and rules for the records of calls.

    ``mode`` is what is kept of payloads where no decision says it; ``durable_end`` makes a reply wait for the disk.
    ``keep`` takes what is to stand beside the chain, and tells whether there is room for it. ``replica`` is whose log
    it is, where there are several.
    """

    log: Log
    key: AuditKey
    mode: payload.Mode
    config_digest: str
    durable_end: bool = False
    keep: Callable[[Sidecar], bool] = _keep_nothing
    replica: str = ""

    def keeping(self, passage: Passage) -> Keeping:
        """Return what is kept of this call's payloads: the policies' word where there is one, else the config's."""
        decision = passage.decision
        if decision is None:
            return Keeping(min(self.mode, "shape+hmac", key=payload.MODES.index))
        return Keeping(decision.payload, decision.reads, decision.redact)

    def describe(self, call: Call, passage: Passage) -> Object:
        """Return the part that all records of the call share."""
        if passage.described is None:
            keeping = self.keeping(passage)
            block = payload.arguments_block(keeping, call.arguments, self.key)
            if keeping.mode == "full":
                block |= self._beside(call, "args_sidecar", payload.full_arguments(keeping, call.arguments))
            passage.described = record.describe(call, self._decision(call, passage), block, self.key)
        return passage.described

    def result(self, call: Call, passage: Passage, outcome: Outcome) -> Object:
        """Return what is kept of the result."""
        if not isinstance(outcome, Complete):
            return {}
        keeping = self.keeping(passage)
        block = payload.result_block(keeping, outcome.result, self.key)
        if keeping.mode == "full":
            block |= self._beside(call, "result_sidecar", payload.full_result(keeping, outcome.result))
        return block

    def _beside(self, call: Call, member: str, text: bytes) -> Object:
        sidecar = Sidecar(new_sidecar_id(), call.principal.id, text)
        return {member: sidecar.id if self.keep(sidecar) else None}

    def _decision(self, call: Call, passage: Passage) -> DecisionFacts:
        decision = passage.decision
        if decision is None:
            return DecisionFacts("deny", config_sha256=self.config_digest)
        return DecisionFacts(
            claims_used=claims_used(call.principal, decision.claims),
            action="allow" if decision.allowed else "deny",
            policy=decision.policy,
            rule=decision.rule,
            reason=decision.reason,
            limits={"scope": passage.limit_scope} if passage.limit_scope else {},
            approval={"id": passage.approved.id, "by": [*passage.approved.by]} if passage.approved else {},
            shadow={str(number): text for number, text in enumerate(decision.shadow)},
            config_sha256=self.config_digest,
        )


def claims_used(principal: Principal, names: Iterable[str]) -> Object:
    """Return the claims that conditions may have looked at: null for one that is absent, so that one that is null is
    left out."""
    claims = principal.claims
    return {name: claims.get(name) for name in names if name not in claims or claims[name] is not None}
