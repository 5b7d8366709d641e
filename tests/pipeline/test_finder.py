from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest

from gateway.catalog.index import Index, weights
from gateway.model.catalog import Route
from gateway.pipeline import finder as finding
from gateway.pipeline.finder import Finder, Words
from tests.catalog.test_index import route

MANY = tuple(route(f"tool_{number}", "weather report") for number in range(600))


def everything(_: Route) -> bool:
    return True


async def test_only_what_may_be_seen_is_found_and_no_more_than_asked_for() -> None:
    finder = Finder()
    assert len(await finder.find(MANY, "weather", everything, 10)) == 10
    odd = await finder.find(MANY, "weather", lambda hit: hit.name.endswith("599"), 10)
    assert [hit.name for hit in odd] == ["tool_599"]
    assert await finder.find(MANY, "weather", lambda hit: False, 10) == []


async def test_an_index_is_built_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    words = Words()
    index = words.index

    def counted(routes: Sequence[Route]) -> Index:
        built.append(1)
        return index(routes)

    monkeypatch.setattr(words, "index", counted)
    finder = Finder(words)
    await asyncio.gather(*(finder.find(MANY, "weather", everything, 1) for _ in range(5)))
    assert built == [1]


async def test_what_is_known_of_definitions_is_kept_for_the_next_catalog_and_forgotten_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = Words()
    await Finder(words).find(MANY, "weather", everything, 1)
    assert len(words) == len(MANY)
    weighed: list[str] = []

    def noted(each: Route) -> Mapping[str, float]:
        weighed.append(each.name)
        return weights(each)

    monkeypatch.setattr(finding, "weights", noted)
    new = route("fresh", "weather")
    hits = await Finder(words).find((*MANY[:10], new), "fresh", everything, 5)
    assert [hit.name for hit in hits] == ["fresh"]
    assert weighed == ["fresh"]
    assert len(words) == 11


async def test_a_long_search_lets_others_have_a_turn() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        for _ in range(2):
            await asyncio.sleep(0)
            turns += 1

    await Finder().find(MANY, "weather", everything, 1)
    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        await Finder().find(MANY, "weather", lambda hit: False, 1)
        assert turns == 2


async def test_only_so_many_searches_run_beside_the_loop_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, lock = 0, 0, threading.Lock()
    ranked = Index.ranked

    def counted(index: Index, query: str) -> list[Route]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            return ranked(index, query)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(Index, "ranked", counted)
    finder = Finder()
    found = await asyncio.gather(*(finder.find(MANY, "weather", everything, 1) for _ in range(20)))
    assert [len(hits) for hits in found] == [1] * 20
    assert 1 <= most <= finding.AT_ONCE
