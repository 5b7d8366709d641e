"""What is audited in sums: lists, floods, refusals of names and attacks, where one record may stand for many events.

A flood must neither fill the log nor be lost to it (S154): what is held back is told when its time has passed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeAlias

from gateway.audit import events
from gateway.audit.aggregate import Aggregator
from gateway.audit.events import Asked
from gateway.audit.keys import AuditKey
from gateway.audit.record import DecisionFacts
from gateway.auth.throttle import MAX_SOURCES, site_of
from gateway.model.call import Call, Caller, Target
from gateway.model.principal import Principal
from gateway.pipeline.snapshot import Snapshot
from gateway.policy.decision import Question
from gateway.protocol.rawjson import Object, Value

LIST_SAMPLE: Final = 60.0
"""Seconds for which one record stands for every list of a kind that a principal reads."""
FAILURE_SAMPLE: Final = 10.0
"""Seconds for which one record stands for every failed authentication of a source."""
FLUSH: Final = 5.0
"""Seconds after which counts are told that no later event told."""

WhyHidden: TypeAlias = Callable[[Call], tuple[Target, DecisionFacts] | None]
"""Tells what a refused name stands for and what hides it; None for a name that does not exist."""


class Samples:
    """Every sum of one gateway. ``write`` takes records that nobody waits for."""

    def __init__(self, write: Callable[[Object], None], key: AuditKey, why_hidden: WhyHidden) -> None:
        self._key = key
        self._why_hidden = why_hidden
        self._lists = Aggregator(write, rate=1, window=LIST_SAMPLE)
        self._floods = Aggregator(write, rate=1)
        self._denials = Aggregator(write)
        self._attacks = Aggregator(write)
        self._failures = Aggregator(write, rate=1, window=FAILURE_SAMPLE, max_keys=MAX_SOURCES)
        self._all = (self._lists, self._floods, self._denials, self._attacks, self._failures)

    def listed(self, draft: Call, items: int) -> None:
        """Take a list that was served: one record a minute, principal and list."""
        record = partial(events.list_served, _asked(draft), items, self._key)
        self._lists.add(f"{draft.principal.id} {draft.method}", time.monotonic(), record)

    def limited(self, principal: Principal, caller: Caller) -> None:
        """Take a request over ``limits.requests``: one record a second and principal."""
        limits: dict[str, Value] = {"scope": "requests"}
        record = partial(events.ratelimit_refused, Asked(principal, caller), limits, self._key)
        self._floods.add(principal.id, time.monotonic(), record)

    def denied(self, call: Call) -> None:
        """Take a call of a name that is unknown or hidden, which alone the record tells: ten a second and principal."""
        self._denials.add(call.principal.id, time.monotonic(), partial(self._denial, call))

    def refused_early(self, event: str, source: str, facts: Mapping[str, Value]) -> None:
        """Take a request that was refused before it was understood.

        ``auth.failed``: one record in ten seconds and source; ``security.*``: ten a second and event.
        """
        record = partial(events.refused_early, event, source, facts)
        if event == "auth.failed":
            self._failures.add(site_of(source), time.monotonic(), record)
        else:
            self._attacks.add(event, time.monotonic(), record)

    async def run(self) -> None:
        """Tell what has fallen silent, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH)
            for aggregator in self._all:
                aggregator.flush(time.monotonic())

    def close(self) -> None:
        """Tell everything that is held back."""
        for aggregator in self._all:
            aggregator.close()

    def _denial(self, call: Call, count: int) -> Object:
        entry = events.unknown_denied(_asked(call), call.exposed, count, self._key)
        hidden = self._why_hidden(call)
        return entry if hidden is None else events.hidden_denied(entry, *hidden)


def _asked(call: Call) -> Asked:
    return Asked(call.principal, call.caller, call.method, call.rpc_id)


def why_hidden(snapshot: Snapshot, call: Call) -> tuple[Target, DecisionFacts] | None:
    """Tell what a refused name stands for in its caller's lists, and which rule hides it; see ``WhyHidden``."""
    target = snapshot.of(call.principal).hidden(call.target.kind, call.exposed)
    if target is None:
        return None
    question = Question(call.principal, target, {}, call.caller.view, datetime.now(UTC))
    decision = snapshot.engine.decide(question)
    if decision.allowed:
        return None
    return target, DecisionFacts("deny", decision.policy, decision.rule, decision.reason)
