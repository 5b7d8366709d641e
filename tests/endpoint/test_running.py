"""Running calls: whatever happens, there is an outcome; stopping one says why (S26, S95)."""

from __future__ import annotations

import asyncio

import pytest

from gateway.endpoint.running import Running, Ticket
from gateway.errors import AuditUnavailable, DownstreamError, Reason, RequestError
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, Outcome
from gateway.model.principal import ANONYMOUS
from gateway.protocol.jsonrpc import ErrorObject
from gateway.protocol.rawjson import raw
from gateway.protocol.versions import Era
from tests.kit.endpoint import FakeMoment, Gate, moment, soon

CALL = Call("id", 1, "tools/call", {}, Target(Kind.TOOL, "notes", "add"), ANONYMOUS, Caller(Era.MODERN, "v"))


def raising(error: Exception) -> FakeMoment:
    async def chain(call: Call, exchange: Exchange) -> Outcome:
        raise error

    now = moment()
    now.chain = chain
    return now


async def outcome_of(error: Exception) -> Outcome:
    return await Running().run(raising(error), CALL, Exchange(), Ticket())


async def test_an_outcome_is_returned_as_it_is() -> None:
    assert isinstance(await Running().run(moment(), CALL, Exchange(), Ticket()), Complete)


async def test_a_downstream_error_is_a_failure_with_its_reason() -> None:
    outcome = await outcome_of(DownstreamError(Reason.TIMEOUT, "late", may_have_run=True, retry_after_ms=5))
    text = "Late. The call may have run: check its effect before you try again."
    assert outcome == Failure(Reason.TIMEOUT, text, may_have_run=True, retry_after_ms=5)


async def test_without_a_record_there_is_no_call() -> None:
    outcome = await outcome_of(AuditUnavailable("disk full"))
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.AUDIT_UNAVAILABLE, False)
    assert "disk" not in outcome.text


@pytest.mark.parametrize(("data", "expected"), [(None, None), ({"k": 1}, raw({"k": 1}))])
async def test_a_request_error_keeps_code_and_data(data: dict[str, object] | None, expected: object) -> None:
    outcome = await outcome_of(RequestError(-32602, "m", data))
    assert isinstance(outcome, Failure)
    assert outcome.error == ErrorObject(-32602, "m", expected)  # type: ignore[arg-type]  # reason: Raw or None.


async def test_a_crash_is_an_internal_error_that_tells_nothing() -> None:
    outcome = await outcome_of(ValueError("secret"))
    assert isinstance(outcome, Failure)
    assert outcome.error is not None
    assert outcome.error.code == -32603
    assert "secret" not in outcome.error.message
    assert outcome.error.data == raw({"source": "gateway", "mayHaveRun": False})


async def test_a_crash_after_dispatch_says_that_the_call_may_have_run() -> None:
    async def chain(call: Call, exchange: Exchange) -> Outcome:
        exchange.mark_dispatched()
        raise ValueError("secret")

    now = moment()
    now.chain = chain
    outcome = await Running().run(now, CALL, Exchange(), Ticket())
    assert isinstance(outcome, Failure)
    assert outcome.error is not None
    assert outcome.error.data == raw({"source": "gateway", "mayHaveRun": True})
    assert "may have run in part" in outcome.error.message


async def test_a_stopped_call_says_why_and_whether_it_may_have_run() -> None:
    gate, running, ticket = Gate(), Running(), Ticket()
    now = moment()
    now.chain = gate
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run(now, CALL, Exchange(), ticket))
        await soon(gate.began)
        assert len(running) == 1
        ticket.stop(Reason.CANCELLED)
        ticket.stop(Reason.OVERLOADED)
    outcome = task.result()
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run, len(running)) == (Reason.CANCELLED, True, 0)
    assert gate.cancelled.qsize() == 1


async def test_a_cancellation_nobody_asked_for_goes_on() -> None:
    gate, running = Gate(), Running()
    now = moment()
    now.chain = gate
    task = asyncio.get_running_loop().create_task(running.run(now, CALL, Exchange(), Ticket()))
    await soon(gate.began)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(running) == 0


def test_stopping_a_call_that_has_not_begun_does_nothing() -> None:
    ticket = Ticket()
    ticket.stop(Reason.CANCELLED)
    assert ticket.reason is None


async def test_a_drain_that_is_cut_short_still_answers_every_call() -> None:
    """S187: that is what a second signal does."""
    running = Running()
    gate = Gate()
    now = moment()
    now.chain = gate
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run(now, CALL, Exchange(), Ticket()))
        await soon(gate.began)
        drain = group.create_task(running.drain(60))
        await asyncio.sleep(0)
        drain.cancel()
    outcome = task.result()
    assert isinstance(outcome, Failure)
    assert outcome.reason is Reason.OVERLOADED


async def test_a_call_that_begins_when_the_drain_is_over_is_answered_and_not_made() -> None:
    """S187: its request was let in before, and took long to come."""
    running, gate, now = Running(), Gate(), moment()
    now.chain = gate
    await running.drain(0)
    outcome = await running.run(now, CALL, Exchange(), Ticket())
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.may_have_run) == (Reason.OVERLOADED, False)
    assert gate.began.empty()


async def test_a_drain_waits_for_requests_on_their_way_to_a_call_and_for_answers_on_theirs_back() -> None:
    running = Running()
    with running.request():
        drain = asyncio.get_running_loop().create_task(running.drain(60))
        await asyncio.sleep(0)
        assert isinstance(await running.run(moment(), CALL, Exchange(), Ticket()), Complete)
        await asyncio.sleep(0)
        assert not drain.done()
    async with asyncio.timeout(5):
        await drain


async def test_draining_waits_for_the_last_call_and_then_stops_the_rest() -> None:
    await Running().drain(0)
    running = Running()
    gate = Gate()
    now = moment()
    now.chain = gate
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run(now, CALL, Exchange(), Ticket()))
        await soon(gate.began)
        await running.drain(0.01)
    outcome = task.result()
    assert isinstance(outcome, Failure)
    assert outcome.reason is Reason.OVERLOADED
