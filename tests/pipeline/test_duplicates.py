"""The same call again is flagged or refused; what was not made, and what goes on, is no earlier call."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import Reason
from gateway.model.call import Call
from gateway.model.outcome import Failure, Outcome
from gateway.pipeline.duplicates import NOTE, Duplicates
from gateway.pipeline.interceptor import Passage
from gateway.policy.decision import Decision, Repeat
from gateway.policy.repeats import Repeats
from gateway.state.memory import MemoryStore
from gateway.telemetry.metrics import Metrics
from tests.kit.calls import OK, Next, call, passage

FLAG = Repeat("watch", 30.0, "flag")
REFUSE = Repeat("stop", 30.0, "refuse")
APPROVE = Repeat("ask", 30.0, "approve")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def decided(*rules: Repeat) -> Passage:
    return passage(decision=Decision(True, "p", "r", "allow_rule", repeats=rules))


async def sealed(call: Call, passage: Passage) -> Outcome:
    """The rest of a chain that lets the call go."""
    passage.started = True
    return OK


def step(clock: Clock | None = None) -> tuple[Duplicates, Metrics]:
    metrics = Metrics()
    metrics.known_clients(["bot"])
    return Duplicates(Repeats(MemoryStore(clock or Clock())), metrics), metrics


def counted(metrics: Metrics) -> list[str]:
    text = metrics.render("text/plain")[0].decode()
    return [line for line in text.splitlines() if line.startswith("mcp_gateway_duplicates_total{")]


async def test_a_flagged_call_runs_and_its_record_names_the_earlier_one() -> None:
    duplicates, metrics = step()
    first, second = decided(FLAG), decided(FLAG)
    assert await duplicates(call(id="one"), first, sealed) is OK
    assert await duplicates(call(id="two"), second, sealed) is OK
    assert first.exchange.notes == {}
    assert second.exchange.notes == {NOTE: "flag by watch: repeats one"}
    assert counted(metrics) == ['mcp_gateway_duplicates_total{action="flag",client="bot"} 1.0']


async def test_a_refused_call_does_not_run_and_does_not_lengthen_the_window() -> None:
    clock = Clock()
    duplicates, _ = step(clock)
    await duplicates(call(id="one"), decided(REFUSE), sealed)
    clock.now += 29
    rest = Next()
    refused = await duplicates(call(id="two"), decided(REFUSE), rest)
    assert isinstance(refused, Failure)
    assert (refused.reason, refused.may_have_run, refused.detail) == (Reason.DUPLICATE, False, "stop: repeats one")
    assert "30 seconds" in refused.text
    assert rest.calls == []
    clock.now += 1
    assert await duplicates(call(id="three"), decided(REFUSE), sealed) is OK


async def test_the_strictest_rule_wins_and_a_refused_call_leaves_nothing_behind_for_the_others() -> None:
    duplicates, _ = step()
    await duplicates(call(id="one"), decided(REFUSE), sealed)
    assert isinstance(await duplicates(call(id="two"), decided(FLAG, REFUSE), sealed), Failure)
    later = decided(FLAG)
    await duplicates(call(id="three"), later, sealed)
    assert later.exchange.notes == {}


async def test_a_call_that_a_later_step_stopped_is_not_remembered() -> None:
    duplicates, _ = step()
    stopped = Failure(Reason.AUDIT_UNAVAILABLE, "")
    assert await duplicates(call(id="one"), decided(REFUSE), Next(stopped)) is stopped
    with pytest.raises(asyncio.CancelledError):
        await duplicates(call(id="two"), decided(REFUSE), Next(asyncio.CancelledError()))
    assert await duplicates(call(id="three"), decided(REFUSE), sealed) is OK


async def test_the_same_call_beside_one_that_runs_is_a_duplicate() -> None:
    duplicates, _ = step()
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(call: Call, passage: Passage) -> Outcome:
        passage.started = True
        began.set()
        await go_on.wait()
        return OK

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(duplicates(call(id="one"), decided(REFUSE), slow))
        await began.wait()
        assert isinstance(await duplicates(call(id="two"), decided(REFUSE), sealed), Failure)
        go_on.set()


async def test_a_call_whose_client_left_is_remembered_for_when_it_comes_again() -> None:
    duplicates, _ = step()

    async def left(call: Call, passage: Passage) -> Outcome:
        passage.started = True
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await duplicates(call(id="one"), decided(REFUSE), left)
    assert isinstance(await duplicates(call(id="two"), decided(REFUSE), sealed), Failure)


async def test_the_next_round_of_a_call_is_no_other_call() -> None:
    duplicates, metrics = step()
    await duplicates(call(id="one"), decided(REFUSE), sealed)
    assert await duplicates(call(id="one", round=2), decided(REFUSE), sealed) is OK
    assert counted(metrics) == []


async def test_approve_hands_the_call_on_with_the_policy_that_asks_for_a_yes() -> None:
    duplicates, _ = step()
    await duplicates(call(id="one"), decided(APPROVE), sealed)
    second = decided(APPROVE, FLAG)
    rest = Next()
    await duplicates(call(id="two"), second, rest)
    assert (second.repeat, len(rest.calls)) == ("ask", 1)


async def test_without_a_rule_and_for_what_is_no_tool_call_nothing_is_remembered() -> None:
    duplicates, _ = step()
    for _ in range(2):
        assert await duplicates(call(), decided(), sealed) is OK
        assert await duplicates(call(method="prompts/get"), decided(REFUSE), sealed) is OK
