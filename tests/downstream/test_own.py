"""A principal's own connection lends itself to reading its lists, and says when they may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest

from gateway.downstream.connection import Connection
from gateway.downstream.health import Restarts
from gateway.downstream.hooks import Hooks
from gateway.downstream.inspection import Offer
from gateway.downstream.oauth.credentials import Credentials, Desk
from gateway.downstream.oauth.errors import NoToken
from gateway.downstream.oauth.signin import tool
from gateway.downstream.own import Own
from gateway.downstream.placement import Placement
from gateway.downstream.setup import Setup
from gateway.downstream.slot import Slot
from gateway.downstream.slots import Slots
from gateway.errors import DownstreamError
from gateway.model.catalog import Kind
from gateway.model.outcome import Complete
from gateway.model.principal import Principal
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.tasks import TaskSet
from tests.kit.transport import MODERN, Farm, call, principal, server

TOOLS = frozenset({Kind.TOOL})


class Deaf:
    def opened(self, slot: Slot, connection: Connection) -> None: ...

    def refused(self, slot: Slot, error: DownstreamError) -> None: ...

    def ended(self, slot: Slot, reason: str) -> None: ...


class World:
    """One server's connections, and what it told."""

    def __init__(self, tasks: TaskSet, **config: object) -> None:
        self.script = dict(MODERN)
        self.farm = Farm(self.script)
        self.server = server(**config)
        self.tasks = tasks
        self.everybody: list[frozenset[Kind]] = []
        self.single: list[tuple[str, frozenset[Kind]]] = []
        hooks = Hooks(
            on_change=lambda name, kinds: self.everybody.append(kinds),
            on_own_change=lambda name, whose, kinds: self.single.append((whose, kinds)),
        )
        self.slots = Slots("a", self.server, tasks)
        placement = Placement(self.server, self._slot(None), self.slots, lambda: None, self._make)
        self.own = Own("a", hooks, Credentials("a", self.server, Desk(), tasks), placement)

    def _make(self, key: str | None, declared: Object, extensions: Object, owner: Principal | None) -> Slot:
        return self._slot(key)

    def _slot(self, key: str | None) -> Slot:
        setup = Setup("a", self.server, self.farm)
        return Slot(key, lambda: Connection(setup), Restarts("a"), self.tasks, Deaf())


@asynccontextmanager
async def world(**config: object) -> AsyncIterator[World]:
    def crash(name: str, error: BaseException) -> None:
        raise AssertionError(name) from error

    tasks = TaskSet(crash)
    made = World(tasks, **{"catalog": "principal", **config})
    try:
        yield made
    finally:
        await asyncio.gather(*(slot.aclose() for slot in made.slots.clear()))
        await tasks.aclose()


async def test_each_principal_is_lent_the_connection_of_its_calls() -> None:
    """S101."""
    async with world() as made:
        async with made.own.borrowed(principal("alice")) as first:
            [slot] = made.slots
            assert (slot.connection, slot.in_flight) == (first, 1)
        async with made.own.borrowed(principal("alice")) as again, made.own.borrowed(principal("bobby")) as other:
            assert again is first
            assert other is not first
        assert [slot.in_flight for slot in made.slots] == [0, 0]


async def test_the_one_used_last_lists_where_a_principal_has_several() -> None:
    async with world() as made:
        async with made.own.borrowed(principal("alice")) as plain:
            pass
        declared = made.slots.get(
            "principal:key:alice\nsomething", lambda: made._slot("principal:key:alice\nsomething")
        )
        with declared.use():
            newer = await declared.get()
        async with made.own.borrowed(principal("alice")) as lent:
            assert lent is newer
            assert lent is not plain
        declared.turns.hold()
        async with made.own.borrowed(principal("alice")) as lent:
            assert lent is plain


async def test_word_of_everybodys_lists_makes_every_own_offer_stale() -> None:
    """S139."""
    async with world() as made:
        async with made.own.borrowed(principal("alice")) as connection, made.own.borrowed(principal("bobby")):
            reads = []

            async def read() -> dict[str, str]:
                reads.append(1)
                return {}

            connection.offer = Offer(read)
            await connection.offer.digests()
            made.own.outdated(TOOLS)
            await connection.offer.digests()
        assert (len(reads), made.everybody) == (2, [TOOLS])
        made.own.changed("key:alice", TOOLS)
        assert made.single == [("key:alice", TOOLS)]


async def test_single_principals_are_no_news_of_a_server_that_lists_the_same_to_all() -> None:
    async with world(catalog="shared") as made:
        async with made.own.borrowed(principal("alice")):
            made.own.outdated(TOOLS)
            made.own.changed("key:alice", TOOLS)
        assert (made.everybody, made.single) == ([TOOLS], [])


async def test_a_failed_start_may_be_tried_again_at_once_when_somebody_says_so() -> None:
    async with world() as made:
        made.script.clear()
        with pytest.raises(DownstreamError):
            async with made.own.borrowed(principal("alice")):
                raise AssertionError("there is no connection")
        [slot] = made.slots
        assert slot.wait() > 0.1
        made.own.retry()
        made.script.update(MODERN)
        async with made.own.borrowed(principal("alice")):
            made.own.retry()


async def test_signing_in_is_answered_by_the_connection_that_it_gives() -> None:
    async with world() as made:
        done = await made.own.signed_in(call(principal=principal("alice")))
        content = cast("list[Object]", rawjson.peek(cast("Complete", done).result["content"]))
        assert str(content[0]["text"]).startswith("Signed in to a.")


async def test_a_definition_like_that_of_the_gateways_own_tool_is_any_other_where_lists_are_everybodys() -> None:
    asked = call("sign_in", definition=tool("a"))
    async with world() as made, world(catalog="shared") as shared:
        assert made.own.answers(asked)
        assert not shared.own.answers(asked)
        assert not made.own.answers(call("sign_in"))


async def test_who_has_nothing_to_exchange_leaves_no_failed_start_behind() -> None:
    way = {"client_id": "me", "client_secret": "pw", "issuer": "http://127.0.0.1:1"}
    async with world(auth={"token_exchange": way}, url="http://127.0.0.1:1/mcp") as made:
        with pytest.raises(NoToken, match="a token of their own"):
            async with made.own.borrowed(principal("alice")):
                raise AssertionError("there is no connection")
        assert list(made.slots) == []
        async with made.own.borrowed(replace(principal("alice"), token="t")):
            assert len(list(made.slots)) == 1
        # It is known from then on.
        async with made.own.borrowed(principal("alice")):
            pass
