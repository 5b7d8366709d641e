"""MCP Apps through a real gateway: every view leads to the server whose tool it shows (extension, 2026-01-26)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.extending import APPS, ERAS, extended, talker
from tests.kit.extension_server import UI, VIEW
from tests.kit.gateway import Gateway, Json, serving
from tests.kit.wire import EraName

KEY = "mcpgw_guest000_" + "g" * 43
BOB = "mcpgw_bob00000_" + "b" * 43
SERVERS = ("New Board", "old")
SLUGS = ("new-board", "old")
"""Both have the same view, which only the second one lists."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers = {
        SERVERS[0]: extended(SLUGS[0], "modern", {UI: {}}, "--unlisted"),
        SERVERS[1]: extended(SLUGS[1], "legacy", {UI: {}}),
    }
    policies = [
        {"name": "all", "clients": ["guest"], "allow": ["any:*/**"]},
        {"name": "one", "clients": ["bob"], "allow": ["New Board/*", "resource:New Board/ui://**", "old/*"]},
    ]
    clients = {"guest": {"key": KEY}, "bob": {"key": BOB}}
    with serving(
        tmp_path_factory.mktemp("apps"), {"servers": servers, "clients": clients, "policies": policies}
    ) as running:
        running.await_servers(*servers)
        yield running


def tools(result: Json) -> dict[str, Json]:
    """Return the definitions that a list holds, by name."""
    return {tool["name"]: tool for tool in result["tools"]}


@pytest.mark.parametrize("era", ERAS)
async def test_a_view_of_two_servers_is_named_so_that_it_leads_to_the_tools_own_server(
    gateway: Gateway, era: EraName
) -> None:
    """It keeps the scheme, without which a host takes it for no view."""
    client = await talker(gateway.port, era, APPS, KEY)
    found = tools((await client.ask("tools/list")).result)
    for slug in SLUGS:
        named = f"ui://{slug}+board/main.html"
        meta = found[f"{slug}__show"]["_meta"]
        assert meta == {"ui": {"resourceUri": named, "csp": {}}, "ui/resourceUri": named, "com.example/x": 1}
        contents = (await client.ask("resources/read", {"uri": named})).result["contents"]
        assert [(item["text"], item["uri"]) for item in contents] == [(slug, named)]
        result = (await client.call(f"{slug}__show")).result
        assert result["_meta"]["ui"] == {"resourceUri": named}
        assert result["content"][0]["uri"] == named


@pytest.mark.parametrize("era", ERAS)
async def test_the_bare_view_is_ambiguous_and_the_lists_show_the_form_that_is_not(
    gateway: Gateway, era: EraName
) -> None:
    client = await talker(gateway.port, era, APPS, KEY)
    assert (await client.ask("resources/read", {"uri": VIEW})).code == -32602
    listed = (await client.ask("resources/list")).result["resources"]
    assert [item["uri"] for item in listed] == ["ui://old+board/main.html"]
    read = await client.ask("resources/read", {"uri": f"New Board+{VIEW}"})
    assert read.result["contents"][0]["text"] == "new-board"


@pytest.mark.parametrize("era", ERAS)
async def test_a_view_is_shown_bare_where_no_other_server_could_be_meant(gateway: Gateway, era: EraName) -> None:
    """It is no matter that its server does not list it: servers may leave views out of their lists."""
    client = await talker(gateway.port, era, APPS, BOB)
    found = tools((await client.ask("tools/list")).result)
    assert found["new-board__show"]["_meta"]["ui"]["resourceUri"] == VIEW
    contents = (await client.ask("resources/read", {"uri": VIEW})).result["contents"]
    assert [(item["text"], item["uri"]) for item in contents] == [("new-board", VIEW)]


@pytest.mark.parametrize("era", ERAS)
async def test_a_view_that_may_not_be_read_leads_to_nobody_elses(gateway: Gateway, era: EraName) -> None:
    """S72."""
    client = await talker(gateway.port, era, APPS, BOB)
    named = tools((await client.ask("tools/list")).result)["old__show"]["_meta"]["ui"]["resourceUri"]
    assert named == "ui://old+board/main.html"
    assert (await client.ask("resources/read", {"uri": named})).code == (-32602 if era == "modern" else -32002)


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("era", ERAS)
async def test_tools_for_apps_alone_keep_saying_so_and_can_be_called(gateway: Gateway, era: EraName, slug: str) -> None:
    client = await talker(gateway.port, era, APPS, KEY)
    refresh = tools((await client.ask("tools/list")).result)[f"{slug}__refresh"]
    assert refresh["_meta"]["ui"]["visibility"] == ["app"]
    assert "content" in (await client.call(f"{slug}__refresh")).result


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("era", ERAS)
async def test_the_extension_is_negotiated_both_ways(gateway: Gateway, era: EraName, slug: str) -> None:
    client = await talker(gateway.port, era, APPS, KEY)
    assert client.offered["extensions"] == {UI: {}}
    assert (await client.told(f"{slug}__meta"))["capabilities"] == APPS
    plain = await talker(gateway.port, era, {}, KEY)
    assert (await plain.told(f"{slug}__meta"))["capabilities"] == {}
