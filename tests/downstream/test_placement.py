"""Which connection serves a call (S96, S101): everybody's, its principal's, a second one beside it, its task's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.downstream.connection import Connection
from gateway.downstream.health import Restarts
from gateway.downstream.placement import Placement
from gateway.downstream.setup import Setup
from gateway.downstream.slot import Slot
from gateway.downstream.slots import Slots
from gateway.downstream.turns import Held
from gateway.errors import DownstreamError, Reason
from gateway.model.call import Call, Caller, TaskRef
from gateway.model.principal import Principal
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from gateway.tasks import TaskSet
from tests.kit.transport import LEGACY, MODERN, Farm, Script, call, principal, server

ANSWERS: Object = {"elicitation": {"form": {}}}
EXTENDED: Object = {"extensions": {"com.example/thing": {}}}


class Deaf:
    def opened(self, slot: Slot, connection: Connection) -> None: ...

    def refused(self, slot: Slot, error: DownstreamError) -> None: ...

    def ended(self, slot: Slot, reason: str) -> None: ...


class World:
    """The connections of one server, and what was declared on those that were made for somebody."""

    def __init__(self, tasks: TaskSet, script: Script, known: Era | None, **config: object) -> None:
        self.farm = Farm(script)
        self.server = server(**config)
        self.tasks = tasks
        self.made: list[tuple[Object, Object, Principal | None]] = []
        self.catalog = self._slot(None)
        self.slots = Slots("a", self.server, tasks)
        self.placement = Placement(self.server, self.catalog, self.slots, lambda: known, self._make)

    def _make(self, key: str | None, declared: Object, extensions: Object, owner: Principal | None) -> Slot:
        self.made.append((declared, extensions, owner))
        return self._slot(key)

    def _slot(self, key: str | None) -> Slot:
        setup = Setup("a", self.server, self.farm)
        return Slot(key, lambda: Connection(setup), Restarts("a"), self.tasks, Deaf())

    async def place(self, made: Call, seconds: float = 5.0) -> Slot:
        return await self.placement.slot_for(made, asyncio.get_running_loop().time() + seconds)


def crashed(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@asynccontextmanager
async def world(script: Script, known: Era | None = None, **config: object) -> AsyncIterator[World]:
    tasks = TaskSet(crashed)
    made = World(tasks, script, known, **config)
    try:
        yield made
    finally:
        for slot in (made.catalog, *made.slots.clear()):
            await slot.aclose()
        await tasks.aclose()
    assert made.farm.live == []


def by(name: str, capabilities: Object | None = None) -> Call:
    return call(principal=principal(name), caller=Caller(Era.MODERN, "2026-07-28", capabilities=capabilities or {}))


def about(task: str, name: str, instance: str) -> Call:
    return replace(by(name), method="tasks/get", params={"taskId": task}, task=TaskRef(task, task, instance))


async def test_a_modern_servers_calls_go_to_everybodys_connection() -> None:
    async with world(MODERN) as one:
        for name in ("alice", "bob"):
            assert await one.place(by(name)) is one.catalog
        assert one.made == []


async def test_a_legacy_server_has_a_connection_for_each_principal_and_it_is_told_whose() -> None:
    async with world(LEGACY) as one:
        alice, bob = await one.place(by("alice")), await one.place(by("bob"))
        assert alice is await one.place(by("alice"))
        assert len({id(slot) for slot in (alice, bob, one.catalog)}) == 3
        assert one.made == [({}, {}, principal("alice")), ({}, {}, principal("bob"))]


@pytest.mark.parametrize(("known", "config"), [(Era.LEGACY, {}), (None, {"protocol": "legacy"})])
async def test_an_era_that_is_known_is_not_asked_for(known: Era | None, config: dict[str, object]) -> None:
    async with world(LEGACY, known, **config) as one:
        await one.place(by("alice"))
        assert one.farm.made == []


async def test_an_era_that_is_not_known_is_asked_for_only_where_it_matters() -> None:
    async with world(LEGACY, isolation="principal") as one:
        await one.place(by("alice"))
        assert one.farm.made == []
    async with world(LEGACY) as one:
        await one.place(by("alice"))
        assert len(one.farm.made) == 1


async def test_what_a_client_can_answer_is_declared_to_a_legacy_server_that_asks() -> None:
    async with world(LEGACY, asks=["elicitation"]) as one:
        asked, other = await one.place(by("alice", ANSWERS)), await one.place(by("alice"))
        assert asked is not other
        assert one.made == [(ANSWERS, {}, principal("alice")), ({}, {}, principal("alice"))]


async def test_an_extension_is_declared_to_a_legacy_server_on_a_connection_of_its_own() -> None:
    async with world(LEGACY) as one:
        with_it, without = await one.place(by("alice", EXTENDED)), await one.place(by("alice"))
        assert with_it is not without
        assert [made[1] for made in one.made] == [{"com.example/thing": {}}, {}]


async def test_a_call_leaves_a_connection_on_which_people_are_waited_for_and_comes_back_to_it() -> None:
    async with world(LEGACY, asks=["elicitation"]) as one:
        first = await one.place(by("alice", ANSWERS))
        async with first.turns.take(5):
            first.turns.hold()
            second = await one.place(by("alice", ANSWERS))
            assert second is not first
        assert await one.place(by("alice", ANSWERS)) is first


async def test_where_people_are_waited_for_on_every_connection_there_is_an_end_to_the_wait() -> None:
    async with world(LEGACY, asks=["elicitation"], isolation="shared") as one:
        first = await one.place(by("alice", ANSWERS))
        async with first.turns.take(5):
            first.turns.hold()
            with pytest.raises(Held) as caught:
                await one.place(by("alice", ANSWERS), seconds=0.01)
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.OVERLOADED, False)


async def test_a_call_that_becomes_a_task_waits_for_the_connection_where_it_is_found_again() -> None:
    async with world(LEGACY, asks=["elicitation"]) as one:
        begun = by("alice", ANSWERS)
        begun = replace(begun, params={**begun.params, "task": {}})
        first = await one.place(begun)
        async with first.turns.take(5):
            first.turns.hold()
            with pytest.raises(Held):
                await one.place(begun, seconds=0.01)
        assert await one.place(begun) is first


async def test_a_task_is_asked_about_where_it_runs_and_by_those_who_share_that_place() -> None:
    async with world(LEGACY) as one:
        await one.place(by("alice"))
        slot = await one.place(by("alice", EXTENDED))
        instance = (await slot.get()).instance
        assert await one.place(about("t", "alice", instance)) is slot
        # The instance is no secret: whoever names it without having a share in it finds nothing there.
        with pytest.raises(DownstreamError, match="lost with it"):
            await one.place(about("t", "bob", instance))


async def test_a_task_is_lost_with_the_process_that_ran_it() -> None:
    async with world(LEGACY) as one:
        slot = await one.place(by("alice"))
        connection = await slot.get()
        one.farm.made[-1].end()
        assert connection.over.is_set()
        with pytest.raises(DownstreamError, match='server "a" has ended since this task began') as caught:
            await one.place(about("t", "alice", connection.instance))
        assert (caught.value.reason, caught.value.may_have_run) == (Reason.UNAVAILABLE, True)


async def test_a_remote_servers_task_outlives_the_connection_it_was_begun_on() -> None:
    async with world(LEGACY, url="http://x.example/mcp") as one:
        slot = await one.place(by("alice"))
        assert await one.place(about("t", "alice", "long gone")) is slot


async def test_who_has_lists_of_its_own_finds_the_era_out_over_its_own_connection() -> None:
    """S46: the gateway's own account may never sign in there, and its sign-in is for operators alone."""
    async with world(LEGACY, catalog="principal", asks=["elicitation"]) as one:
        slot = await one.place(by("alice", ANSWERS))
        assert one.catalog.connection is None
        assert [declared for declared, _, _ in one.made] == [{}, ANSWERS]
        assert slot.connection is None
        plain = one.placement.own_slot(principal("alice"))
        assert plain.connection is not None
        await slot.get()
        assert one.placement.own_slot(principal("bob")) not in (slot, plain)
