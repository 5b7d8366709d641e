"""Views: a named subset at an address of its own, with everything else as at the endpoint."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.kit.gateway import ROOT, Gateway, eventually, serving
from tests.kit.wire import EraName, HttpClient, call, every, http_client

KEY, OTHER = "k" * 40, "o" * 40
ERAS: tuple[EraName, ...] = ("modern", "legacy")


def notes(name: str) -> dict[str, Any]:
    arguments = [str(ROOT / "demo" / "notes.py"), "--dataset", name, "--file", f"{name}.json"]
    return {"command": sys.executable, "args": arguments}


CONFIG: dict[str, Any] = {
    "servers": {"one": notes("one"), "two": notes("two")},
    "clients": {"bot": {"key": KEY}, "other": {"key": OTHER}},
    "policies": [
        {"name": "all", "clients": ["bot"], "allow": ["any:*/**"], "deny": ["two/delete_note"]},
        {"name": "some", "clients": ["other"], "allow": ["two/whoami"]},
    ],
    "views": {
        "reading": {"include": ["one/read_note", "one/list_notes", "two/*", "resource:one/*://**"]},
        "none": {"include": []},
    },
    "naming": {"page_size": 2},
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with serving(tmp_path_factory.mktemp("views"), CONFIG) as running:
        running.await_servers("one", "two")
        yield running


async def names(client: HttpClient) -> set[str]:
    return {tool["name"] for tool in await every(client, "tools/list", "tools")}


@pytest.mark.parametrize("era", ERAS)
async def test_a_view_lists_what_it_includes_and_policies_allow(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/reading", era, KEY) as client:
        listed = await names(client)
        assert {"one__read_note", "one__list_notes", "two__whoami"} <= listed
        assert not {"one__whoami", "two__delete_note"} & listed
        assert await every(client, "prompts/list", "prompts") == []
        templates = await every(client, "resources/templates/list", "resourceTemplates")
        assert len(templates) == 1
    async with http_client(f"{gateway.url}/reading", era, OTHER) as client:
        assert await names(client) == {"two__whoami"}
    async with http_client(f"{gateway.url}/none", era, KEY) as client:
        assert await names(client) == set()


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_view_does_not_include_is_unknown_in_it(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/reading", era, KEY) as client:
        hidden = (await call(client, "one__whoami")).error
        unknown = (await call(client, "one__nothing")).error
        assert hidden["code"] == unknown["code"] == -32602
        assert hidden["message"] == "Unknown tool: one__whoami"
        assert (await call(client, "two__whoami")).result["structuredContent"]["dataset"] == "two"
        prompt = await client.request("prompts/get", {"name": "one__summarize", "arguments": {"tag": "x"}})
        assert prompt.error["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_the_audit_log_names_the_view(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/reading", era, KEY) as client:
        await call(client, "two__whoami", {})
        await call(client, "one__whoami", {})

    def recorded() -> bool:
        return any(
            (record.get("event"), record.get("view"), record.get("server")) == ("call.start", "reading", "two")
            and record["mcp"]["era"] == era
            for record in gateway.records()
        )

    eventually(recorded, "the call is recorded with its view")


@pytest.mark.parametrize("era", ERAS)
async def test_a_cursor_is_good_for_its_own_view_alone(gateway: Gateway, era: EraName) -> None:
    """S75."""
    async with (
        http_client(gateway.url, era, KEY) as everything,
        http_client(f"{gateway.url}/reading", era, KEY) as some,
    ):
        cursor = (await everything.request("tools/list")).result["nextCursor"]
        assert (await some.request("tools/list", {"cursor": cursor})).error["code"] == -32602
        assert (await everything.request("tools/list", {"cursor": cursor})).result["tools"]


async def test_a_session_is_good_for_its_own_view_alone(gateway: Gateway) -> None:
    """S88."""
    async with http_client(f"{gateway.url}/reading", "legacy", KEY) as client:
        head = client.head
        body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        async with aiohttp.ClientSession() as http:
            for place, status in (("", 404), ("/none", 404), ("/reading", 200)):
                async with http.post(gateway.url + place, data=body, headers=head) as reply:
                    assert reply.status == status, place


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_view_is_not_found_after_authentication_alone(gateway: Gateway, era: EraName) -> None:
    async with aiohttp.ClientSession() as http:
        client = HttpClient(http, f"{gateway.url}/nothing", era, KEY)
        status, _ = await client.post("{}", client.head)
        stranger = HttpClient(http, f"{gateway.url}/nothing", era)
        refused, _ = await stranger.post("{}", stranger.head)
        assert (status, refused) == (404, 401)


def test_a_view_that_is_taken_out_ends_its_sessions_and_subscriptions(gateway: Gateway) -> None:
    reading = CONFIG["views"]["reading"]
    before = gateway.metric("mcp_gateway_sessions")

    async def held() -> None:
        async with http_client(f"{gateway.url}/reading", "legacy", KEY) as client:
            assert gateway.metric("mcp_gateway_sessions") == before + 1
            gateway.reload({**CONFIG, "views": {}})
            eventually(lambda: gateway.metric("mcp_gateway_sessions") == before, "the session is over")
            status, _ = await client.post("{}", client.head)
            assert status == 404
            client.session_id = ""

    try:
        asyncio.run(held())
    finally:
        gateway.reload({**CONFIG, "views": {"reading": reading, "none": {"include": []}}})


def test_the_operator_sees_what_a_view_shows(gateway: Gateway) -> None:
    shown = gateway.cli("tools", "--as", "bot", "--view", "reading", "--json")
    assert shown.returncode == 0, shown.stderr
    assert '"one__read_note"' in shown.stdout
    assert "not_in_view" in shown.stdout or "view reading" in shown.stdout
    assert gateway.cli("tools", "--view", "nothing").returncode == 2
