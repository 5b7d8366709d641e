"""Calls in numbers: how they ended, how long they took, and which ones run."""

from __future__ import annotations

import asyncio

import pytest

from gateway.admin.views import Chosen, Tally
from gateway.model.call import Call
from gateway.model.exchange import Exchange
from gateway.model.principal import Principal
from gateway.pipeline.observe import Roll
from gateway.telemetry.metrics import OUTCOMES
from gateway.traffic import MAX_KEYS, MAX_LIVE, MAX_NAMES, NO_SERVER, NO_SUCH, OTHER, TrafficLog
from tests.kit.calls import call
from tests.kit.definitions import tool


class Clock:
    def __init__(self) -> None:
        self.now = 100_000.0

    def __call__(self) -> float:
        return self.now


def of(client: str = "bot", server: str = "a", name: str = "t", number: int = 0) -> Call:
    principal = Principal(f"key:{client}", "key", client)
    return call(name, server, principal=principal, definition=tool(name), id=f"c{number}")


def hour(by: str = "tool", **only: str) -> Chosen:
    return Chosen(3600.0, by, **only)


async def test_calls_are_counted_by_how_they_ended_and_when() -> None:
    clock = Clock()
    log = TrafficLog(clock)
    log.ended(of(), "ok", 0.004)
    clock.now += 60
    for label in ("ok", "denied", "limited", "timeout", "tool_error", "cancelled"):
        log.ended(of(), label, 0.03)
    seen = await log.show(hour())
    assert (seen.step, len(seen.over_time)) == (60.0, 60)
    assert [(each.ok, each.refused, each.failed) for each in seen.over_time[-2:]] == [(1, 0, 0), (1, 2, 3)]
    assert seen.whole == Tally(2, 2, 3, 50.0, 50.0)


@pytest.mark.parametrize("label", sorted(OUTCOMES))
async def test_every_outcome_counts_once(label: str) -> None:
    log = TrafficLog()
    log.ended(of(), label, 0.01)
    assert (await log.show(hour())).whole.calls == 1


async def test_calls_are_told_apart_by_client_server_and_tool() -> None:
    log = TrafficLog()
    for client, server, name, times in (("bot", "a", "x", 3), ("bot", "b", "x", 2), ("ci", "a", "y", 1)):
        for _ in range(times):
            log.ended(of(client, server, name), "ok", 0.01)
    assert [(name, each.ok) for name, each in (await log.show(hour("tool"))).by_name] == [
        ("a/x", 3),
        ("b/x", 2),
        ("a/y", 1),
    ]
    assert [(name, each.ok) for name, each in (await log.show(hour("client"))).by_name] == [("bot", 5), ("ci", 1)]
    assert [(name, each.ok) for name, each in (await log.show(hour("server", client="bot"))).by_name] == [
        ("a", 3),
        ("b", 2),
    ]
    assert (await log.show(hour(tool="a/y"))).whole.ok == 1
    assert (await log.show(hour(server="none"))).by_name == ()


async def test_names_that_clients_make_up_are_kept_under_one() -> None:
    log = TrafficLog()
    for number in range(50):
        log.denied(of(name=f"guess-{number}"), "")
        log.ended(call(f"file:///{number}", definition=None, method="resources/read"), "ok", 0.0)
    log.denied(of(name="secret"), "a")
    log.ended(call("", "", definition=None, method="subscriptions"), "ok", 0.0)
    names = {name for name, _ in (await log.show(hour())).by_name}
    assert names == {NO_SUCH, "a (resources/read)", f"{NO_SERVER} (subscriptions)"}
    assert {name for name, _ in (await log.show(hour("server"))).by_name} == {NO_SUCH, "a", NO_SERVER}


async def test_what_is_kept_and_shown_is_bounded() -> None:
    log = TrafficLog()
    for number in range(MAX_KEYS * 3):
        log.ended(of(name=f"t{number}"), "ok", 0.01)
    seen = await log.show(hour())
    assert seen.whole.ok == MAX_KEYS * 3
    assert len(seen.by_name) == MAX_NAMES
    assert seen.by_name[0][0] == OTHER
    assert seen.by_name[0][1].ok == MAX_KEYS * 2


async def test_a_day_is_seen_in_quarters_of_an_hour_and_what_is_older_is_gone() -> None:
    clock = Clock()
    log = TrafficLog(clock)
    for _ in range(3 * 24):
        log.ended(of(), "ok", 0.01)
        clock.now += 3600
    day, hours = await log.show(Chosen(86_400.0, "tool")), await log.show(Chosen(7200.0, "tool"))
    assert (day.step, len(day.over_time), day.whole.ok) == (900.0, 96, 23)
    assert (hours.step, len(hours.over_time), hours.whole.ok) == (60.0, 120, 1)


def test_calls_that_run_are_seen_until_they_end() -> None:
    log: TrafficLog = TrafficLog()
    roll: Roll = log
    exchange = Exchange()
    roll.began(of(number=1), exchange)
    assert [(each.client, each.server, each.name, each.stage) for each in log.live()] == [("bot", "a", "t", "waiting")]
    exchange.mark_dispatched()
    assert log.live()[0].stage == "at the server"
    exchange.answered_at = 1.0
    assert log.live()[0].stage == "answered"
    roll.ended(of(number=1), "ok", 0.1)
    assert log.live() == ()


def test_there_is_an_end_to_the_calls_that_are_kept() -> None:
    log = TrafficLog()
    for number in range(MAX_LIVE + 5):
        log.began(of(number=number), Exchange())
    assert len(log.live()) == MAX_LIVE
    log.ended(of(number=MAX_LIVE + 1), "ok", 0.1)
    assert len(log.live()) == MAX_LIVE


async def test_durations_are_told_by_the_range_they_are_in() -> None:
    log = TrafficLog()
    for taken in (0.0005, 0.0015, 0.09, 500.0):
        log.ended(of(), "ok", taken)
    assert ((await log.show(hour())).whole.half_ms, (await log.show(hour())).whole.most_ms) == (2.0, 120_000.0)


async def test_the_loop_is_free_while_much_is_counted() -> None:
    clock = Clock()
    log = TrafficLog(clock)
    for _ in range(60):
        for number in range(MAX_KEYS):
            log.ended(of("bot", "a", f"t{number}"), "ok", 0.01)
        clock.now += 60
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        other = group.create_task(turning())
        seen = await log.show(hour())
        other.cancel()
    assert seen.whole.calls == 59 * MAX_KEYS
    assert turns >= 50
