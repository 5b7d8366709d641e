"""Approvals, with real processes: a call waits for a person, for clients of both eras, whatever they do meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.approvals import ask_admin, awaited, decide, waiting
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.wire import EraName, HttpClient

KEY: Final = "k" * 40
LOOPER: Final = "l" * 40
ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
ALICE, BOB, CAROL = "alice-token-0123456789", "bob-token-0123456789", "carol-token-0123456789"
NAME: Final = "a__echo"


def user(token: str, *roles: str) -> Json:
    return {"token_sha256": hashlib.sha256(token.encode()).hexdigest(), "roles": ["view", *roles]}


def config(folder: Path) -> Json:
    """Whatever has ``hold`` in it waits long, whatever has ``soon`` not at all; ``both`` wants two people."""
    policies = [
        {
            "name": "ask",
            "clients": ["*"],
            "allow": ["any:*/**"],
            "approve": [
                {"tools": "a/echo", "by": ["alice"], "hold": "30s", "timeout": "10m"},
                {"tools": "b/echo", "by": ["alice"], "hold": "0s", "timeout": "10m"},
                {"tools": "q/ask", "by": ["alice"], "hold": "0s", "timeout": "10m"},
                {"tools": "b/whoami", "by": ["alice", "bob"], "hold": "0s", "timeout": "10m"},
            ],
        },
        {
            "name": "two",
            "clients": ["bot"],
            "approve": [{"tools": "b/whoami", "by": ["bob"], "hold": "0s", "timeout": "10m"}],
        },
        {"name": "twice", "clients": ["looper"], "duplicates": {"window": "5m", "action": "approve"}},
    ]
    return {
        "servers": {
            "a": scripted(f"ledger={folder / 'a.ledger'}"),
            "b": scripted(f"ledger={folder / 'b.ledger'}"),
            "q": scripted(f"ledger={folder / 'q.ledger'}", asks=["elicitation"]),
            "c": scripted(concurrency=1, timeouts={"call": "1s", "max": "1s"}),
        },
        "clients": {"bot": {"key": KEY}, "looper": {"key": LOOPER}},
        "policies": policies,
        "admin": {
            "users": {
                "alice": user(ALICE, "approve"),
                "bob": user(BOB, "approve"),
                "carol": user(CAROL, "approve"),
                "dan": user("dan-token-0123456789"),
            }
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("approvals")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Gateway]:
    with serving(folder / "gateway", config(folder)) as running:
        running.await_servers("a", "b", "c", "q")
        yield running


def runs(folder: Path, server: str, word: str) -> int:
    """Count how often a server was called with a word."""
    ledger = folder / f"{server}.ledger"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return sum(json.loads(line).get("word") == word for line in lines)


async def echo(client: HttpClient, server: str, word: str, **more: object) -> wire.Answer:
    return await wire.call(client, f"{server}__echo", {"word": word, **more})


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_approved_while_it_waits_goes_on(gateway: Gateway, folder: Path, era: EraName) -> None:
    word = f"during-{era}"
    async with wire.http_client(gateway.url, era, KEY) as client, asyncio.TaskGroup() as group:
        params = {"name": NAME, "arguments": {"word": word}, "_meta": {"progressToken": "p"}}
        running = group.create_task(client.request("tools/call", params))
        shown = await awaited(gateway, ALICE, arguments=f'{{"word":"{word}"}}')
        assert (shown["principal"], shown["server"], shown["name"]) == ("key:bot", "a", "echo")
        assert shown["needs"] == [{"policy": "ask", "rule": "approve[0]", "by": ["alice"], "open": True}]
        assert runs(folder, "a", word) == 0
        assert await decide(gateway, "approve", shown["id"], ALICE) == 200
        answer = await running
    assert "isError" not in answer.result
    assert runs(folder, "a", word) == 1
    told = [notice["params"] for notice in answer.notices]
    assert told
    assert told[0]["progressToken"] == "p"
    assert shown["id"] in told[0]["message"]
    assert waiting(gateway, ALICE, id=shown["id"]) == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_nobody_approved_in_time_says_what_to_do_and_passes_once_later(
    gateway: Gateway, folder: Path, era: EraName
) -> None:
    word = f"after-{era}"
    async with wire.http_client(gateway.url, era, KEY) as client:
        first = await echo(client, "b", word)
        refusal = first.refusal
        assert (refusal["reason"], refusal["mayHaveRun"]) == ("approval_required", False)
        assert refusal["approval"] in first.result["content"][0]["text"]
        assert (await echo(client, "b", word)).refusal["approval"] == refusal["approval"]
        assert await decide(gateway, "approve", refusal["approval"], ALICE) == 200
        other = await echo(client, "b", word, more=1)
        assert other.refusal["approval"] != refusal["approval"]
        assert "isError" not in (await echo(client, "b", word)).result
        again = (await echo(client, "b", word)).refusal
        assert again["reason"] == "approval_required"
        assert again["approval"] != refusal["approval"]
    assert runs(folder, "b", word) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_denied_says_so_until_the_time_is_over(
    gateway: Gateway, folder: Path, era: EraName
) -> None:
    word = f"denied-{era}"
    async with wire.http_client(gateway.url, era, KEY) as client, asyncio.TaskGroup() as group:
        running = group.create_task(echo(client, "a", word))
        shown = await awaited(gateway, ALICE, arguments=f'{{"word":"{word}"}}')
        assert await decide(gateway, "deny", shown["id"], ALICE, "not today") == 200
        for answer in (await running, await echo(client, "a", word)):
            assert answer.refusal == {"reason": "approval_denied", "mayHaveRun": False, "approval": shown["id"]}
            assert "not today" in answer.result["content"][0]["text"]
    assert runs(folder, "a", word) == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_goes_away_finds_its_approval_when_it_comes_back(
    gateway: Gateway, folder: Path, era: EraName
) -> None:
    word = f"gone-{era}"
    arguments = f'{{"word":"{word}"}}'
    async with wire.http_client(gateway.url, era, KEY) as client, asyncio.TaskGroup() as group:
        running = group.create_task(client.request("tools/call", {"name": NAME, "arguments": {"word": word}}, "r"))
        shown = await awaited(gateway, ALICE, arguments=arguments)
        if era == "legacy":
            body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "r"}}
            await client.post(json.dumps(body), client.head)
        running.cancel()
    ended = ("call.denied", "call.end")
    eventually(lambda: any(r["event"] in ended and about(r, shown["id"]) for r in gateway.records()), "the call ended")
    assert await decide(gateway, "approve", shown["id"], ALICE) == 200
    async with wire.http_client(gateway.url, era, KEY) as client:
        assert "isError" not in (await echo(client, "a", word)).result
    assert runs(folder, "a", word) == 1


def about(entry: Json, approval: str) -> bool:
    return bool(entry["decision"].get("approval", {}).get("id") == approval)


async def test_of_many_equal_calls_one_passes_for_each_yes(gateway: Gateway, folder: Path) -> None:
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        first = (await echo(client, "b", "many")).refusal
        assert await decide(gateway, "approve", first["approval"], ALICE) == 200
        answers = await asyncio.gather(*(echo(client, "b", "many") for _ in range(20)))
    passed = [answer for answer in answers if "isError" not in answer.result]
    refused = {answer.refusal["approval"] for answer in answers if "isError" in answer.result}
    assert len(passed) == 1
    assert runs(folder, "b", "many") == 1
    assert len(refused) == 1


async def test_everyone_a_rule_wants_has_to_say_yes_and_nobody_else_counts(gateway: Gateway) -> None:
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        asked = (await wire.call(client, "b__whoami")).refusal["approval"]
        assert await decide(gateway, "approve", asked, CAROL) == 403
        assert await decide(gateway, "approve", asked, "dan-token-0123456789") == 403
        assert await decide(gateway, "approve", asked, KEY) == 401
        assert await decide(gateway, "approve", asked, ALICE) == 200
        assert await decide(gateway, "approve", asked, ALICE) == 409
        assert (await wire.call(client, "b__whoami")).refusal["reason"] == "approval_required"
        [shown] = waiting(gateway, BOB, id=asked)
        assert [(need["policy"], need["open"]) for need in shown["needs"]] == [("ask", False), ("two", True)]
        assert await decide(gateway, "approve", asked, BOB) == 200
        assert "isError" not in (await wire.call(client, "b__whoami")).result


def test_reading_what_waits_needs_the_role_also_on_loopback(gateway: Gateway) -> None:
    assert gateway.admin("/approvals")[0] == 401
    assert ask_admin(gateway, "/approvals", token="dan-token-0123456789")[0] == 403
    assert ask_admin(gateway, "/approvals", token=KEY)[0] == 401


async def test_a_repeated_call_waits_where_a_policy_wants_that(gateway: Gateway) -> None:
    async with wire.http_client(gateway.url, "modern", LOOPER) as client, asyncio.TaskGroup() as group:
        assert "isError" not in (await wire.call(client, "c__echo", {"word": "twice"})).result
        running = group.create_task(wire.call(client, "c__echo", {"word": "twice"}))
        shown = await awaited(gateway, CAROL, arguments='{"word":"twice"}')
        assert shown["needs"] == [{"policy": "twice", "rule": "duplicates", "by": [], "open": True}]
        assert "isError" not in (await wire.call(client, "c__whoami")).result, (
            "a held call takes no place at its server"
        )
        # Longer than the call itself may take.
        await asyncio.sleep(1.1)
        assert await decide(gateway, "approve", shown["id"], CAROL) == 200
        assert "isError" not in (await running).result


async def test_a_question_of_the_server_is_part_of_the_approved_call_and_its_answer_passes_once(
    gateway: Gateway,
) -> None:
    meta = wire.modern_meta({"elicitation": {"form": {}}})
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        params: Json = {"name": "q__ask", "arguments": {}, "_meta": meta}
        refusal = (await client.request("tools/call", params)).refusal
        assert await decide(gateway, "approve", refusal["approval"], ALICE) == 200
        asked = (await client.request("tools/call", params)).result
        assert asked["resultType"] == "input_required"
        answers = {key: {"action": "accept", "content": {"word": "w"}} for key in asked["inputRequests"]}
        second = params | {"requestState": asked["requestState"], "inputResponses": answers}
        assert "isError" not in (await client.request("tools/call", second)).result
        again = (await client.request("tools/call", second)).refusal
    assert (again["reason"], again["mayHaveRun"]) == ("approval_required", True)


async def test_the_command_line_lists_approves_and_denies(gateway: Gateway) -> None:
    gateway.environment["MCP_GATEWAY_ADMIN_TOKEN"] = ALICE
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        ids = [(await echo(client, "b", f"cli-{word}")).refusal["approval"] for word in ("yes", "no")]
        listed = await asyncio.to_thread(gateway.cli, "approvals", "list")
        assert (listed.returncode, listed.stderr) == (0, "")
        assert f'{ids[0]}: {{"word":"cli-yes"}}' in listed.stdout
        yes = await asyncio.to_thread(gateway.cli, "approvals", "approve", ids[0])
        assert yes.returncode == 0
        assert '  {"word":"cli-yes"}' in yes.stdout
        assert "the call passes once" in yes.stdout
        no = await asyncio.to_thread(gateway.cli, "approvals", "deny", ids[1], "--reason", "no", "--json")
        assert json.loads(no.stdout)["state"] == "denied"
        assert "isError" not in (await echo(client, "b", "cli-yes")).result
        assert (await echo(client, "b", "cli-no")).refusal["reason"] == "approval_denied"


def test_the_log_tells_who_asked_who_said_what_and_which_call_it_was_for(gateway: Gateway) -> None:
    records = gateway.records()
    kinds = {record["event"] for record in records}
    assert {"approval.requested", "approval.approved", "approval.denied", "approval.used"} <= kinds
    assert {"admin.approvals_approve", "admin.approvals_deny"} <= kinds
    [act] = [r for r in records if r["event"] == "admin.approvals_approve" and r["admin"]["asked"] is False][:1]
    assert act["admin"]["user"] == "carol"
    used = next(record for record in records if record["event"] == "approval.used")
    start = next(r for r in records if r["event"] == "call.start" and about(r, used["approval"]["id"]))
    assert start["decision"]["approval"]["by"] == ["alice"]
    text = json.dumps([record for record in records if record["event"].startswith(("approval.", "admin."))])
    assert "during-modern" not in text
    assert gateway.metric("mcp_gateway_approvals_total", outcome="requested") > 5
    assert gateway.metric("mcp_gateway_approvals_total", outcome="used") > 3


async def test_a_restart_keeps_what_waits_and_what_was_said(tmp_path: Path) -> None:
    with serving(tmp_path / "gateway", config(tmp_path)) as gateway:
        gateway.await_servers("b")
        async with wire.http_client(gateway.url, "modern", KEY) as client:
            granted, asked, used = [
                (await echo(client, "b", word)).refusal["approval"] for word in ("yes", "ask", "used")
            ]
            assert await decide(gateway, "approve", granted, ALICE) == 200
            assert await decide(gateway, "approve", used, ALICE) == 200
            assert "isError" not in (await echo(client, "b", "used")).result
        kept = gateway.folder / "state" / "approvals.json"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert "word" not in kept.read_text()
        gateway.kill()
        gateway.start()
        gateway.await_servers("b")
        assert gateway.status()["approvals"] == {"pending": 1}
        async with wire.http_client(gateway.url, "legacy", KEY) as client:
            assert "isError" not in (await echo(client, "b", "yes")).result
            assert (await echo(client, "b", "used")).refusal["reason"] == "approval_required"
            assert (await echo(client, "b", "ask")).refusal["approval"] == asked
        assert runs(tmp_path, "b", "used") == 1
        gateway.stop()
        kept.write_text(kept.read_text().replace('"v":1', '"v":1,"x":', 1))
        started = gateway.cli("serve")
        assert started.returncode == 2
        assert "the file of approvals cannot be used" in started.stderr


async def test_a_held_call_does_not_keep_the_gateway_from_ending(tmp_path: Path) -> None:
    with serving(tmp_path / "gateway", config(tmp_path)) as gateway:
        gateway.await_servers("a")
        async with wire.http_client(gateway.url, "modern", KEY) as client, asyncio.TaskGroup() as group:
            running = group.create_task(echo(client, "a", "held"))
            shown = await awaited(gateway, ALICE)
            gateway.terminate()
            async with asyncio.timeout(5):
                assert (await running).refusal["approval"] == shown["id"]
        assert gateway.wait() == 0
