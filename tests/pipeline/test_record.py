"""Every call has its end in the log before anyone hears of it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.call import TaskRef
from gateway.model.outcome import Failure, InputRequired, Started
from gateway.pipeline.account import Account
from gateway.pipeline.record import Record
from gateway.protocol.jsonrpc import ErrorObject
from tests.kit.calls import OK, MemoryLog, Next, call, passage


def step(log: MemoryLog, *, durable_end: bool = False) -> Record:
    return Record(Account(log, AuditKey.of(b"k" * 32), "shape+hmac", "d" * 64, durable_end))


async def test_a_dispatched_call_gets_an_end() -> None:
    log = MemoryLog()
    assert await step(log)(call(), passage(started=True), Next()) is OK
    assert log.events == ["call.end"]


@pytest.mark.parametrize("held", [True, False])
async def test_a_call_that_waits_for_answers_has_a_round_and_no_end(held: bool) -> None:
    log, asked = MemoryLog(), InputRequired({}, "s", held=held)
    assert await step(log)(call(round=2), passage(started=True, rounds=2), Next(asked)) is asked
    assert log.events == ["call.round"]
    assert log.entries[0]["round"] == {"number": 2, "held": held}


async def test_an_outcome_that_comes_again_is_a_round_and_the_call_has_one_end() -> None:
    log, told, passed = MemoryLog(), Failure(Reason.TIMEOUT, "too late"), passage(started=True)
    passed.exchange.repeated = True
    assert await step(log)(call(round=2), passed, Next(told)) is told
    assert log.events == ["call.round"]
    assert log.entries[0]["round"] == {"number": 1, "held": False}


async def test_a_request_about_a_task_is_a_round_of_the_call_that_became_it() -> None:
    """S157: that call has its one end already."""
    log, about = MemoryLog(), call(method="tasks/get", round=2, task=TaskRef("own", "sealed"))
    assert await step(log)(about, passage(started=True, rounds=2), Next()) is OK
    assert log.events == ["call.round"]
    assert log.entries[0]["round"] == {"number": 2, "held": False}
    started = Started({})
    assert await step(log)(call(), passage(started=True), Next(started)) is started
    assert log.events[-1] == "call.end"


async def test_a_call_stopped_before_dispatch_is_denied() -> None:
    """G105: a refusal is one record with its own outcome."""
    log, refused = MemoryLog(), Failure(Reason.RATE_LIMITED, "slow down", retry_after_ms=5)
    assert await step(log)(call(), passage(), Next(refused)) is refused
    assert log.events == ["call.denied"]
    outcome = log.entries[0]["outcome"]
    assert isinstance(outcome, dict)
    assert outcome["status"] == "limited"


async def test_a_call_whose_client_vanished_has_a_record_too() -> None:
    log = MemoryLog()
    with pytest.raises(asyncio.CancelledError):
        await step(log)(call(), passage(started=True), Next(asyncio.CancelledError()))
    assert log.events == ["call.end"]
    outcome = log.entries[0]["outcome"]
    assert isinstance(outcome, dict)
    assert outcome["status"] == "cancelled"


async def test_a_result_that_cannot_be_recorded_is_withheld() -> None:
    """S158."""
    log = MemoryLog()
    log.full = True
    ended = await step(log)(call(), passage(started=True), Next())
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.may_have_run) == (Reason.AUDIT_UNAVAILABLE, True)


async def test_a_refusal_stays_one_even_where_it_cannot_be_recorded() -> None:
    log, refused = MemoryLog(), Failure(Reason.DENIED, "no")
    log.full = True
    assert await step(log)(call(), passage(), Next(refused)) is refused


@pytest.mark.parametrize("durable", [True, False])
async def test_the_end_waits_for_the_disk_only_where_the_config_says_so(durable: bool) -> None:
    log = MemoryLog()
    await step(log, durable_end=durable)(call(), passage(started=True), Next())
    assert log.durable == [durable]


async def test_a_call_that_breaks_the_gateway_has_its_end_too() -> None:
    """S157: a start is never left open while the process lives."""
    log, mine = MemoryLog(), passage(started=True)
    mine.exchange.mark_dispatched()
    with pytest.raises(ZeroDivisionError):
        await step(log)(call(), mine, Next(ZeroDivisionError()))
    assert log.events == ["call.end"]
    outcome = log.entries[0]["outcome"]
    assert isinstance(outcome, dict)
    assert (outcome["status"], outcome["may_have_run"]) == ("protocol_error", True)


@pytest.mark.parametrize("started", [True, False])
async def test_what_stops_a_later_round_says_that_the_call_may_have_run(started: bool) -> None:
    log, refused = MemoryLog(), Failure(Reason.UNAVAILABLE, "The server is away. The call did not run.")
    ended = await step(log)(call(round=2), passage(started=started, rounds=2), Next(refused))
    assert isinstance(ended, Failure)
    assert ended.may_have_run
    assert ended.text.startswith(refused.text)
    assert "an earlier one of the same call reached its server" in ended.text
    outcome = log.entries[0]["outcome"]
    assert isinstance(outcome, dict)
    assert outcome["may_have_run"] is True


async def test_a_servers_own_error_in_a_later_round_stays_as_it_is() -> None:
    own = Failure(Reason.PROTOCOL_ERROR, "", error=ErrorObject(1, "mine"))
    assert await step(MemoryLog())(call(round=2), passage(started=True, rounds=2), Next(own)) is own
