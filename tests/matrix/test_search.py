"""Tools on demand: a view in search mode, in both eras, in front of a real server (G131)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import stdio_server
from tests.kit.gateway import Gateway, eventually, serving
from tests.kit.peers import HERE, Driver, driver, environment
from tests.kit.wire import Answer, EraName, HttpClient, call, every, http_client

KEY, OTHER = "k" * 40, "o" * 40
ERAS: tuple[EraName, ...] = ("modern", "legacy")
SERVER = str(Path(stdio_server.__file__))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Serve a scripted server with 300 more tools, and one that asks people."""
    folder = tmp_path_factory.mktemp("search")
    scripted = {"command": sys.executable, "args": ["-I", "-S", SERVER, "catalog=300"]}
    asking = {"command": str(environment("mcp2") / "bin" / "python"), "args": [str(HERE / "modern_server.py")]}
    config: dict[str, Any] = {
        "servers": {"big": scripted, "asking": {**asking, "asks": ["elicitation", "sampling"]}},
        "clients": {"bot": {"key": KEY}, "other": {"key": OTHER}},
        "policies": [
            {"name": "all", "clients": ["bot"], "allow": ["*/*"], "deny": ["big/env"]},
            {"name": "some", "clients": ["other"], "allow": ["big/echo"]},
        ],
        "views": {"desk": {"include": ["big/*", "asking/*"], "mode": "search"}},
    }
    with serving(folder, config) as running:
        running.await_servers("big", "asking")
        yield running


async def used(client: HttpClient, tool: str, **arguments: Any) -> Answer:
    return await call(client, tool, arguments)


async def hits(client: HttpClient, query: str, **more: Any) -> list[str]:
    result = (await used(client, "search_tools", query=query, **more)).result
    structured = result["structuredContent"]
    if structured["tools"]:
        assert json.loads(result["content"][0]["text"]) == structured
    return [tool["name"] for tool in structured["tools"]]


@pytest.mark.parametrize("era", ERAS)
async def test_three_tools_stand_for_all(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/desk", era, KEY) as client:
        tools = await every(client, "tools/list", "tools")
        assert [tool["name"] for tool in tools] == ["search_tools", "describe_tool", "call_tool"]
        assert len(json.dumps(tools)) < 3000
    async with http_client(gateway.url, era, KEY) as client:
        assert len(await every(client, "tools/list", "tools")) > 300


@pytest.mark.parametrize("era", ERAS)
async def test_a_search_finds_what_its_caller_may_see(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/desk", era, KEY) as client:
        assert (await hits(client, "waits, ends early when cancelled"))[0] == "big__sleep"
        assert (await hits(client, "return environment")).count("big__env") == 0
        assert len(await hits(client, "returns", limit=3)) == 3
        nothing = (await used(client, "search_tools", query="xylophone")).result
        assert "No tool fits these words. There are" in nothing["content"][0]["text"]
        assert (await used(client, "search_tools", query=1)).error["code"] == -32602
    async with http_client(f"{gateway.url}/desk", era, OTHER) as client:
        assert await hits(client, "returns waits reports arguments seconds") == ["big__echo"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_description_is_the_definition_that_the_whole_list_has(gateway: Gateway, era: EraName) -> None:
    async with http_client(gateway.url, era, KEY) as everything:
        listed = {tool["name"]: tool for tool in await every(everything, "tools/list", "tools")}
    async with http_client(f"{gateway.url}/desk", era, KEY) as client:
        described = (await used(client, "describe_tool", name="big__sleep")).result
        assert described["structuredContent"] == listed["big__sleep"]
        assert json.loads(described["content"][0]["text"]) == listed["big__sleep"]


@pytest.mark.parametrize("era", ERAS)
async def test_hidden_and_unknown_tools_are_not_found_all_alike(gateway: Gateway, era: EraName) -> None:
    """S60."""
    async with http_client(f"{gateway.url}/desk", era, KEY) as client:
        for tool in ("describe_tool", "call_tool"):
            for name in ("big__env", "big__nothing", "search_tools"):
                error = (await used(client, tool, name=name)).error
                assert error == {"code": -32602, "message": f"Unknown tool: {name}"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_inside_is_the_call_that_is_judged_and_recorded(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/desk", era, KEY) as client:
        echoed = (await used(client, "call_tool", name="big__echo", arguments={"a": 1, "name": "x"})).result
        assert '"a": 1' in echoed["content"][0]["text"] or '"a":1' in echoed["content"][0]["text"]
        wrong = await used(client, "call_tool", name="asking__add", arguments={"a": "no number", "b": 1})
        assert wrong.refusal["reason"] == "invalid_arguments"
        failed = (await used(client, "call_tool", name="big__fail")).result
        assert failed["isError"] is True
        assert (await used(client, "call_tool", name="big__error", arguments={"code": -12345})).error["code"] == -12345
        assert (await used(client, "call_tool", arguments={})).error["code"] == -32602

    def recorded() -> bool:
        starts = [each for each in gateway.records() if each["event"] == "call.start" and each.get("view") == "desk"]
        return {("big", "echo"), ("big", "fail")} <= {(each["server"], each["tool"]["name"]) for each in starts}

    eventually(recorded, "the log names the real tools")
    assert not [each for each in gateway.records() if (each.get("tool") or {}).get("name") == "call_tool"]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_of_a_call_inside_reaches_the_client(gateway: Gateway, era: EraName) -> None:
    async with http_client(f"{gateway.url}/desk", era, KEY) as client:
        params = {
            "name": "call_tool",
            "arguments": {"name": "big__progress", "arguments": {"steps": 3}},
            "_meta": {"progressToken": "p"},
        }
        answer = await client.request("tools/call", params)
        assert answer.result["content"]
        reports = [each["params"] for each in answer.notices if each["method"] == "notifications/progress"]
        assert [report["progressToken"] for report in reports] == ["p"] * len(reports)
        assert reports


async def test_a_call_inside_is_cancelled_like_any_other(gateway: Gateway) -> None:
    async with http_client(f"{gateway.url}/desk", "modern", KEY) as client:
        before = len((await used(client, "call_tool", name="big__cancelled")).result["content"][0]["text"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await used(client, "call_tool", name="big__sleep", arguments={"seconds": 30})
        async with asyncio.timeout(5):
            while len((await used(client, "call_tool", name="big__cancelled")).result["content"][0]["text"]) == before:
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module", params=["mcp1-legacy", "mcp2-legacy", "mcp2-modern"])
def official(
    request: pytest.FixtureRequest, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    with driver(request.param, f"{gateway.url}/desk", tmp_path_factory.mktemp("client") / "log", KEY) as connected:
        yield connected


def test_an_official_client_searches_describes_and_is_asked_in_the_middle_of_a_call(official: Driver) -> None:
    found = official.ok("call", name="search_tools", arguments={"query": "book a table"})
    assert found["structuredContent"]["tools"][0]["name"] == "asking__book"
    described = official.ok("call", name="describe_tool", arguments={"name": "asking__book"})
    assert described["structuredContent"]["name"] == "asking__book"
    inside = {"name": "asking__book", "arguments": {"place": "home"}}
    booked = official.ok("call", name="call_tool", arguments=inside)
    assert booked["content"][0]["text"] == "accept: 4 at home"


async def test_a_state_is_good_for_the_tool_inside_alone(gateway: Gateway) -> None:
    """S96: what was asked for one tool cannot be answered for another."""
    meta: dict[str, Any] = {"_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}}
    async with http_client(f"{gateway.url}/desk", "modern", KEY) as client:

        async def booked(place: str, **more: Any) -> Answer:
            inside = {"name": "asking__book", "arguments": {"place": place}}
            return await client.request("tools/call", {"name": "call_tool", "arguments": inside, **meta, **more})

        asked = (await booked("home")).result
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        answers = {key: {"action": "accept", "content": {"guests": 2}}}
        round_two = {"inputResponses": answers, "requestState": asked["requestState"]}
        assert (await booked("elsewhere", **round_two)).error["message"] == "Invalid or expired requestState"
        assert (await booked("home", **round_two)).result["content"][0]["text"] == "accept: 2 at home"
