"""Lists are read to their end, within bounds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.catalog import collect as module
from gateway.catalog.collect import One, collect
from gateway.downstream.dialect import Page
from gateway.errors import DownstreamError, Reason
from gateway.model.catalog import Kind
from tests.kit.sources import ScriptedSource, page


def tools(start: int, end: int) -> list[dict[str, object]]:
    return [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(start, end)]


async def test_every_page_of_a_list_is_read() -> None:
    """G057: 44 tools in pages of 20 are 44 tools."""
    pages = [
        page(*tools(0, 20), after="1"),  # type: ignore[arg-type]  # reason: literals of JSON.
        page(*tools(20, 40), after="2"),  # type: ignore[arg-type]  # reason: literals of JSON.
        page(*tools(40, 44)),  # type: ignore[arg-type]  # reason: literals of JSON.
    ]
    listing = await collect(ScriptedSource({("a", Kind.TOOL): pages}), "a")
    assert [item.name for item in listing.of(Kind.TOOL)] == [f"t{n}" for n in range(44)]
    assert (listing.era, listing.version, listing.instructions) == ("modern", "2026-07-28", "hi")


async def test_an_empty_cursor_is_a_cursor() -> None:
    """Pagination §Implementation Guidelines: an empty string is not the end."""
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "x"}, after="")]})
    with pytest.raises(DownstreamError, match="repeats a cursor"):
        await collect(source, "a")
    assert ("a", Kind.TOOL, "") in source.asked


async def test_only_declared_capabilities_are_asked_for() -> None:
    source = ScriptedSource({}, {"prompts": {}})
    await collect(source, "a")
    assert {kind for _, kind, _ in source.asked} == {Kind.PROMPT}


async def test_a_server_without_capabilities_has_empty_lists() -> None:
    listing = await collect(ScriptedSource({}, {}), "a")
    assert listing.definitions == ()
    assert not listing.public


async def test_one_unusable_definition_costs_only_itself() -> None:
    """S145: a definition over 256 KiB is shown to nobody, whatever is long in it."""
    items = [{"name": "good"}, {"noname": 1}, "text", {"name": "big", "description": "x" * (257 * 1024)}]
    listing = await collect(ScriptedSource({("a", Kind.TOOL): [page(*items)]}), "a")  # type: ignore[arg-type]  # reason: literals of JSON.
    assert [item.name for item in listing.definitions] == ["good"]
    assert [item.name for item in listing.rejected] == ["", "", "big"]


async def test_the_smallest_hint_counts_and_a_page_without_one_leaves_none() -> None:
    pages = {("a", Kind.TOOL): [page(ttl_ms=5000, public=True, after="1"), page(ttl_ms=300, public=True)]}
    listing = await collect(ScriptedSource(pages, {"tools": {}}), "a")
    assert (listing.ttl_ms, listing.public) == (300, True)
    pages[("a", Kind.TOOL)][1] = page()
    listing = await collect(ScriptedSource(pages, {"tools": {}}), "a")
    assert (listing.ttl_ms, listing.public) == (None, False)


async def test_a_failing_page_keeps_nothing() -> None:
    source = ScriptedSource({})
    source.failing = True
    with pytest.raises(DownstreamError) as caught:
        await collect(source, "a")
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_a_server_that_is_not_connected_cannot_be_listed() -> None:
    source = ScriptedSource({})
    source.connected = False
    with pytest.raises(DownstreamError, match="not connected"):
        await collect(source, "a")


async def test_pages_and_items_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAGES", 3)
    endless = [page({"name": f"t{n}"}, after=str(n + 1)) for n in range(10)]
    with pytest.raises(DownstreamError, match="over 3 pages"):
        await collect(ScriptedSource({("a", Kind.TOOL): endless}, {"tools": {}}), "a")
    monkeypatch.setattr(module, "MAX_ITEMS", 2)
    with pytest.raises(DownstreamError, match="over 2 tools"):
        await collect(ScriptedSource({("a", Kind.TOOL): [page({"name": "t0"}, {"name": "t1"}, {"name": "t2"})]}), "a")


async def test_what_is_listed_word_for_word_as_before_is_not_read_again() -> None:
    pages = [page({"name": "a", "n": 1.5}, {"name": "b"})]
    first = await collect(ScriptedSource({("a", Kind.TOOL): pages}), "a")
    pages = [page({"name": "a", "n": 1.5}, {"name": "b", "description": "new"})]
    second = await collect(ScriptedSource({("a", Kind.TOOL): pages}), "a", first)
    assert second.definitions[0] is first.definitions[0]
    assert second.definitions[1].digest != first.definitions[1].digest


async def test_a_long_list_lets_others_run_in_between() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    items = tools(0, 1000)
    counting = asyncio.get_running_loop().create_task(other())
    listing = await collect(ScriptedSource({("a", Kind.TOOL): [page(*items)]}), "a")  # type: ignore[arg-type]  # reason: literals of JSON.
    counting.cancel()
    assert len(listing.definitions) == 1000
    assert turns >= 20


async def test_what_could_not_become_an_item_is_named_for_operators() -> None:
    lists = {("a", Kind.TOOL): [replace(page({"name": "x"}), left_out=(("y", "has no address"),))]}
    listing = await collect(ScriptedSource(lists, {"tools": {}}), "a")
    assert [(each.name, each.reason) for each in listing.rejected] == [("y", "has no address")]


async def test_so_many_are_named_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LEFT_OUT", 2)
    lists = {("a", Kind.TOOL): [replace(page({"name": "x"}), left_out=(("y", "no"),) * 3)]}
    assert len((await collect(ScriptedSource(lists, {"tools": {}}), "a")).rejected) == 2


async def test_one_connection_is_a_source_of_lists_too() -> None:
    source = ScriptedSource({("a", Kind.TOOL): [page({"name": "t"})]}, {"tools": {}})
    hello = source.hello("a")
    assert hello is not None

    async def fetch(kind: Kind, cursor: str | None) -> Page:
        return await source.page("a", kind, cursor)

    listing = await collect(One(fetch, hello), "a")
    assert [item.name for item in listing.definitions] == ["t"]
