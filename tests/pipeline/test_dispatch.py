"""The end of the chain."""

from __future__ import annotations

import pytest

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, InputRequired, Outcome, Started
from gateway.pipeline.dispatch import Dispatch
from tests.kit.calls import OK, call, passage


class Servers:
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.seen: list[tuple[Call, Exchange]] = []

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        self.seen.append((call, exchange))
        return self.outcome


@pytest.mark.parametrize(
    "outcome",
    [OK, Failure(Reason.TIMEOUT, "late", may_have_run=True), InputRequired({}, "s"), Started({})],
)
async def test_every_outcome_passes_by_identity(outcome: Outcome) -> None:
    servers, way = Servers(outcome), passage()
    asked = call()
    assert await Dispatch(servers)(asked, way) is outcome
    assert servers.seen == [(asked, way.exchange)]
