"""What counts as the same call, and for how long it is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.call import Call, Target
from gateway.model.catalog import Kind
from gateway.policy.decision import Repeat
from gateway.policy.repeats import LONGEST, Repeats
from gateway.state.memory import MemoryStore
from tests.kit.calls import BOT, call

RULE = Repeat("p", 30.0, "flag")
OTHER = Repeat("q", 60.0, "refuse")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def named(identity: str) -> Call:
    return call(arguments={"a": 1, "b": "x"}, id=identity)


async def test_the_same_call_is_met_whatever_the_order_of_its_arguments() -> None:
    repeats = Repeats(MemoryStore())
    assert (await repeats.meet(named("one"), (RULE, OTHER))).met == {}
    again = call(arguments={"b": "x", "a": 1}, id="two")
    assert (await repeats.meet(again, (RULE,))).met == {RULE: "one"}


@pytest.mark.parametrize(
    "other",
    [
        call(arguments={"a": 2, "b": "x"}),
        call(arguments={"a": "1", "b": "x"}),
        replace(named("two"), principal=replace(BOT, id="key:other")),
        replace(named("two"), target=Target(Kind.TOOL, "a", "u")),
        replace(named("two"), target=Target(Kind.TOOL, "b", "t")),
    ],
)
async def test_another_principal_tool_or_argument_makes_another_call(other: Call) -> None:
    repeats = Repeats(MemoryStore())
    await repeats.meet(named("one"), (RULE,))
    assert (await repeats.meet(other, (RULE,))).met == {}


async def test_a_call_is_remembered_while_it_runs_and_for_the_window_after_its_end() -> None:
    clock = Clock()
    repeats = Repeats(MemoryStore(clock))
    memory = await repeats.meet(named("one"), (RULE,))
    clock.now += LONGEST + 29
    assert (await repeats.meet(named("two"), (RULE,))).met == {RULE: "one"}
    await repeats.keep(named("one"), memory)
    clock.now += 29.9
    assert (await repeats.meet(named("two"), (RULE,))).met == {RULE: "one"}
    clock.now += 0.2
    assert (await repeats.meet(named("two"), (RULE,))).met == {}


async def test_what_is_forgotten_is_only_what_that_call_took_itself() -> None:
    repeats = Repeats(MemoryStore())
    await repeats.meet(named("one"), (RULE,))
    memory = await repeats.meet(named("two"), (RULE, OTHER))
    assert memory.taken == {OTHER}
    await repeats.forget(memory)
    assert (await repeats.meet(named("three"), (RULE, OTHER))).met == {RULE: "one"}


async def test_arguments_are_in_no_key() -> None:
    memory = await Repeats(MemoryStore()).meet(call(arguments={"password": "hunter2"}), (RULE,))
    assert all("hunter2" not in key for key in memory.keys.values())
