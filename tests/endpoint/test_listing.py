"""Lists: complete, in order, per principal, with sealed cursors and honest cache hints (S75, S102, G134, G135)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.config.root import Naming, View
from gateway.endpoint import listing
from gateway.endpoint.listing import Reader
from gateway.errors import RequestError
from gateway.model.call import Caller
from gateway.model.catalog import Kind, Listing
from gateway.model.principal import ANONYMOUS, Principal
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members
from gateway.protocol.versions import Era
from gateway.state.sealing import Sealer
from tests.kit.definitions import definition, tool
from tests.kit.definitions import listing as listed
from tests.kit.endpoint import NOTES, OFFERED, SEALER, FakeMoment, config, keyed, moment

MODERN = Caller(Era.MODERN, "2026-07-28")
LEGACY = Caller(Era.LEGACY, "2025-11-25")
ALICE = Principal("key:alice", "key", "alice")


ANYBODY = Reader(ANONYMOUS, MODERN)


def page(
    now: FakeMoment, cursor: object = None, reader: Reader = ANYBODY, method: str = "tools/list"
) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(rawjson.encode(listing.page(now, SEALER, method, reader, cursor)))
    return value


def many(count: int = 5, size: int = 2) -> FakeMoment:
    tools = tuple(tool(f"t{number}") for number in range(count))
    view = View(include=[f"notes/t{number}" for number in range(count)])
    return moment(config(naming=Naming(page_size=size), views={"w": view}), {"notes": tools})


def names(result: dict[str, Any]) -> list[str]:
    return [item["name"] for item in result["tools"]]


def test_pages_join_to_the_whole_list_in_its_order() -> None:
    now, found, cursor = many(), [], None
    for _ in range(3):
        result = page(now, cursor)
        found += names(result)
        cursor = result.get("nextCursor")
    assert found == [f"notes__t{number}" for number in range(5)]
    assert cursor is None


def test_a_list_that_fills_its_page_exactly_has_no_next_one() -> None:
    assert "nextCursor" not in page(many(2, 2))


def test_an_empty_list_is_a_list() -> None:
    assert page(many(0))["tools"] == []


def test_every_page_says_the_same_of_caching() -> None:
    now = many()
    first = page(now)
    second = page(now, first["nextCursor"])
    assert (first["ttlMs"], first["cacheScope"]) == (second["ttlMs"], second["cacheScope"]) == (60_000, "private")


@pytest.mark.parametrize("cursor", ["", "x", 7, {}, True])
def test_a_cursor_that_is_none_is_invalid(cursor: object) -> None:
    with pytest.raises(RequestError) as caught:
        page(many(), cursor)
    assert caught.value.code == -32602


def flipped(cursor: str) -> str:
    return cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]


def test_a_cursor_is_good_only_where_it_was_given_out() -> None:
    now = many()
    cursor = page(now)["nextCursor"]
    later = many()
    later.digest = "d2"
    other_key = Sealer([b"o" * 32])
    foreign = other_key.seal("cursor", b"2", b"")
    for moment_, token, reader, method in (
        (now, flipped(cursor), Reader(ANONYMOUS, MODERN), "tools/list"),
        (now, foreign, Reader(ANONYMOUS, MODERN), "tools/list"),
        (now, cursor, Reader(ALICE, MODERN), "tools/list"),
        (now, cursor, Reader(ANONYMOUS, MODERN), "prompts/list"),
        (now, cursor, Reader(ANONYMOUS, Caller(Era.MODERN, "v", view="w")), "tools/list"),
        (later, cursor, Reader(ANONYMOUS, MODERN), "tools/list"),
    ):
        with pytest.raises(RequestError):
            page(moment_, token, reader, method)
    assert names(page(now, cursor)) == ["notes__t2", "notes__t3"]


def test_hidden_items_are_not_listed() -> None:
    now = moment()
    now.hides = lambda principal, target: target.name == "add"
    assert names(page(now)) == ["notes__region"]


def test_a_legacy_list_has_nothing_of_the_modern_era() -> None:
    assert set(page(moment(), reader=Reader(ANONYMOUS, LEGACY))) == {"tools"}


def test_a_modern_list_is_complete_and_names_the_gateway() -> None:
    result = page(moment())
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "aiohttp-mcp-gateway"


def test_definitions_are_the_catalogs_own_bytes() -> None:
    odd = (
        rawjson.encode({"name": "t", "inputSchema": {"type": "object"}})[:-1] + b',"n":1.50,"big":12345678901234567890}'
    )
    now = moment(lists={"notes": (NOTES[0].parse(Kind.TOOL, odd),)})
    members: Members = listing.page(now, SEALER, "tools/list", Reader(ANONYMOUS, MODERN), None)
    assert b'"n":1.50,"big":12345678901234567890' in rawjson.raw_bytes(members["tools"])


def test_a_uri_is_shown_with_its_server_only_where_it_is_ambiguous() -> None:
    now = moment(lists={"notes": NOTES, "other": (definition(Kind.RESOURCE, "note://one", size=1),)})
    shown = [item["uri"] for item in page(now, method="resources/list")["resources"]]
    assert shown == ["notes+note://one", "other+note://one"]
    now.hides = lambda principal, target: target.server == "other"
    assert [item["uri"] for item in page(now, method="resources/list")["resources"]] == ["note://one"]


@pytest.mark.parametrize(("era", "kept"), [("legacy", False), ("modern", True)])
def test_what_a_legacy_tool_says_of_tasks_is_not_told_to_modern_clients(era: str, *, kept: bool) -> None:
    """Of a modern server it would be a member that nobody here knows, and those stay."""
    now = moment(lists={"notes": listed("notes", tool("t", execution={"taskSupport": "optional"}), era=era)})
    assert ("execution" in page(now)["tools"][0]) is kept


def test_a_legacy_client_gets_output_schemas_it_knows() -> None:
    now = moment(lists={"notes": (tool("t", outputSchema={"type": "array"}),)})
    assert page(now)["tools"][0]["outputSchema"] == {"type": "array"}
    legacy = page(now, reader=Reader(ANONYMOUS, LEGACY))["tools"][0]["outputSchema"]
    assert legacy == {"type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"]}


def server(ttl: int | None = None, public: bool = False, announces: bool = True) -> Listing:
    offered = OFFERED if announces else {"tools": {}}
    return listed("notes", tool("t"), ttl_ms=ttl, public=public, capabilities=offered)


@pytest.mark.parametrize(
    ("listings", "ttl"),
    [
        ([server(1000), server(2000)], 1000),
        ([server(10**15)], 300_000),
        ([server(-1)], 0),
        ([server(None)], 60_000),
        ([server(None, announces=False)], 0),
        ([server(500_000), server(None)], 60_000),
        ([], 0),
    ],
)
def test_a_time_to_live_is_the_smallest_within_bounds(listings: list[Listing], ttl: int) -> None:
    now = moment(lists={f"s{number}": found for number, found in enumerate(listings)} or {"x": ()})
    if not listings:
        now.catalog = type(now.catalog)()
    assert listing.hints(now, [Kind.TOOL])["ttlMs"] == ttl


@pytest.mark.parametrize(
    ("settings", "listings", "scope"),
    [
        (config(), [server(public=True), server(public=True)], "public"),
        (config(), [server(public=True), server()], "private"),
        (keyed(), [server(public=True)], "private"),
    ],
)
def test_only_an_anonymous_gateway_of_public_servers_is_public(
    settings: Any, listings: list[Listing], scope: str
) -> None:
    now = moment(settings, {f"s{number}": found for number, found in enumerate(listings)})
    assert listing.hints(now, Kind)["cacheScope"] == scope


def test_a_server_without_a_feature_does_not_shorten_its_lists() -> None:
    only_tools = listed("notes", tool("t"), capabilities={"tools": {"listChanged": True}})
    assert listing.hints(moment(lists={"notes": only_tools}), [Kind.PROMPT])["ttlMs"] == 60_000


def test_a_tool_names_its_view_so_that_it_leads_to_its_own_server() -> None:
    """MCP Apps §Resource Discovery: the same URI at two servers, and one that is nobody else's."""
    both = (
        tool("show", _meta={"ui": {"resourceUri": "ui://v", "visibility": ["app"]}}),
        definition(Kind.RESOURCE, "ui://v"),
    )
    own = tool("own", _meta={"ui/resourceUri": "ui://own"})
    now = moment(lists={"a": (*both, own), "b": both})
    shown = {item["name"]: item["_meta"] for item in page(now)["tools"]}
    assert shown == {
        "a__show": {"ui": {"resourceUri": "ui://a+v", "visibility": ["app"]}},
        "a__own": {"ui/resourceUri": "ui://own"},
        "b__show": {"ui": {"resourceUri": "ui://b+v", "visibility": ["app"]}},
    }
    listed_uris = [item["uri"] for item in page(now, method="resources/list")["resources"]]
    assert listed_uris == ["ui://a+v", "ui://b+v"]
    now.hides = lambda principal, target: target.server == "b"
    assert {item["name"]: item["_meta"] for item in page(now)["tools"]} == {
        "a__show": {"ui": {"resourceUri": "ui://v", "visibility": ["app"]}},
        "a__own": {"ui/resourceUri": "ui://own"},
    }


def test_lists_that_depend_on_who_asks_are_never_public_and_stale_while_they_are_missing() -> None:
    whole = moment(config(), {"crm": server(ttl=9000, public=True)})
    assert listing.hints(whole, Kind) == {"ttlMs": 9000, "cacheScope": "public"}
    assert listing.hints(replace(whole, own=("crm",)), Kind) == {"ttlMs": 9000, "cacheScope": "private"}
    assert listing.hints(replace(whole, own=("notes", "crm")), Kind) == {"ttlMs": 0, "cacheScope": "private"}
