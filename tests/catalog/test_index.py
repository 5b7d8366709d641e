from __future__ import annotations

import pytest

from gateway.catalog import index as indexing
from gateway.catalog.index import Index, terms, weights
from gateway.model.catalog import Definition, Kind, Route
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Value


def route(name: str, description: str = "", server: str = "work", **more: Value) -> Route:
    """Return a tool as a catalog holds it."""
    item = rawjson.encode({"name": name, "description": description, **more})
    return Route(server, f"{server}__{name}", Definition.parse(Kind.TOOL, item), item)


TOOLS = (
    route("create_event", "Adds an entry to a calendar.", "calendar"),
    route("listEvents", "Lists the entries of a calendar.", "calendar"),
    route("send_message", "Sends text to a channel.", "chat", title="Post a message"),
    route("run", "Runs a statement.", "warehouse", inputSchema={"properties": {"sql": {"description": "A SELECT"}}}),
    route("query", "Asks the knowledge base.", "wiki"),
    route("検索", "顧客の請求書を検索します", "crm"),
)


def found(query: str) -> list[str]:
    return [hit.name for hit in Index.of(TOOLS).ranked(query)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listEvents of HTTPServer2", ["list", "event", "http", "server", "2"]),
        ("create_event-now", ["create", "event", "now"]),
        ("Entries, classes and a bus", ["entry", "classe", "bus"]),
        ("the of to", []),
        ("naïve", ["na", "ï", "ve"]),
        ("請求書", ["請求", "求書"]),
        ("", []),
    ],
)
def test_texts_are_cut_into_terms(text: str, expected: list[str]) -> None:
    assert list(terms(text)) == expected


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create calendar event", "create_event"),
        ("list events", "listEvents"),
        ("post a message to a channel", "send_message"),
        ("sql", "run"),
        ("warehouse", "run"),
        ("wiki", "query"),
        ("calend entry add", "create_event"),
        ("請求書", "検索"),
    ],
)
def test_the_tool_that_fits_best_comes_first(query: str, first: str) -> None:
    assert found(query)[0] == first


def test_words_that_no_tool_has_find_nothing() -> None:
    assert found("xylophone") == []
    assert found("the") == []
    assert Index.of(()).ranked("anything") == []


def test_a_beginning_of_a_word_finds_it_from_three_letters_on() -> None:
    assert found("cal") == ["create_event", "listEvents"]
    assert found("ca") == []


def test_equal_tools_stay_in_catalog_order() -> None:
    twins = tuple(route("same", "words", f"s{number}") for number in range(5))
    assert [hit.server for hit in Index.of(twins).ranked("words")] == ["s0", "s1", "s2", "s3", "s4"]


def test_a_word_that_very_many_tools_have_orders_hits_and_does_not_make_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MANY", 10)
    many = tuple(route(f"tool{'x' * number}", "common") for number in range(20))
    special = route("other", "common rare")
    plain = route("third", "rare and a few more words here")
    assert [hit.name for hit in Index.of((*many, plain, special)).ranked("common rare")] == ["other", "third"]


def test_only_so_many_words_of_a_definition_and_of_a_query_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MAX_WORDS", 3)
    monkeypatch.setattr(indexing, "MAX_TERMS", 2)
    tool = route("one", "two three four five")
    assert set(weights(tool)) == {"one", "work", "two"}
    assert Index.of([tool]).ranked("zzz yyy one") == []
    assert Index.of([tool]).ranked("x" * indexing.MAX_QUERY + " one") == []


@pytest.mark.parametrize("schema", ["text", 1, None, {"properties": []}, {"properties": {"deep": {"items": 3}}}])
def test_a_schema_of_any_shape_is_survived(schema: Value) -> None:
    assert Index.of([route("tool", inputSchema=schema)]).ranked("tool")
