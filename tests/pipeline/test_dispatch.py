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


@pytest.mark.parametrize("outcome", [OK, Failure(Reason.TIMEOUT, "late", may_have_run=True), InputRequired({}, "s")])
async def test_results_and_failures_pass_by_identity(outcome: Outcome) -> None:
    servers, way = Servers(outcome), passage()
    asked = call()
    assert await Dispatch(servers)(asked, way) is outcome
    assert servers.seen == [(asked, way.exchange)]


async def test_a_task_that_nobody_asked_for_is_the_servers_protocol_error() -> None:
    ended = await Dispatch(Servers(Started({})))(call(), passage())
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.may_have_run) == (Reason.PROTOCOL_ERROR, True)
