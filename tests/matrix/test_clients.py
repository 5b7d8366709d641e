"""The official client libraries, as they are, through the gateway to the servers people run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.peers import CLIENTS, Driver, Farm, driver

SERVERS = ("notes", "time", "git", "everything", "files", "modern", "everything-http", "modern-http")


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, farm: Farm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """One official client, connected once for all the servers."""
    log = tmp_path_factory.mktemp("client") / "stderr"
    with driver(request.param, farm.gateway.url, log) as connected:
        yield connected


@pytest.mark.parametrize("server", SERVERS)
def test_an_official_client_lists_and_calls_the_tools_of_a_real_server(client: Driver, farm: Farm, server: str) -> None:
    peer = farm.peers[server]
    exposed = f"{server}__{peer.tool}"

    assert exposed in [tool["name"] for tool in client.ok("tools")["tools"]]
    result = client.ok("call", name=exposed, arguments=peer.arguments)

    assert result.get("isError", False) is False
    assert peer.expect in result["content"][0]["text"]


def test_an_official_client_gets_prompts_and_resources(client: Driver) -> None:
    assert "notes__summarize" in [prompt["name"] for prompt in client.ok("prompts")["prompts"]]
    prompt = client.ok("prompt", name="notes__summarize", arguments={"tag": "release"})
    assert "Release on Thursday" in prompt["messages"][0]["content"]["text"]

    assert "note://n1" in [resource["uri"] for resource in client.ok("resources")["resources"]]
    assert "place://{name}/note" in str(client.ok("templates")["resourceTemplates"])
    assert "Release on Thursday" in client.ok("read", uri="note://n1")["contents"][0]["text"]


def test_the_session_of_an_official_client_survives_an_unknown_tool_and_a_failing_one(client: Driver) -> None:
    unknown = client.do("call", name="notes__nothing", arguments={})
    failed = client.ok("call", name="notes__read_note", arguments={"id": "n999"})
    after = client.ok("call", name="notes__whoami", arguments={})

    assert "Unknown tool: notes__nothing" in str(unknown)
    assert failed["isError"] is True
    assert after["structuredContent"]["dataset"] == "notes"


def test_two_servers_with_the_same_tools_are_told_apart(client: Driver) -> None:
    names = [tool["name"] for tool in client.ok("tools")["tools"]]

    assert {"everything__echo", "everything-http__echo", "modern__add", "modern-http__add"} <= set(names)
    assert len(names) == len(set(names))
