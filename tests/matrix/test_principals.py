"""Who sees and may call what, and what a limit feels like to the client libraries people use."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import wire
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, serving
from tests.kit.peers import CLIENTS, driver, notes
from tests.kit.wire import EraName, HttpClient, Json, every

ALICE, BOB = "alice-" + "a" * 40, "bob-" + "b" * 40
CAROL, DAVE = "carol-" + "c" * 40, "dave-" + "d" * 40
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two notes servers; alice works with the first, bob only lists the second."""
    folder = tmp_path_factory.mktemp("principals")
    config = {
        "servers": {
            **{name: notes(folder, name).config for name in ("first", "second")},
            "dying": scripted("--era", "modern", "exit-on-call=7"),
        },
        "clients": {
            "alice": {"key": "${ALICE_KEY}"},
            "bob": {"key": "${BOB_KEY}"},
            "carol": {"key": CAROL},
            "dave": {"key": DAVE},
        },
        "policies": [
            {
                "name": "alice",
                "clients": ["alice"],
                "allow": ["first/*", "prompt:first/*", "resource:first/**"],
                "deny": ["*/delete_*"],
                "limits": [{"rate": "2/second", "tools": ["first/search_notes"]}],
            },
            {"name": "bob", "clients": ["bob"], "allow": ["second/list_notes"]},
            {"name": "carol", "clients": ["carol"], "allow": ["dying/*"]},
            {"name": "dave", "clients": ["dave"], "allow": ["dying/echo"]},
        ],
    }
    with serving(folder / "gateway", config, {"ALICE_KEY": ALICE, "BOB_KEY": BOB}) as running:
        running.await_servers("first", "second", "dying")
        yield running


async def _names(client: HttpClient, method: str, key: str) -> set[str]:
    return {str(item.get("name")) for item in await every(client, method, key)}


@ERAS
async def test_two_clients_see_different_lists(gateway: Gateway, era: EraName) -> None:
    async with wire.http_client(gateway.url, era, ALICE) as alice, wire.http_client(gateway.url, era, BOB) as bob:
        assert await _names(alice, "tools/list", "tools") == {
            f"first__{name}" for name in ("add_note", "list_notes", "search_notes", "read_note", "whoami")
        }
        assert await _names(alice, "prompts/list", "prompts") == {"first__summarize"}
        assert len(await every(alice, "resources/list", "resources")) == 4

        assert await _names(bob, "tools/list", "tools") == {"second__list_notes"}
        assert await every(bob, "prompts/list", "prompts") == []
        assert await every(bob, "resources/list", "resources") == []
        assert await every(bob, "resources/templates/list", "resourceTemplates") == []


async def test_a_list_depends_on_who_asks_and_on_nothing_else(gateway: Gateway) -> None:
    """G134, G135: a server that says ``public`` is filtered all the same, and its end changes no list."""

    async def listed(key: str) -> Json:
        async with wire.http_client(gateway.url, "modern", key) as client:
            return (await client.request("tools/list")).result

    carols, daves = await listed(CAROL), await listed(DAVE)
    assert (carols["cacheScope"], daves["cacheScope"]) == ("private", "private")
    assert [tool["name"] for tool in daves["tools"]] == ["dying__echo"]
    assert len(carols["tools"]) > 10
    async with wire.http_client(gateway.url, "modern", CAROL) as client:
        assert (await wire.call(client, "dying__echo")).refusal["reason"] == "unavailable"
        assert (await client.request("tools/list")).result["tools"] == carols["tools"]
    assert (await listed(CAROL))["tools"] == carols["tools"]
    assert (await listed(DAVE))["tools"] == daves["tools"]


@ERAS
@pytest.mark.parametrize(
    "name",
    [
        "first__read_note",
        "second__delete_note",
        "second__read_note",
        "second/list_notes",
        "list_notes",
        "SECOND__LIST_NOTES",
        "second__list_notes ",
        "second____list_notes",
        "second__list_notes\u200b",
        "first__list_notes",
    ],
)
async def test_a_hidden_tool_is_answered_like_one_that_does_not_exist(
    gateway: Gateway, era: EraName, name: str
) -> None:
    """S60, S63: one answer for unknown, hidden and misspelt names."""
    async with wire.http_client(gateway.url, era, BOB) as bob:
        hidden = await wire.call(bob, name)
        missing = await wire.call(bob, "no__such_tool")

    assert hidden.error["code"] == missing.error["code"] == -32602
    assert hidden.status == missing.status
    assert hidden.error["message"].startswith("Unknown tool: ")
    assert hidden.error.get("data") == missing.error.get("data")


@ERAS
async def test_what_is_hidden_is_out_of_reach_of_every_other_method(gateway: Gateway, era: EraName) -> None:
    """S59, S57: not listed means not callable, whatever the method."""
    hidden: list[tuple[str, Json, Json]] = [
        ("prompts/get", {"name": "first__summarize"}, {"name": "no__such"}),
        ("resources/read", {"uri": "note://n1"}, {"uri": "none://n1"}),
        ("resources/read", {"uri": "first+note://n1"}, {"uri": "none+note://n1"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "first__summarize"}, "argument": {"name": "tag", "value": ""}},
            {"ref": {"type": "ref/prompt", "name": "no__such"}, "argument": {"name": "tag", "value": ""}},
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "note://{id}"}, "argument": {"name": "id", "value": ""}},
            {"ref": {"type": "ref/resource", "uri": "none://{id}"}, "argument": {"name": "id", "value": ""}},
        ),
    ]
    if era == "legacy":
        hidden.append(("resources/subscribe", {"uri": "note://n1"}, {"uri": "none://n1"}))
    async with wire.http_client(gateway.url, era, BOB) as bob:
        for method, forbidden, unknown in hidden:
            refused, missing = await bob.request(method, forbidden), await bob.request(method, unknown)
            assert refused.status == missing.status, method
            assert refused.error["code"] == missing.error["code"], method


async def test_nobody_without_a_key_gets_in(gateway: Gateway) -> None:
    async with wire.http_client(gateway.url, "modern", "wrong-" + "x" * 40) as stranger:
        answer = await stranger.request("tools/list")

    assert answer.status == 401


@pytest.mark.parametrize("client", CLIENTS)
def test_a_tripped_limit_is_a_readable_result_and_waiting_as_told_works(
    gateway: Gateway, client: str, tmp_path: Path
) -> None:
    """G104: a refusal that a model can read and a client library survives."""
    search = {"name": "first__search_notes", "arguments": {"query": "release"}}
    with driver(client, gateway.url, tmp_path / "stderr", ALICE) as alice:
        results = (alice.ok("call", **search) for _ in range(50))
        refused = next(result for result in results if result.get("isError"))
        refusal = refused["_meta"]["dev.mcp-gateway/refusal"]

        assert refusal["reason"] == "rate_limited"
        assert refusal["mayHaveRun"] is False
        assert 0 < refusal["retryAfterMs"] <= 1000
        assert refused["content"][0]["text"]

        time.sleep(refusal["retryAfterMs"] / 1000)
        assert alice.ok("call", **search).get("isError", False) is False


@pytest.mark.parametrize("client", CLIENTS)
def test_the_session_of_an_official_client_survives_a_denied_tool(
    gateway: Gateway, client: str, tmp_path: Path
) -> None:
    with driver(client, gateway.url, tmp_path / "stderr", ALICE) as alice:
        denied = alice.do("call", name="first__delete_note", arguments={"id": "n1"})
        after = alice.ok("call", name="first__read_note", arguments={"id": "n1"})

    assert "Unknown tool: first__delete_note" in str(denied)
    assert after["structuredContent"]["title"] == "Release on Thursday"
