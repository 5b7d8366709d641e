"""What a server says arrives as it said it: compared with the same server asked directly, in its own era."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.peers import Farm, Peer
from tests.kit.wire import Client, Json, every

SERVERS = ("notes", "time", "git", "everything", "files", "modern", "everything-http", "modern-http")
LISTS = {"tools/list": "tools", "prompts/list": "prompts"}


@asynccontextmanager
async def both(farm: Farm, peer: Peer, folder: Path) -> AsyncIterator[tuple[Client, Client]]:
    """Connect to the bare server and to the gateway, in the server's era."""
    async with wire.http_client(farm.gateway.url, peer.era) as through:
        if peer.url:
            async with wire.http_client(peer.url, peer.era) as bare:
                yield bare, through
        else:
            async with wire.stdio_client(peer.command, peer.era, folder) as direct:
                yield direct, through


def unstamped(result: Json) -> Json:
    """Drop what the gateway may add or replace for a client of the server's own era, and nothing else."""
    rest = {key: value for key, value in result.items() if key not in ("ttlMs", "cacheScope")}
    ours = ("dev.mcp-gateway/instance", "io.modelcontextprotocol/serverInfo")
    meta = {key: value for key, value in rest.pop("_meta", {}).items() if key not in ours}
    return rest | ({"_meta": meta} if meta else {})


@pytest.mark.parametrize("server", SERVERS)
async def test_every_field_of_a_definition_arrives_unchanged_but_for_the_name(
    farm: Farm, server: str, tmp_path: Path
) -> None:
    """G087, G088: nothing that we do not know is lost."""
    async with both(farm, farm.peers[server], tmp_path) as (bare, through):
        for method, key in LISTS.items():
            own = await _listed(bare, method, key)
            exposed = [item for item in await every(through, method, key) if _belongs(item["name"], server)]

            assert [{**item, "name": item["name"].removeprefix(f"{server}__")} for item in exposed] == own


async def _listed(bare: Client, method: str, key: str) -> list[Json]:
    answer = await bare.request(method)
    return [] if "error" in answer.message else await every(bare, method, key)


def _belongs(name: str, server: str) -> bool:
    return name.startswith(f"{server}__")


@pytest.mark.parametrize("server", SERVERS)
async def test_the_result_of_a_call_arrives_unchanged(farm: Farm, server: str, tmp_path: Path) -> None:
    peer = farm.peers[server]
    async with both(farm, peer, tmp_path) as (bare, through):
        own = (await wire.call(bare, peer.tool, peer.arguments)).result
        result = (await wire.call(through, f"{server}__{peer.tool}", peer.arguments)).result

    assert unstamped(result) == unstamped(own)
    assert result["_meta"]["dev.mcp-gateway/instance"]["server"] == server


@pytest.mark.parametrize(
    ("server", "tool", "arguments"),
    [
        ("notes", "read_note", {"id": "n999"}),
        ("notes", "list_notes", {}),
        ("modern", "fail", {}),
        ("modern", "describe", {"place": {"name": "Æ", "position": {"latitude": 1.5, "longitude": 2}, "tags": ["x"]}}),
        ("everything", "get-structured-content", {"location": "New York"}),
        ("everything", "get-tiny-image", {}),
        ("everything", "get-resource-links", {"count": 2}),
        ("everything", "get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("files", "list_directory", {"path": "/nowhere"}),
    ],
)
async def test_errors_structured_content_images_and_annotations_arrive_unchanged(
    farm: Farm, server: str, tool: str, arguments: Json, tmp_path: Path
) -> None:
    async with both(farm, farm.peers[server], tmp_path) as (bare, through):
        own = (await wire.call(bare, tool, arguments)).result
        result = (await wire.call(through, f"{server}__{tool}", arguments)).result

    assert unstamped(result) == unstamped(own)


async def test_prompts_resources_and_completions_arrive_unchanged(farm: Farm, tmp_path: Path) -> None:
    async with both(farm, farm.peers["notes"], tmp_path) as (bare, through):
        for method, own, exposed in (
            ("prompts/get", {"name": "summarize"}, {"name": "notes__summarize"}),
            ("resources/read", {"uri": "note://n2"}, {"uri": "note://n2"}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "summarize"}, "argument": {"name": "tag", "value": "o"}},
                {"ref": {"type": "ref/prompt", "name": "notes__summarize"}, "argument": {"name": "tag", "value": "o"}},
            ),
            (
                "completion/complete",
                {"ref": {"type": "ref/resource", "uri": "note://{id}"}, "argument": {"name": "id", "value": "n"}},
                {"ref": {"type": "ref/resource", "uri": "note://{id}"}, "argument": {"name": "id", "value": "n"}},
            ),
        ):
            direct = (await bare.request(method, own)).result
            result = (await through.request(method, exposed)).result
            assert unstamped(result) == unstamped(direct), method


@pytest.mark.parametrize("server", ["notes", "modern", "everything"])
async def test_a_client_of_the_other_era_gets_the_same_names_and_schemas(
    farm: Farm, server: str, tmp_path: Path
) -> None:
    peer = farm.peers[server]
    other: wire.EraName = "legacy" if peer.era == "modern" else "modern"
    async with both(farm, peer, tmp_path) as (bare, _), wire.http_client(farm.gateway.url, other) as through:
        own = await every(bare, "tools/list", "tools")
        exposed = [tool for tool in await every(through, "tools/list", "tools") if _belongs(tool["name"], server)]

    assert [tool["name"] for tool in exposed] == [f"{server}__{tool['name']}" for tool in own]
    assert [tool["inputSchema"] for tool in exposed] == [tool["inputSchema"] for tool in own]


async def test_the_lists_are_the_same_twice_and_in_the_order_of_the_config(farm: Farm) -> None:
    async with wire.http_client(farm.gateway.url, "modern") as client:
        first = await every(client, "tools/list", "tools")
        second = await every(client, "tools/list", "tools")

    assert first == second
    order = list(dict.fromkeys(tool["name"].partition("__")[0] for tool in first))
    assert order == list(farm.peers)
