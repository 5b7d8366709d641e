"""Only what is as approved is called, and a call carries the pin state of the server that answered it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call
from gateway.model.exchange import InstanceFacts
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.guard import Guard
from gateway.pipeline.interceptor import Passage
from tests.kit.calls import OK, Next, call, passage


def answered(error: BaseException | None = None) -> Next:
    class Answering(Next):
        async def __call__(self, call: Call, passage: Passage) -> Outcome:
            passage.exchange.instance = InstanceFacts(call.target.server, "stdio", "pid:1#1", "f")
            return await super().__call__(call, passage)

    return Answering(error if error is not None else OK)


async def cleared(_: Call) -> None:
    """Let everything pass."""


async def test_the_state_is_that_of_the_calls_own_server() -> None:
    way = passage()
    assert await Guard(lambda server: f"state of {server}", cleared)(call(server="a"), way, answered()) is OK
    assert way.exchange.instance is not None
    assert way.exchange.instance.pin == "state of a"


async def test_it_is_there_for_a_call_that_was_cancelled_as_well() -> None:
    way = passage()
    with pytest.raises(asyncio.CancelledError):
        await Guard(lambda _: "changed", cleared)(call(), way, answered(asyncio.CancelledError()))
    assert way.exchange.instance is not None
    assert way.exchange.instance.pin == "changed"


async def test_a_call_that_reached_nothing_has_no_instance() -> None:
    way = passage()
    await Guard(lambda _: "recorded", cleared)(call(), way, Next())
    assert way.exchange.instance is None


async def test_what_is_held_back_is_never_called() -> None:
    """S60, S139."""
    hidden, following = Failure(Reason.DENIED, "", hidden=True, detail="changed"), Next()

    async def refused(_: Call) -> Failure:
        return hidden

    assert await Guard(lambda _: "changed", refused)(call(), passage(), following) is hidden
    assert following.calls == []


async def test_what_cannot_be_told_now_is_not_called_either() -> None:
    """S139: a call waits for fresh lists, or fails."""
    following = Next()

    async def unknown(_: Call) -> Failure | None:
        raise DownstreamError(Reason.UNAVAILABLE, "lists are being read again", retry_after_ms=1000)

    outcome = await Guard(lambda _: "changed", unknown)(call(), passage(), following)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.retry_after_ms, outcome.may_have_run) == (Reason.UNAVAILABLE, 1000, False)
    assert following.calls == []
