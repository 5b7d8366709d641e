"""No record, no call."""

from __future__ import annotations

import asyncio

import pytest

from gateway.audit.keys import AuditKey
from gateway.errors import Reason
from gateway.model.exchange import Exchange
from gateway.model.outcome import Failure
from gateway.pipeline.account import Account
from gateway.pipeline.interceptor import Chain
from gateway.pipeline.record import Record
from gateway.pipeline.seal import Seal
from gateway.protocol.rawjson import Object
from tests.kit.calls import OK, MemoryLog, Next, call, passage


def step(log: MemoryLog) -> Seal:
    return Seal(Account(log, AuditKey.of(b"k" * 32), "shape", "d" * 64))


async def test_the_start_is_written_before_the_call_goes_on() -> None:
    log, way, rest = MemoryLog(), passage(), Next()
    assert await step(log)(call(), way, rest) is OK
    assert log.events == ["call.start"]
    assert way.started
    assert len(rest.calls) == 1


async def test_a_call_that_goes_on_is_recorded_as_its_next_round() -> None:
    log, rest = MemoryLog(), Next()
    assert await step(log)(call(round=3), passage(), rest) is OK
    assert log.events == ["call.round"]
    assert log.entries[0]["round"] == {"number": 3, "held": True}
    assert len(rest.calls) == 1


async def test_without_a_record_nothing_is_dispatched() -> None:
    """S158, G107."""
    log, rest = MemoryLog(), Next()
    log.full = True
    way = passage()
    ended = await step(log)(call(), way, rest)
    assert not way.started
    assert isinstance(ended, Failure)
    assert (ended.reason, ended.may_have_run) == (Reason.AUDIT_UNAVAILABLE, False)
    assert rest.calls == []


async def test_the_start_asks_for_the_disk_and_the_log_knows_what_the_config_makes_of_that() -> None:
    log = MemoryLog()
    await step(log)(call(), passage(), Next())
    assert log.durable == [True]


async def test_a_client_that_leaves_during_the_write_still_has_a_call_that_started() -> None:
    """S157: one trail, not a start and a denial."""

    class Slow(MemoryLog):
        async def append(self, entry: Object, *, durable: bool) -> int:
            await super().append(entry, durable=durable)
            raise asyncio.CancelledError

    way, rest = passage(), Next()
    with pytest.raises(asyncio.CancelledError):
        await step(Slow())(call(), way, rest)
    assert way.started
    assert rest.calls == []


async def test_a_call_that_waits_has_its_end_from_whoever_its_answers_reach() -> None:
    """Until then it waits on: of a client that leaves meanwhile the log has no end of a call that has not ended."""

    class Slow(MemoryLog):
        async def append(self, entry: Object, *, durable: bool) -> int:
            if entry["event"] == "call.round" and not self.entries:
                await super().append(entry, durable=durable)
                raise asyncio.CancelledError
            return await super().append(entry, durable=durable)

    for state, events in (("parked-ticket", ["call.round", "call.round"]), ("own", ["call.round", "call.end"])):
        log = Slow()
        account = Account(log, AuditKey.of(b"k" * 32), "shape", "d" * 64)
        chain = Chain([Record(account), Seal(account)], Next())
        with pytest.raises(asyncio.CancelledError):
            await chain.run(call(round=2, request_state=state), Exchange())
        assert log.events == events
