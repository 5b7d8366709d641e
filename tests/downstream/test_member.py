"""One server in the pool: routing, resending, limits and status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.config.servers import Server
from gateway.downstream import wishes
from gateway.downstream.eras import Eras
from gateway.downstream.health import State
from gateway.downstream.hooks import Environment, Hooks
from gateway.downstream.inspection import Inspector, Offer, Quarantined, Seals
from gateway.downstream.member import Member
from gateway.downstream.meters import NoMeters
from gateway.downstream.transport import Reply
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, Caller
from gateway.model.catalog import Kind
from gateway.model.exchange import Exchange
from gateway.model.outcome import Complete, Failure, InputRequired, Outcome
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.transport import (
    LEGACY,
    MODERN,
    WAIT,
    FakeTransport,
    Farm,
    Script,
    Sent,
    bare,
    but,
    call,
    failure,
    never,
    principal,
    reply,
    server,
)

ALL = frozenset(Kind)


@dataclass
class Meters(NoMeters):
    """Writes down what is measured."""

    events: list[tuple[object, ...]] = field(default_factory=list)

    def state(self, server: str, state: str) -> None:
        self.events.append(("state", state))

    def restarted(self, server: str, reason: str) -> None:
        self.events.append(("restarted", reason))

    def protocol_error(self, server: str, kind: str) -> None:
        self.events.append(("protocol_error", kind))


class World:
    """A member, what it was told to do, and what it told."""

    def __init__(self, farm: Farm, config: dict[str, object]) -> None:
        self.farm = farm
        self.meters = Meters()
        self.told: list[tuple[str, object]] = []
        self._moved = asyncio.Event()
        hooks = Hooks(
            lambda name, kinds: self._note("change", kinds),
            lambda name, reason: self._note("down", reason),
            lambda name, uri: self._note("updated", uri),
            lambda name, state: self._note("circuit", state),
        )
        self.member = Member("a", server(**config), "f" * 64, Environment(farm, Eras(), hooks, self.meters))

    def _note(self, kind: str, what: object) -> None:
        self.told.append((kind, what))
        self._moved.set()

    async def heard(self, kind: str, count: int = 1) -> object:
        async with asyncio.timeout(WAIT):
            while len([what for told, what in self.told if told == kind]) < count:
                self._moved.clear()
                await self._moved.wait()
        return [what for told, what in self.told if told == kind][count - 1]

    async def made(self, count: int) -> FakeTransport:
        async with asyncio.timeout(WAIT):
            while len(self.farm.made) < count:
                await asyncio.sleep(0.001)
        return self.farm.made[count - 1]

    async def call(self, made: Call | None = None, exchange: Exchange | None = None) -> object:
        return await self.member.call(made or call(), exchange or Exchange())


@asynccontextmanager
async def world(farm: Farm, **config: object) -> AsyncIterator[World]:
    made = World(farm, config)
    made.member.start()
    try:
        yield made
    finally:
        await made.member.aclose()
    assert farm.live == []


def by(name: str, session: str = "") -> Call:
    era = Era.LEGACY if session else Era.MODERN
    return call(principal=principal(name), caller=Caller(era, "2025-11-25", session=session))


async def test_the_catalog_connection_comes_up_by_itself_and_says_so() -> None:
    async with world(Farm(MODERN)) as one:
        assert await one.heard("change") == ALL
        status = one.member.status()
        assert (status.state, status.era, status.product, status.connections) == (State.UP, "modern", "scripted/1.0", 1)
        assert status.last_round_trip is not None
        assert one.member.hello() is not None
    assert one.meters.events == [("state", "starting"), ("state", "up")]


async def test_modern_servers_are_shared_by_all_principals() -> None:
    async with world(Farm(MODERN)) as one:
        for name in ("alice", "bob"):
            assert isinstance(await one.call(by(name)), Complete)
    assert len(one.farm.made) == 1


async def test_legacy_servers_have_one_process_for_each_principal() -> None:
    """S101, G039: and G040: not one for each call."""
    farm = Farm(LEGACY)
    async with world(farm) as one:
        await one.heard("change")
        for name in ("alice", "bob", "alice"):
            assert isinstance(await one.call(by(name)), Complete)
        assert [len(made.of("tools/call")) for made in farm.made] == [0, 2, 1]
        assert one.member.status().connections == 3


async def test_a_principals_process_knows_the_era_already() -> None:
    farm = Farm(LEGACY)
    async with world(farm) as one:
        await one.heard("change")
        await one.call(by("alice"))
    assert farm.made[1].methods() == ["initialize", "tools/call"]


async def test_sessions_can_have_their_own_process_and_take_it_along() -> None:
    farm = Farm(LEGACY)
    async with world(farm, isolation="session") as one:
        await one.heard("change")
        for session in ("s1", "s2"):
            await one.call(by("alice", session))
        await one.call(by("alice"))
        assert [len(made.of("tools/call")) for made in farm.made] == [0, 1, 1, 1]
        one.member.end_session("s1")
        one.member.end_session("unknown")
        async with asyncio.timeout(WAIT):
            while not farm.made[1].closed:
                await asyncio.sleep(0.001)
        assert not farm.made[2].closed
        await one.call(by("alice", "s1"))
        assert len(farm.made) == 5


async def test_shared_means_the_catalog_connection() -> None:
    farm = Farm(LEGACY)
    async with world(farm, isolation="shared") as one:
        await one.call(by("alice"))
        await one.call(by("bob"))
    assert len(farm.made) == 1


async def test_a_call_that_comes_first_waits_for_the_era() -> None:
    farm = Farm(LEGACY)
    async with world(farm) as one:
        assert isinstance(await one.call(by("alice")), Complete)
    assert [len(made.of("tools/call")) for made in farm.made] == [0, 1]


async def test_the_longest_idle_process_makes_room() -> None:
    farm = Farm(LEGACY)
    async with world(farm, max_instances=2) as one:
        await one.heard("change")
        for name in ("alice", "bob", "alice", "carol"):
            await one.call(by(name))
        async with asyncio.timeout(WAIT):
            while not farm.made[2].closed:
                await asyncio.sleep(0.001)
        assert not farm.made[1].closed
        assert one.member.status().connections == 3


async def test_where_nobody_is_idle_there_is_no_room() -> None:
    farm = Farm(but(LEGACY, {"tools/call": never}))
    async with world(farm, max_instances=1) as one:
        await one.heard("change")
        busy = asyncio.get_running_loop().create_task(one.call(by("alice")))
        await (await one.made(2)).reached("tools/call")
        with pytest.raises(DownstreamError, match='server "a" is at its limit') as caught:
            await one.call(by("bob"))
        assert caught.value.reason is Reason.OVERLOADED
        busy.cancel()
        with pytest.raises(asyncio.CancelledError):
            await busy


async def test_an_idle_process_ends_and_the_next_call_starts_another() -> None:
    farm = Farm(LEGACY)
    async with world(farm, idle_stop="30ms") as one:
        await one.heard("change")
        await one.call(by("alice"))
        async with asyncio.timeout(WAIT):
            while not farm.made[1].closed:
                await asyncio.sleep(0.001)
        await one.call(by("alice"))
        assert len(farm.made) == 3
        assert not farm.made[0].closed


async def test_connections_that_came_and_went_leave_no_tasks() -> None:
    """Each would otherwise wait for ``idle_stop``, and thousands of sessions can come and go meanwhile."""
    farm = Farm(LEGACY)
    async with world(farm, isolation="session") as one:
        await one.heard("change")
        before = len(asyncio.all_tasks())
        for number in range(20):
            await one.call(by("alice", session=f"s{number}"))
            one.member.end_session(f"s{number}")
        async with asyncio.timeout(WAIT):
            while len(asyncio.all_tasks()) > before or len(farm.live) > 1:
                await asyncio.sleep(0.001)


async def test_beyond_concurrency_and_queue_the_server_is_at_its_limit() -> None:
    """G119, S86."""
    farm = Farm(but(MODERN, {"tools/call": never}))
    async with world(farm, concurrency=2, queue=1) as one:
        await one.heard("change")
        loop = asyncio.get_running_loop()
        busy = [loop.create_task(one.call()) for _ in range(3)]
        await farm.made[0].reached("tools/call", 2)
        with pytest.raises(DownstreamError, match='server "a" is at its limit') as caught:
            await one.call()
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.OVERLOADED, False)
        assert one.member.status().in_flight == 3
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        assert one.member.status().in_flight == 0
        # The places are free again.
        farm.made[0].script["tools/call"] = lambda sent: reply(content=[])
        assert isinstance(await one.call(), Complete)


async def test_a_crashed_server_fails_its_calls_and_serves_the_next_one() -> None:
    """G011, S114, S127: nothing is sent twice."""

    async def exits(sent: Sent) -> Reply:
        sent.transport.end("exited with code 9")
        return await never(sent)

    farm = Farm(but(MODERN, {"tools/call": exits}), MODERN)
    async with world(farm) as one:
        await one.heard("change")
        with pytest.raises(DownstreamError) as caught:
            await one.call()
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.UNAVAILABLE, True)
        assert await one.heard("down") == "exited with code 9"
        assert isinstance(await one.call(), Complete)
        assert [len(made.of("tools/call")) for made in farm.made] == [1, 1]
        assert await one.heard("change", 2) == ALL
        assert one.member.status().restarts == 1
    assert ("restarted", "exit") in one.meters.events


def failing(times: int, error: DownstreamError) -> Script:
    """Fail so many calls as a transport does, then serve."""
    left = [times]

    async def handler(sent: Sent) -> Reply:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return reply(content=[])

    return but(MODERN, {"tools/call": handler})


UNSENT = DownstreamError(Reason.UNAVAILABLE, "connection refused")
UNKNOWN = DownstreamError(Reason.UNAVAILABLE, "connection lost", may_have_run=True)
LATE = DownstreamError(Reason.TIMEOUT, "no answer", may_have_run=True)


@pytest.mark.parametrize(
    ("error", "idempotent", "deliveries"),
    [(UNSENT, [], 2), (UNKNOWN, [], 1), (UNKNOWN, ["echo"], 2), (UNKNOWN, ["other"], 1), (LATE, ["echo"], 1)],
)
async def test_a_call_is_sent_again_only_where_that_does_no_harm(
    error: DownstreamError, idempotent: list[str], deliveries: int
) -> None:
    """S127."""
    farm = Farm(failing(1, error))
    async with world(farm, idempotent=idempotent) as one:
        if deliveries == 2:
            assert isinstance(await one.call(), Complete)
        else:
            with pytest.raises(DownstreamError):
                await one.call()
        assert len(farm.made[0].of("tools/call")) == deliveries


async def test_a_call_is_sent_twice_at_most() -> None:
    farm = Farm(failing(9, UNSENT))
    async with world(farm) as one:
        with pytest.raises(DownstreamError):
            await one.call()
        assert len(farm.made[0].of("tools/call")) == 2


@pytest.mark.parametrize("second", [UNSENT, UNKNOWN])
async def test_what_a_first_attempt_may_have_done_is_not_forgotten_after_a_second(second: DownstreamError) -> None:
    """S127: the first may have run, the second has not; the caller hears of both."""
    errors = [UNKNOWN, second]

    async def handler(sent: Sent) -> Reply:
        error = errors.pop(0)
        raise DownstreamError(error.reason, error.message, may_have_run=error.may_have_run)

    farm = Farm(but(MODERN, {"tools/call": handler}))
    async with world(farm, idempotent=["echo"]) as one:
        with pytest.raises(DownstreamError) as caught:
            await one.call()
        assert (caught.value.may_have_run, errors) == (True, [])


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_an_answer_that_serves_nothing_is_not_asked_for_twice(status: int) -> None:
    farm = Farm(but(MODERN, {"tools/call": lambda sent: bare(status)}), http=True)
    async with world(farm, idempotent=["echo"]) as one:
        with pytest.raises(DownstreamError):
            await one.call()
        assert len(farm.made[0].of("tools/call")) == 1


async def test_five_failures_in_a_row_stop_calls_for_a_while() -> None:
    """S126."""
    farm = Farm(failing(99, LATE))
    async with world(farm) as one:
        await one.heard("change")
        assert one.member.status().state is State.UP
        for number in range(5):
            assert one.member.status().state is (State.DEGRADED if number else State.UP)
            with pytest.raises(DownstreamError, match="no answer"):
                await one.call()
        with pytest.raises(DownstreamError, match="next try in") as caught:
            await one.call()
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.UNAVAILABLE, False)
        assert caught.value.retry_after_ms is not None
        assert len(farm.made[0].of("tools/call")) == 5
        status = one.member.status()
        assert status.state is State.OPEN
        assert status.next_retry is not None
        assert 0 < status.next_retry <= 30
        assert "no answer" in status.last_error
        assert one.told[-1] == ("circuit", "open")
    assert ("state", "open") in one.meters.events


async def test_one_principals_failures_do_not_stop_anothers_calls() -> None:
    hanging = [True]

    async def handler(sent: Sent) -> Reply:
        if hanging[0]:
            raise LATE
        return reply(content=[])

    async with world(Farm(but(LEGACY, {"tools/call": handler}))) as one:
        for _ in range(5):
            with pytest.raises(DownstreamError):
                await one.call(by("alice"))
        hanging[0] = False
        with pytest.raises(DownstreamError, match="next try"):
            await one.call(by("alice"))
        assert isinstance(await one.call(by("bob")), Complete)


async def test_a_server_that_cannot_start_is_tried_for_ever_and_calls_say_why() -> None:
    """G118, G122: the error states cause and next retry; fifty callers start nothing."""
    farm = Farm(*[{"server/discover": lambda sent: bare(503)}] * 2, MODERN, http=True)
    async with world(farm) as one:
        assert "HTTP status 503" in str(await one.heard("down"))
        outcomes = await asyncio.gather(*(one.call() for _ in range(50)), return_exceptions=True)
        for outcome in outcomes:
            assert isinstance(outcome, DownstreamError)
            assert outcome.reason is Reason.UNAVAILABLE
            assert "HTTP status 503" in outcome.message
            assert outcome.retry_after_ms is not None
        status = one.member.status()
        assert (status.state, status.last_round_trip) == (State.FAILED, None)
        assert status.next_retry is not None
        assert len(farm.made) == 1
        assert await one.heard("change") == ALL
        assert one.member.status().state is State.UP
    assert ("restarted", "start_failed") in one.meters.events


async def test_a_modern_server_that_does_not_start_may_be_another_one_now() -> None:
    farm = Farm(MODERN, {"server/discover": lambda sent: bare(503)}, LEGACY, http=True)
    one = World(farm, {})
    eras = one.member._environment.eras
    one.member.start()
    await one.heard("change")
    assert eras.get("f" * 64) is Era.MODERN
    farm.made[0].end()
    await one.heard("down", 2)
    assert eras.get("f" * 64) is None
    await one.heard("change", 2)
    assert eras.get("f" * 64) is Era.LEGACY
    await one.member.aclose()


async def test_refused_headers_have_the_definitions_read_again() -> None:
    farm = Farm(but(MODERN, {"tools/call": lambda sent: failure(-32020)}), http=True)
    async with world(farm) as one:
        await one.heard("change")
        outcome = await one.call()
        assert isinstance(outcome, Failure)
        assert await one.heard("change", 2) == frozenset({Kind.TOOL})


async def test_pages_come_from_the_catalog_connection_and_count_as_round_trips() -> None:
    farm = Farm(but(LEGACY, {"tools/list": lambda sent: reply(tools=[{"name": "t"}])}))
    async with world(farm) as one:
        assert len((await one.member.page(Kind.TOOL, None)).items) == 1
        with pytest.raises(DownstreamError, match="prompts/list"):
            await one.member.page(Kind.PROMPT, None)
        assert "prompts/list" in one.member.status().last_error
        assert one.member.status().state is State.UP
        farm.made[0].script["tools/list"] = failing(1, LATE)["tools/call"]
        with pytest.raises(DownstreamError):
            await one.member.page(Kind.TOOL, None)
        assert one.member.status().state is State.DEGRADED
        farm.made[0].script["tools/list"] = lambda sent: reply(tools=[])
        await one.member.page(Kind.TOOL, None)
        assert one.member.status().state is State.UP
    assert len(farm.made) == 1


async def test_violations_are_counted() -> None:
    async with world(Farm(MODERN)) as one:
        await one.heard("change")
        one.farm.made[0].say("notifications/strange")
        assert ("protocol_error", "unexpected_notification") in one.meters.events


async def test_subscriptions_are_counted_and_told_again_after_a_restart() -> None:
    farm = Farm(but(LEGACY, {"resources/subscribe": lambda sent: reply(), "resources/unsubscribe": lambda s: reply()}))
    async with world(farm, isolation="shared") as one:
        await one.heard("change")
        for _ in range(2):
            one.member.telling.subscribe("file:///a")
        await one.member.telling.told()
        first = farm.made[0]
        assert [sent.params["uri"] for sent in first.of("resources/subscribe")] == ["file:///a"]
        first.say("notifications/resources/updated", uri="file:///a")
        first.say("notifications/resources/updated", uri="file:///b")
        assert [what for kind, what in one.told if kind == "updated"] == ["file:///a"]
        first.end()
        await (await one.made(2)).reached("resources/subscribe")
        for _ in range(3):
            one.member.telling.unsubscribe("file:///a")
        await one.member.telling.told()
        assert len(farm.made[1].of("resources/unsubscribe")) == 1


async def test_subscribing_to_a_server_that_is_down_is_remembered() -> None:
    farm = Farm({"server/discover": lambda sent: bare(503)}, LEGACY, http=True)
    async with world(farm) as one:
        await one.heard("down")
        one.member.telling.subscribe("file:///a")
        await (await one.made(2)).reached("resources/subscribe")


async def test_subscriptions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wishes, "MAX_WISHES", 2)
    async with world(Farm(MODERN)) as one:
        for uri in ("a", "b", "b"):
            one.member.telling.subscribe(uri)
        with pytest.raises(DownstreamError) as caught:
            one.member.telling.subscribe("c")
        assert caught.value.reason is Reason.OVERLOADED


async def test_retiring_lets_calls_finish_and_closes_then() -> None:
    go = asyncio.Event()

    async def slow(sent: Sent) -> Reply:
        await go.wait()
        return reply(content=[])

    farm = Farm(but(MODERN, {"tools/call": slow}))
    async with world(farm) as one:
        loop = asyncio.get_running_loop()
        busy = loop.create_task(one.call())
        await (await one.made(1)).reached("tools/call")
        retiring = loop.create_task(one.member.retire())
        await asyncio.sleep(0)
        assert farm.live
        go.set()
        assert isinstance(await busy, Complete)
        await retiring
        assert farm.live == []


async def test_retiring_has_an_end() -> None:
    farm = Farm(but(MODERN, {"tools/call": never}))
    async with world(farm, timeouts={"max": "50ms"}) as one:
        busy = asyncio.get_running_loop().create_task(one.call())
        await (await one.made(1)).reached("tools/call")
        await one.member.retire()
        with pytest.raises(DownstreamError):
            await busy


async def test_a_forced_era_needs_no_catalog_connection_to_route() -> None:
    hanging: Script = {"initialize": never}
    farm = Farm(hanging, LEGACY)
    async with world(farm, protocol="legacy") as one:
        await (await one.made(1)).reached("initialize")
        assert isinstance(await one.call(by("alice")), Complete)
    expected: Object = {"name": "echo", "arguments": {}}
    assert farm.made[1].of("tools/call")[0].params == expected


class Doorkeeper(Inspector):
    """Lets a server in as long as it is told to."""

    def __init__(self) -> None:
        self.shut = ""
        self.looked = 0
        self.refusal: Failure | DownstreamError | None = None

    async def before(self, name: str, server: Server) -> Seals | None:
        self.looked += 1
        if self.shut:
            raise Quarantined(self.shut)
        return {}

    async def cleared(self, call: Call, offer: Offer | None = None) -> Failure | None:
        if isinstance(self.refusal, DownstreamError):
            raise self.refusal
        return self.refusal


@asynccontextmanager
async def guarded(
    farm: Farm, doorkeeper: Doorkeeper, hooks: Hooks | None = None, **config: object
) -> AsyncIterator[World]:
    made = World(farm, config)
    environment = Environment(farm, Eras(), hooks or Hooks(), made.meters, inspector=doorkeeper)
    made.member = Member("a", server(**config), "f" * 64, environment)
    made.member.start()
    try:
        yield made
    finally:
        await made.member.aclose()


async def reached(world: World, state: State) -> None:
    async with asyncio.timeout(WAIT):
        while world.member.status().state is not state:
            await asyncio.sleep(0.001)


async def test_a_quarantined_server_is_not_opened_until_it_is_let_in_and_wanted() -> None:
    """S137: no transport is made for it; an approval connects at once."""
    doorkeeper = Doorkeeper()
    doorkeeper.shut = "not as approved"
    async with guarded(Farm(MODERN), doorkeeper) as world:
        await reached(world, State.QUARANTINED)
        assert world.farm.made == []
        doorkeeper.shut = ""
        world.member.keeping.retry()
        await reached(world, State.UP)
        assert len(world.farm.made) == 1


async def test_a_server_that_is_left_is_looked_at_before_it_is_opened_again() -> None:
    """S137, S139."""
    doorkeeper = Doorkeeper()
    async with guarded(Farm(MODERN), doorkeeper) as world:
        await reached(world, State.UP)
        doorkeeper.shut = "not as approved"
        world.member.sever("not as approved")
        await reached(world, State.QUARANTINED)
        assert doorkeeper.looked == 2
        assert len(world.farm.made) == 1


async def test_a_call_that_is_not_cleared_is_not_sent() -> None:
    """S139: asked once more right before it leaves."""
    doorkeeper = Doorkeeper()
    async with guarded(Farm(MODERN), doorkeeper) as world:
        await reached(world, State.UP)
        doorkeeper.refusal = Failure(Reason.DENIED, "", hidden=True)
        assert await world.call() is doorkeeper.refusal
        assert world.farm.made[0].of("tools/call") == []


@pytest.mark.parametrize("lists_are_old", [False, True])
async def test_answers_go_only_to_what_is_as_approved(lists_are_old: bool) -> None:
    """S139: a server may turn into another one while a person thinks."""
    answers: list[object] = []

    async def asks(sent: Sent) -> Reply:
        later = sent.transport.ask("elicitation/create", mode="form", message="m", requestedSchema={"type": "object"})
        assert isinstance(later, asyncio.Future)
        answers.append(await later)
        return reply(content=[])

    doorkeeper, farm = Doorkeeper(), Farm(but(LEGACY, {"tools/call": asks}))
    ended: list[Outcome] = []
    capable = Caller(Era.MODERN, "2026-07-28", capabilities={"elicitation": {"form": {}}})
    hooks = Hooks(on_ended=lambda call, exchange, outcome: ended.append(outcome))
    async with guarded(farm, doorkeeper, hooks, asks=["elicitation"], protocol="legacy") as world:
        asked = await world.call(call(caller=capable))
        assert isinstance(asked, InputRequired)
        refusal = Failure(Reason.DENIED, "", hidden=True)
        doorkeeper.refusal = DownstreamError(Reason.UNAVAILABLE, "being read again") if lists_are_old else refusal
        accepted: Object = {key: {"action": "accept"} for key in asked.requests}
        again = call(caller=capable, input_responses=accepted, request_state=asked.state, round=2)
        if lists_are_old:
            early, exchange = Exchange(repeated=True), Exchange(repeated=True)
            with pytest.raises(DownstreamError, match="being read again"):
                await world.call(again, early)
            doorkeeper.refusal = None
            assert isinstance(await world.call(again, exchange), Complete)
            # It waited on, and who it went on with tells of its end.
            assert (early.repeated, exchange.repeated, len(answers)) == (True, False, 1)
        else:
            exchange = Exchange(repeated=True)
            assert await world.call(again, exchange) is refusal
            async with asyncio.timeout(WAIT):
                while not any(transport.cancelled for transport in farm.made):
                    await asyncio.sleep(0.001)
            # That is its end, and nobody else tells of it.
            assert (answers, exchange.repeated, ended) == ([], False, [])


async def test_what_looks_like_a_ticket_of_ours_is_a_call_with_an_end_like_any_other() -> None:
    """The state of a modern server may be any text: it must not choose how its calls are recorded."""
    farm = Farm(but(MODERN, {"tools/call": lambda sent: reply(content=[])}))
    async with world(farm) as made:
        exchange = Exchange(repeated=True)
        assert isinstance(await made.call(call(request_state="parked-by-nobody", round=2), exchange), Complete)
        assert (len(farm.made[0].of("tools/call")), exchange.repeated) == (1, False)
