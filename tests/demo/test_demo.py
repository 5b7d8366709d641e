"""What the README promises of the demonstration, with the shipped files and a real gateway."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
import yaml

from tests.kit import wire
from tests.kit.gateway import Gateway, serving
from tests.kit.peers import DEMO, environment
from tests.kit.wire import HttpClient, every


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Serve a copy of the demonstration on other ports, with the time server as `make run` finds it: on the PATH."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("state", "__pycache__"))
    config = yaml.safe_load((folder / "gateway.yaml").read_text("utf-8"))
    path = f"{environment('servers') / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with serving(folder, config, {"PATH": path}) as gateway:
        gateway.await_servers("team-notes", "personal-notes", "time")
        yield gateway


async def _tools(client: HttpClient) -> set[str]:
    return {tool["name"] for tool in await every(client, "tools/list", "tools")}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_two_instances_of_one_server_are_told_apart(demo: Gateway, era: wire.EraName) -> None:
    async with wire.http_client(demo.url, era) as client:
        names = await _tools(client)
        team = (await wire.call(client, "team-notes__whoami")).result
        personal = (await wire.call(client, "personal-notes__whoami")).result

    assert {"team-notes__whoami", "personal-notes__whoami", "time__get_current_time"} <= names
    assert team["structuredContent"]["dataset"] == "team notes"
    assert personal["structuredContent"]["dataset"] == "personal notes"
    assert team["_meta"]["dev.mcp-gateway/instance"]["server"] == "team-notes"


async def test_deleting_is_for_personal_notes_only(demo: Gateway) -> None:
    async with wire.http_client(demo.url, "modern") as client:
        names = await _tools(client)
        denied = await wire.call(client, "team-notes__delete_note", {"id": "n1"})
        deleted = await wire.call(client, "personal-notes__delete_note", {"id": "n3"})

    assert "personal-notes__delete_note" in names
    assert "team-notes__delete_note" not in names
    assert denied.error["message"] == "Unknown tool: team-notes__delete_note"
    assert deleted.result["structuredContent"] == {"deleted": "n3"}


async def test_the_sixth_search_within_a_minute_is_refused_and_says_when_to_try_again(demo: Gateway) -> None:
    async with wire.http_client(demo.url, "modern") as client:
        answers = [await wire.call(client, "team-notes__search_notes", {"query": "release"}) for _ in range(6)]

    assert [answer.result["isError"] for answer in answers] == [False] * 5 + [True]
    assert answers[5].refusal["reason"] == "rate_limited"
    assert answers[5].refusal["mayHaveRun"] is False
    assert 0 < answers[5].refusal["retryAfterMs"] <= 12_000


def test_the_audit_log_of_the_demonstration_is_where_it_says_and_verifies(demo: Gateway) -> None:
    verified = demo.cli("audit", "verify", demo.folder / "state" / "audit")

    assert verified.returncode == 0, verified.stdout
