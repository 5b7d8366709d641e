"""Lists are read again when they may have changed, one server never waiting for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.catalog import refresh as module
from gateway.catalog.refresh import Refresher
from gateway.downstream.dialect import Page
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind, Listing
from gateway.tasks import TaskSet
from tests.kit.sources import ScriptedSource, page


class Published:
    """What a refresher published, awaitable."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[Listing, frozenset[Kind]]] = asyncio.Queue()

    async def __call__(self, listing: Listing, kinds: frozenset[Kind]) -> None:
        self.queue.put_nowait((listing, kinds))

    async def next(self) -> tuple[Listing, frozenset[Kind]]:
        async with asyncio.timeout(5):
            return await self.queue.get()


def crash(name: str, error: BaseException) -> None:
    raise AssertionError(name) from error


@asynccontextmanager
async def refresher(source: ScriptedSource, age: float = 60.0) -> AsyncIterator[tuple[Refresher, Published]]:
    tasks, published = TaskSet(crash), Published()
    try:
        yield Refresher(source, published, age, tasks), published
    finally:
        await tasks.aclose()


async def test_a_change_is_read_and_published_with_its_kinds() -> None:
    """G055."""
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]})
    async with refresher(source) as (lists, published):
        lists.changed("a", frozenset({Kind.TOOL}))
        listing, kinds = await published.next()
    assert [item.name for item in listing.definitions] == ["t"]
    assert kinds == {Kind.TOOL}


async def test_an_equal_list_is_published_too() -> None:
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]})
    async with refresher(source) as (lists, published):
        for _ in range(2):
            lists.changed("a", frozenset({Kind.TOOL}))
            assert (await published.next())[1] == {Kind.TOOL}


async def test_a_storm_of_changes_is_one_refresh() -> None:
    """T28: 10,000 notifications must not become 10,000 lists."""
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]}, {"tools": {}})
    async with refresher(source) as (lists, published):
        for _ in range(10_000):
            lists.changed("a", frozenset({Kind.TOOL}))
        await published.next()
        assert len(source.asked) == 1


async def test_a_hanging_server_delays_nobody() -> None:
    """G117."""

    class Hanging(ScriptedSource):
        async def page(self, server: str, kind: Kind, cursor: str | None) -> Page:
            if server == "stuck":
                await asyncio.Event().wait()
            return await super().page(server, kind, cursor)

    source = Hanging({("a", Kind.TOOL): [page({"name": "t"})]})
    async with refresher(source) as (lists, published):
        lists.changed("stuck")
        lists.changed("a")
        assert (await published.next())[0].server == "a"


async def test_a_failed_refresh_publishes_nothing_and_the_next_one_works() -> None:
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]})
    source.failing = True
    async with refresher(source) as (lists, published):
        lists.changed("a")
        async with asyncio.timeout(5):
            while not source.asked:
                await asyncio.sleep(0)
        source.failing = False
        lists.changed("a")
        assert (await published.next())[0].server == "a"
        assert published.queue.empty()


async def test_lists_are_read_again_when_their_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of no kind was it said that it had changed: nobody has to read an equal list again for that."""
    monkeypatch.setattr(module, "MIN_AGE", 0.01)
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"}, ttl_ms=10)]}, {"tools": {}})
    async with refresher(source) as (lists, published):
        lists.changed("a")
        await published.next()
        _, kinds = await published.next()
    assert kinds == frozenset()


async def test_a_removed_server_is_not_read_any_more() -> None:
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]})
    async with refresher(source) as (lists, published):
        lists.changed("a")
        await published.next()
        lists.apply({})
        lists.changed("b")
        assert (await published.next())[0].server == "b"


async def test_lists_are_settled_once_they_were_read_again() -> None:
    """S139."""
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]}, {"tools": {}})
    async with refresher(source) as (lists, published):
        assert await lists.settled("a", 0.0)
        lists.changed("a", frozenset({Kind.TOOL}))
        assert not await lists.settled("a", 0.0)
        assert await lists.settled("a", 5.0)
        await published.next()
        lists.changed("a", frozenset({Kind.TOOL}))
        assert not await lists.settled("a", 0.0)


async def test_lists_that_cannot_be_read_are_not_settled_and_tried_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """S139: a call on them fails instead of going out."""
    monkeypatch.setattr(module, "RETRY", 0.01)

    class Failing(ScriptedSource):
        broken = True

        async def page(self, server: str, kind: Kind, cursor: str | None) -> Page:
            if self.broken:
                raise DownstreamError(Reason.TIMEOUT, "no answer")
            return await super().page(server, kind, cursor)

    source = Failing({("a", Kind.TOOL): [page({"name": "t"})]}, {"tools": {}})
    async with refresher(source) as (lists, published):
        lists.changed("a", frozenset({Kind.TOOL}))
        assert not await lists.settled("a", 0.2)
        source.broken = False
        await published.next()
        assert await lists.settled("a", 5.0)
