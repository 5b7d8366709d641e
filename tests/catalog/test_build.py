"""Names: by table, never by splitting; nothing is moved silently."""

from __future__ import annotations

import re

import pytest

from gateway.catalog.build import assembled, build, part, parted
from gateway.config.root import Naming
from gateway.model.catalog import HeldBack, Kind
from gateway.protocol import rawjson
from tests.kit.definitions import catalog_of, definition, http, listing, stdio, tool


def exposed(*pairs: tuple[str, str], **naming: object) -> list[str]:
    lists: dict[str, list[str]] = {}
    for server, name in pairs:
        lists.setdefault(server, []).append(name)
    catalog = catalog_of({s: [tool(n) for n in names] for s, names in lists.items()}, Naming.model_validate(naming))
    return [route.exposed for route in catalog.routes]


def reasons(held: tuple[HeldBack, ...]) -> dict[str, str]:
    return {f"{item.server}/{item.name}": item.reason for item in held}


def test_a_tool_is_exposed_under_its_servers_namespace() -> None:
    assert exposed(("Files", "read"), ("wiki", "search")) == ["files__read", "wiki__search"]


def test_order_is_that_of_the_config_then_the_servers_own() -> None:
    assert exposed(("z", "b"), ("z", "a"), ("a", "x")) == ["z__b", "z__a", "a__x"]


def test_an_empty_namespace_exposes_bare_names() -> None:
    catalog = build(Naming(), {"a": stdio(namespace="")}, {"a": listing("a", tool("read"))})
    assert [route.exposed for route in catalog.routes] == ["read"]


@pytest.mark.parametrize("name", ["a.b", "a/b", "naïve", "x y", "t" * 60, "", "read\n"])
def test_odd_and_long_names_become_safe_ones_that_last(name: str) -> None:
    """G082: one tool with an odd name must not break a client's whole list."""
    [first] = exposed(("enterprise-billing-production", name))
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,48}", first)
    assert exposed(("enterprise-billing-production", name)) == [first]


@pytest.mark.parametrize("name", ["_x", "123_y"])
def test_legal_names_stay_as_they_are(name: str) -> None:
    """G083."""
    assert exposed(("a", name)) == [f"a__{name}"]


def test_two_servers_that_claim_one_name_are_both_held_back() -> None:
    """G081, S64: adding a server never re-routes a name that was in use."""
    catalog = catalog_of({"my": [tool("db_query"), tool("ok")], "my_db": [tool("query")]}, Naming(separator="_"))
    # "_" is no character of a slug, so the namespaces are "my" and "my-db"; claim the name with an explicit one.
    servers = {"my": stdio(), "other": stdio(namespace="my_db")}
    catalog = build(
        Naming(separator="_"),
        servers,
        {"my": listing("my", tool("db_query"), tool("ok")), "other": listing("other", tool("query"))},
    )
    assert [route.exposed for route in catalog.routes] == ["my_ok"]
    assert reasons(catalog.held_back) == {
        "my/db_query": "same name as other/query",
        "other/query": "same name as my/db_query",
    }


def test_names_equal_but_for_case_are_all_held_back() -> None:
    """S64."""
    catalog = catalog_of({"a": [tool("Send"), tool("send"), tool("read")]})
    assert [route.exposed for route in catalog.routes] == ["a__read"]


def test_the_first_of_two_tools_with_one_name_counts() -> None:
    """G084."""
    catalog = catalog_of({"a": [tool("t", description="first"), tool("t", description="second")]})
    [route] = catalog.routes
    assert rawjson.decode_value(route.definition.members["description"]) == "first"
    assert "listed twice" in catalog.held_back[0].reason


def test_a_tool_and_a_prompt_may_share_a_name() -> None:
    """G086."""
    catalog = catalog_of({"a": [tool("t"), definition(Kind.PROMPT, "t")]})
    assert {route.kind for route in catalog.routes} == {Kind.TOOL, Kind.PROMPT}


def test_include_exclude_and_rename_use_the_servers_own_names() -> None:
    server = stdio(tools={"include": ["read_*", "list"], "exclude": ["read_secret"], "rename": {"list": "ls"}})
    names = [tool("read_a"), tool("read_secret"), tool("list"), tool("write")]
    catalog = build(Naming(), {"a": server}, {"a": listing("a", *names)})
    assert [(route.exposed, route.name) for route in catalog.routes] == [("a__read_a", "read_a"), ("a__ls", "list")]
    assert reasons(catalog.held_back) == {"a/read_secret": "in tools.exclude", "a/write": "not in tools.include"}


def test_a_tool_with_a_bad_header_annotation_is_left_out_of_http_servers_alone() -> None:
    """S129: streamable-http §Schema Extension."""
    bad = tool("bad", inputSchema={"type": "object", "properties": {"q": {"type": "number", "x-mcp-header": "Q"}}})
    lists = {"h": listing("h", bad, tool("good")), "s": listing("s", bad)}
    catalog = build(Naming(), {"h": http(), "s": stdio()}, lists)
    assert [route.exposed for route in catalog.routes] == ["h__good", "s__bad"]
    assert catalog.held_back[0].reason.startswith("invalid x-mcp-header")


def test_only_the_name_of_a_definition_changes() -> None:
    """G087, G088: every member travels as it was, in its place."""
    original = {
        "name": "t",
        "title": "T",
        "icons": [{"src": "https://example.com/i.png"}],
        "inputSchema": {"type": "object", "$defs": {"n": {"type": "integer"}}, "additionalProperties": False},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": {"com.example/x": 9007199254740993},
        "x-future": {"deep": [1.0, 1e2]},
    }
    catalog = catalog_of({"a": [tool("t", **{k: v for k, v in original.items() if k != "name"})]})  # type: ignore[arg-type]  # reason: a literal of JSON.
    wire = rawjson.decode_value(catalog.routes[0].wire)
    assert wire == original | {"name": "a__t"}


def test_a_server_without_a_listing_has_no_routes_and_delays_nobody() -> None:
    catalog = build(Naming(), {"dead": stdio(), "a": stdio()}, {"a": listing("a", tool("t"))})
    assert [route.server for route in catalog.routes] == ["a"]
    assert set(catalog.listings) == {"a"}


def test_a_listing_of_a_server_that_is_no_longer_configured_is_ignored() -> None:
    catalog = build(Naming(), {"a": stdio()}, {"a": listing("a"), "gone": listing("gone", tool("t"))})
    assert catalog.routes == ()


def test_a_tool_whose_schema_cannot_be_checked_against_is_left_out_where_arguments_are_checked() -> None:
    """S76, S78: reported, not treated as permissive."""
    outside = tool("outside", inputSchema={"properties": {"a": {"$ref": "https://elsewhere.example/x"}}})
    listed = {"s": listing("s", outside, tool("plain"))}

    strict = build(Naming(), {"s": stdio()}, listed)
    lenient = build(Naming(), {"s": stdio(validate="warn")}, listed)

    assert [route.name for route in strict.routes] == ["plain"]
    assert [(item.name, "not fetched" in item.reason) for item in strict.held_back] == [("outside", True)]
    assert [route.name for route in lenient.routes] == ["outside", "plain"]


def test_what_pins_and_text_rules_hold_back_is_reported_and_not_exposed() -> None:
    """S138."""
    held = build(
        Naming(),
        {"a": stdio()},
        {"a": listing("a", tool("t"), tool("u"))},
        lambda server, definition: f"changed at {server}" if definition.name == "t" else None,
    )
    assert [route.name for route in held.routes] == ["u"]
    assert [(item.name, item.reason) for item in held.held_back] == [("t", "changed at a")]


def test_a_catalog_can_be_assembled_of_parts_and_they_still_collide() -> None:
    servers = {"a": stdio(namespace=""), "b": stdio(namespace="")}
    listings = {"a": listing("a", tool("x"), tool("y")), "b": listing("b", tool("z"))}
    parts = parted(Naming(), servers, listings)
    assert [item.exposed for items in parts.values() for item in items] == ["x", "y", "z"]
    other = listing("b", tool("x"))
    made = assembled({**parts, "b": part(Naming(), servers["b"], other)}, {**listings, "b": other})
    assert [route.exposed for route in made.routes] == ["y"]
    assert {(item.server, item.reason) for item in made.held_back} == {
        ("a", "same name as b/x"),
        ("b", "same name as a/x"),
    }
