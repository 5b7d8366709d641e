"""The order of the steps is the order of the design."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.account import Account
from gateway.pipeline.compose import Ingredients, compose
from gateway.pipeline.filter import Filter, Sieve
from gateway.pipeline.rounds import Terms
from gateway.policy.engine import Engine
from gateway.policy.limits import InFlight, Limiter
from gateway.policy.repeats import Repeats
from gateway.state.memory import MemoryStore
from gateway.telemetry.metrics import Metrics
from tests.kit.approvals import desk
from tests.kit.calls import OK, MemoryLog, call
from tests.kit.configs import loaded


class Server:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log
        self.seen: list[list[object]] = []

    async def call(self, call: Call, exchange: Exchange) -> Outcome:
        self.seen.append(list(self.log.events))
        return OK


POLICY = {
    "name": "p",
    "clients": ["bot"],
    "allow": ["a/t"],
    "limits": [{"rate": "1/hour"}],
}


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def server(log: MemoryLog) -> Server:
    return Server(log)


async def cleared(call: Call) -> None:
    """Let everything pass."""


async def run(log: MemoryLog, server: Server, *calls: Call) -> list[Outcome]:
    chain = compose(
        Ingredients(
            Engine.build(loaded({"policies": [POLICY]})),
            Account(log, AuditKey.of(b"k" * 32), "shape", "c" * 64),
            Limiter(MemoryStore()),
            InFlight(10),
            server,
            Metrics(),
            lambda _: "recorded",
            lambda _: Terms(5.0),
            lambda _: "enforce",
            cleared,
            Filter(lambda _: Sieve(), Metrics()),
            Repeats(MemoryStore()),
            desk(Path("/nonexistent")),
        )
    )
    return [await chain.run(asked, Exchange()) for asked in calls]


async def test_a_server_sees_a_call_only_after_its_start_record(log: MemoryLog, server: Server) -> None:
    """S157."""
    assert await run(log, server, call()) == [OK]
    assert server.seen == [["call.start"]]
    assert log.events == ["call.start", "call.end"]
    assert log.durable == [True, False]


async def test_what_policy_refuses_is_never_charged_nor_started(log: MemoryLog, server: Server) -> None:
    """S83: denied calls leave a limit untouched."""
    ended = await run(log, server, *[call("other")] * 5, call())
    assert [isinstance(each, Failure) for each in ended] == [True] * 5 + [False]
    assert log.events == ["call.denied"] * 5 + ["call.start", "call.end"]


async def test_what_a_limit_refuses_is_recorded_and_never_dispatched(log: MemoryLog, server: Server) -> None:
    _, second = await run(log, server, call(), call())
    assert isinstance(second, Failure)
    assert second.reason is Reason.RATE_LIMITED
    assert log.events == ["call.start", "call.end", "call.denied"]
    assert len(server.seen) == 1


async def test_a_full_audit_disk_stops_calls_before_the_server(log: MemoryLog, server: Server) -> None:
    """S158."""
    log.full = True
    [ended] = await run(log, server, call())
    assert isinstance(ended, Failure)
    assert ended.reason is Reason.AUDIT_UNAVAILABLE
    assert server.seen == []
