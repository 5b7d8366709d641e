"""What somebody wants to hear of, told to a server soon and whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.downstream import wishes
from gateway.downstream.connection import Connection
from gateway.downstream.setup import Setup
from gateway.downstream.telling import Telling
from gateway.downstream.wishes import Wanted
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from tests.kit.transport import MODERN, WAIT, Farm, server


class Heard(Connection):
    """A connection that keeps what it was told; refuses while the test says so."""

    def __init__(self) -> None:
        super().__init__(Setup("a", server(), Farm(MODERN)))
        self.noted: list[tuple[set[str], set[str]]] = []
        self.refuses = False

    async def subscribe(self, uris: frozenset[str], tasks: frozenset[str] = frozenset()) -> None:
        self.noted.append((set(uris), set(tasks)))
        if self.refuses:
            raise DownstreamError(Reason.UNAVAILABLE, "gone")


@asynccontextmanager
async def telling(
    catalog: Connection | None, updated: Callable[[str], None] = lambda uri: None
) -> AsyncIterator[Telling]:
    tasks = TaskSet(lambda name, error: None)
    try:
        yield Telling("a", Wanted(), lambda: catalog, updated, tasks)
    finally:
        await tasks.aclose()


async def test_the_whole_wish_is_told_when_it_changes() -> None:
    heard = Heard()
    async with asyncio.timeout(WAIT), telling(heard) as one:
        one.subscribe("file:///a")
        one.watch("t-1")
        await one.told()
        assert heard.noted[-1] == ({"file:///a"}, {"t-1"})
        one.watch("t-1")
        one.unwatch("t-1")
        await one.told()
        before = len(heard.noted)
        one.unwatch("t-1")
        one.unsubscribe("file:///a")
        await one.told()
        assert heard.noted[-1] == (set(), set())
        assert len(heard.noted) > before
        assert not one.wants("file:///a")
        one.unwatch("never")


async def test_a_server_that_is_back_is_told_if_there_is_anything_to_tell() -> None:
    heard = Heard()
    async with asyncio.timeout(WAIT), telling(heard) as one:
        one.again()
        await one.told()
        assert heard.noted == []
        one.watch("t-1")
        await one.told()
        one.again()
        await one.told()
        assert heard.noted == [(set(), {"t-1"})] * 2


async def test_what_a_server_that_was_away_may_have_changed_counts_as_changed_once_it_listens_again() -> None:
    """The client sees no restart: nothing else would make it read again (2026-07-28 stdio §Unexpected Termination)."""
    heard, updated = Heard(), list[str]()
    async with asyncio.timeout(WAIT), telling(heard, updated.append) as one:
        one.subscribe("file:///b")
        one.subscribe("file:///a")
        await one.told()
        assert updated == []
        heard.refuses = True
        one.again()
        await one.told()
        assert updated == []
        heard.refuses = False
        one.again()
        await one.told()
        assert updated == ["file:///a", "file:///b"]
        one.subscribe("file:///c")
        await one.told()
        assert updated == ["file:///a", "file:///b"]


async def test_a_server_that_is_down_or_refuses_is_left_alone() -> None:
    async with asyncio.timeout(WAIT), telling(None) as one:
        one.subscribe("file:///a")
        await one.told()
        assert one.wants("file:///a")
        assert one.wants("file:///a/part")
        assert not one.wants("file:///ab")
    heard = Heard()
    heard.refuses = True
    async with asyncio.timeout(WAIT), telling(heard) as one:
        one.subscribe("file:///a")
        await one.told()
        assert len(heard.noted) == 1


async def test_there_is_an_end_to_what_can_be_wished_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wishes, "MAX_WISHES", 1)
    async with telling(None) as one:
        one.watch("t-1")
        with pytest.raises(DownstreamError, match="limit of subscribed tasks") as caught:
            one.watch("t-2")
        assert caught.value.reason is Reason.OVERLOADED
        one.subscribe("file:///a")
        with pytest.raises(DownstreamError, match="limit of subscribed resources"):
            one.subscribe("file:///b")
