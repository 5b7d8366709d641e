"""The last lists of every server, for the config it has now."""

from __future__ import annotations

from pathlib import Path

from gateway.listings import Listings, changed_kinds, unseen
from gateway.model.catalog import Kind
from gateway.state.folder import FolderDocuments
from tests.kit.configs import loaded
from tests.kit.definitions import catalog_of, definition, listing, tool

KEY = b"k" * 32


async def test_lists_are_kept_for_the_next_start_of_the_same_config(tmp_path: Path) -> None:
    config = loaded({"servers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    server, lists = config.config.servers["a"], listing("a", tool("t"))
    first = Listings(FolderDocuments(tmp_path), KEY)
    assert first.put(server, lists) is None
    assert first.put(server, lists) == lists
    await first.keep(server, lists)
    again = Listings(FolderDocuments(tmp_path), KEY)
    assert again.known(config) == {}
    await again.refresh(config)
    assert [item.name for item in again.known(config)["a"].definitions] == ["t"]
    assert "b" not in again.known(config)
    other = loaded({"servers": {"a": {"command": "x", "args": ["other"]}}})
    assert again.look(other) == {}
    assert again.known(other) == {}
    slower = loaded({"servers": {"a": {"command": "x", "timeouts": {"call": "5s"}}}})
    assert again.known(slower) == again.known(config)


def test_lists_of_servers_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    config = loaded({"servers": {"a": {"command": "x"}}})
    made = Listings(FolderDocuments(tmp_path), KEY)
    made.put(config.config.servers["a"], listing("a", tool("t")))
    made.retain(["b"])
    assert made.known(config) == {}


def test_only_kinds_that_differ_have_changed() -> None:
    before = listing("a", tool("t"), definition(Kind.PROMPT, "p"))
    assert changed_kinds(None, before) == frozenset(Kind)
    assert changed_kinds(before, before) == frozenset()
    assert changed_kinds(before, listing("a", tool("t", title="T"), definition(Kind.PROMPT, "p"))) == {Kind.TOOL}


def test_news_that_is_all_held_back_is_none() -> None:
    """A client hears of a change only where it would read another list."""
    one = catalog_of({"a": [tool("t")], "b": [tool("t")]})
    two = catalog_of({"a": [tool("t"), tool("u")], "b": [tool("t")]})
    kinds = frozenset({Kind.TOOL, Kind.PROMPT})
    assert unseen("a", kinds, one, two) == {Kind.PROMPT}
    assert unseen("b", kinds, one, two) == kinds
