"""The notes server of the demonstration, over a real pipe and in both eras."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.peers import DEMO
from tests.kit.wire import EraName, Json, StdioClient, every

SEED = DEMO / "data" / "team.json"
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@asynccontextmanager
async def notes(folder: Path, era: EraName) -> AsyncIterator[StdioClient]:
    command: list[str | Path] = [
        sys.executable,
        DEMO / "notes.py",
        "--dataset",
        "team",
        "--file",
        folder / "n" / "a.json",
        "--seed",
        SEED,
    ]
    async with wire.stdio_client(command, era, folder) as client:
        yield client


@ERAS
async def test_each_tool_does_what_its_name_says(tmp_path: Path, era: EraName) -> None:
    async with notes(tmp_path, era) as client:
        assert (await wire.call(client, "whoami")).result["structuredContent"] == {"dataset": "team", "notes": 4}
        added = await wire.call(client, "add_note", {"title": "Ünïcode \u2028", "text": "x", "tags": ["new"]})
        assert added.result["structuredContent"]["id"] == "n5"
        read = (await wire.call(client, "read_note", {"id": "n5"})).result
        assert read["structuredContent"] == {"id": "n5", "title": "Ünïcode \u2028", "text": "x", "tags": ["new"]}
        assert json.loads(read["content"][0]["text"]) == read["structuredContent"]
        listed = (await wire.call(client, "list_notes", {"tag": "new"})).result["structuredContent"]
        assert [note["id"] for note in listed["notes"]] == ["n5"]
        found = (await wire.call(client, "search_notes", {"query": "FREEZE tuesday"})).result["structuredContent"]
        assert (found["total"], found["notes"][0]["id"]) == (1, "n1")
        assert (await wire.call(client, "delete_note", {"id": "n5"})).result["structuredContent"] == {"deleted": "n5"}
        gone = (await wire.call(client, "read_note", {"id": "n5"})).result
        assert gone["isError"] is True


async def test_notes_outlive_the_process(tmp_path: Path) -> None:
    async with notes(tmp_path, "modern") as client:
        await wire.call(client, "add_note", {"title": "kept", "text": "for later"})
    async with notes(tmp_path, "legacy") as client:
        assert (await wire.call(client, "read_note", {"id": "n5"})).result["structuredContent"]["title"] == "kept"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("add_note", {"title": "a"}, "text is missing"),
        ("add_note", {"title": "", "text": "a"}, "title is too short"),
        ("add_note", {"title": "a", "text": "b", "color": "red"}, "color is not an argument"),
        ("add_note", {"title": "a", "text": "b", "tags": [1]}, "tags must hold strings"),
        ("add_note", {"title": "a", "text": "b", "tags": ["t"] * 21}, "too many items"),
        ("read_note", {"id": "../etc"}, "id must match"),
        ("search_notes", {"query": "a", "limit": 0}, "limit is out of range"),
        ("search_notes", {"query": "a", "limit": True}, "limit must be of type integer"),
    ],
)
async def test_wrong_arguments_are_a_result_that_says_what_is_wrong(
    tmp_path: Path, tool: str, arguments: Json, says: str
) -> None:
    async with notes(tmp_path, "modern") as client:
        result = (await wire.call(client, tool, arguments)).result

    assert result["isError"] is True
    assert says in result["content"][0]["text"]


@ERAS
async def test_prompts_resources_and_completion_follow_the_notes(tmp_path: Path, era: EraName) -> None:
    async with notes(tmp_path, era) as client:
        prompt = (await client.request("prompts/get", {"name": "summarize", "arguments": {"tag": "ops"}})).result
        assert "On-call hand-over" in prompt["messages"][0]["content"]["text"]
        assert "Northwind" not in prompt["messages"][0]["content"]["text"]
        assert [resource["uri"] for resource in await every(client, "resources/list", "resources")] == [
            f"note://n{number}" for number in range(1, 5)
        ]
        assert [
            item["uriTemplate"] for item in await every(client, "resources/templates/list", "resourceTemplates")
        ] == ["note://{id}"]
        read = (await client.request("resources/read", {"uri": "note://n4"})).result
        assert "Northwind" in read["contents"][0]["text"]
        for ref, value, expected in (
            ({"type": "ref/prompt", "name": "summarize"}, "re", ["release"]),
            ({"type": "ref/resource", "uri": "note://{id}"}, "n", ["n1", "n2", "n3", "n4"]),
        ):
            params = {"ref": ref, "argument": {"name": "tag", "value": value}}
            completion = (await client.request("completion/complete", params)).result["completion"]
            assert completion == {"values": expected, "total": len(expected), "hasMore": False}


async def test_each_era_gets_what_its_specification_says(tmp_path: Path) -> None:
    async with notes(tmp_path, "modern") as client:
        discovered = (await client.request("server/discover")).result
        assert discovered["supportedVersions"][0] == "2026-07-28"
        assert discovered["resultType"] == "complete"
        for method in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
            result = (await client.request(method)).result
            assert (result["resultType"], result["cacheScope"]) == ("complete", "public")
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "notes"
        missing = (await client.request("resources/read", {"uri": "note://n99"})).error
        assert (missing["code"], missing["data"]) == (-32602, {"uri": "note://n99"})
        assert (await client.request("ping")).error["code"] == -32601
        old = {"_meta": {"io.modelcontextprotocol/protocolVersion": "1900-01-01"}}
        refused = (await client.request("tools/list", old)).error
        assert refused["code"] == -32022
        assert refused["data"]["requested"] == "1900-01-01"
    async with notes(tmp_path, "legacy") as client:
        assert (await client.request("ping")).result == {}
        assert set((await client.request("tools/list")).result) == {"tools"}
        assert (await client.request("resources/read", {"uri": "note://n99"})).error["code"] == -32002
        assert (await client.request("server/discover")).error["code"] == -32601


async def test_a_listener_hears_of_new_resources_on_its_own_subscription(tmp_path: Path) -> None:
    async with notes(tmp_path, "modern") as client:
        listen = {"notifications": {"resourcesListChanged": True, "toolsListChanged": True}}
        await client.send("subscriptions/listen", "watch", listen)
        notices = (await wire.call(client, "add_note", {"title": "a", "text": "b"})).notices
        await client.notify("notifications/cancelled", {"requestId": "watch"})
        after = (await wire.call(client, "delete_note", {"id": "n5"})).notices

    assert [notice["method"] for notice in notices] == [
        "notifications/subscriptions/acknowledged",
        "notifications/resources/list_changed",
    ]
    assert notices[0]["params"]["notifications"] == {"resourcesListChanged": True}
    assert {notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for notice in notices} == {"watch"}
    assert after == []


def test_nonsense_on_the_pipe_is_answered_or_ignored_and_the_end_of_the_pipe_ends_the_server(tmp_path: Path) -> None:
    lines = [
        b"nonsense",
        b"[]",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":7}}',
        b'{"jsonrpc":"2.0","method":"notifications/unknown"}',
        b'{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"1999-01-01"}}',
        b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"\\ud800"}}',
    ]
    command: list[str | Path] = [sys.executable, DEMO / "notes.py", "--dataset", "d", "--file", tmp_path / "a.json"]
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, timeout=10, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0
    assert [answer.get("error", {}).get("code") for answer in answers] == [
        -32700,
        -32700,
        -32600,
        -32602,
        -32602,
        None,
        -32602,
    ]
    assert answers[5]["result"]["protocolVersion"] == "2025-11-25"
