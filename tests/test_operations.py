"""What operators ask of a running gateway."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gateway.admin.operations import Act
from gateway.config.loader import load
from gateway.model.principal import ANONYMOUS
from gateway.operations import Operator, principal_named
from gateway.runtime import Runtime
from tests.test_runtime import notes, records, running, tools, until, write

ACT = Act("alice", "127.0.0.1")
KEY = "k" * 40


def configured(folder: Path) -> Path:
    policy = {"name": "p", "clients": ["bot"], "allow": ["a/*"], "deny": ["a/delete_note"]}
    return write(
        folder,
        servers={"a": notes(folder, "one")},
        clients={"bot": {"key": KEY, "groups": ["automation"]}},
        policies=[policy],
    )


async def ready(runtime: Runtime) -> Operator:
    await until(lambda: bool(runtime.current().catalog.routes), "a catalog")
    return Operator(runtime, "http://127.0.0.1:1/mcp")


async def test_status_tells_everything_and_no_secret(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        status = (await ready(runtime)).status()
    assert (status["ready"], status["anonymous"]) == (True, False)
    servers = status["servers"]
    assert isinstance(servers, dict)
    assert list(servers) == ["a"]
    assert KEY not in json.dumps(status)


async def test_readiness_ends_with_draining(tmp_path: Path) -> None:
    """S176, S186."""
    async with running(configured(tmp_path)) as runtime:
        operator = await ready(runtime)
        assert operator.readiness().ready
        runtime.begin_drain()
        assert operator.readiness().reasons == ("draining",)


async def test_tools_as_says_what_is_hidden_and_why(tmp_path: Path) -> None:
    """G075."""
    async with running(configured(tmp_path)) as runtime:
        operator = await ready(runtime)
        seen = operator.tools_as("bot")
        nothing = operator.tools_as("anonymous")
    visible, hidden = seen["tools"], seen["hidden"]
    assert isinstance(visible, list)
    assert isinstance(hidden, list)
    assert "a/whoami" in [row["tool"] for row in visible if isinstance(row, dict)]
    [why] = [row["why"] for row in hidden if isinstance(row, dict) and row["tool"] == "a/delete_note"]
    assert re.fullmatch(r"policy \S+: deny\[0\] \S+: denies", str(why))
    assert nothing["tools"] == []


async def test_a_policy_in_shadow_is_never_why_something_is_hidden(tmp_path: Path) -> None:
    policies = [
        {"name": "p", "clients": ["bot"], "allow": ["a/whoami"]},
        {"name": "trial", "clients": ["bot"], "deny": ["a/delete_note"], "mode": "shadow"},
    ]
    config = write(tmp_path, servers={"a": notes(tmp_path, "one")}, clients={"bot": {"key": KEY}}, policies=policies)
    async with running(config) as runtime:
        hidden = (await ready(runtime)).tools_as("bot")["hidden"]
    assert isinstance(hidden, list)
    assert {"tool": "a/delete_note", "why": "no policy allows it"} in hidden


async def test_a_call_goes_the_whole_path_and_is_audited_as_an_admins(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        operator = await ready(runtime)
        answer = await operator.call_as(ACT, "bot", "a/whoami", {})
        hidden = await operator.call_as(ACT, "bot", "a/delete_note", {"id": "n1"})
        with pytest.raises(KeyError, match="no tool"):
            await operator.call_as(ACT, "bot", "a/nope", {})
        with pytest.raises(KeyError, match="no client"):
            await operator.call_as(ACT, "nobody", "a/whoami", {})
    result = answer["result"]
    assert isinstance(result, dict)
    assert result["structuredContent"] == {"dataset": "one", "notes": 0}
    assert hidden == {"error": {"code": -32602, "message": "Unknown tool: a__delete_note"}}
    events = [record["event"] for record in records(tmp_path)]
    assert events.count("admin.call") == 2
    assert [event for event in events if str(event).startswith("call.")] == ["call.start", "call.end", "call.denied"]
    denied = next(record for record in records(tmp_path) if record["event"] == "call.denied")
    decision = denied["decision"]
    assert isinstance(decision, dict)
    assert (denied["server"], decision["policy"], decision["rule"]) == ("a", "p", "deny[0]")


async def test_principals_are_named_as_in_policies(tmp_path: Path) -> None:
    snapshot = Runtime(load(configured(tmp_path), {})).current()
    bot = principal_named(snapshot, "bot")
    assert (bot.id, bot.groups) == ("key:bot", frozenset({"automation"}))
    assert principal_named(snapshot, "key:bot") == bot
    assert principal_named(snapshot, "anonymous") is ANONYMOUS
    assert principal_named(snapshot, "sub:https://idp.example/u1").kind == "sub"
    with pytest.raises(KeyError):
        principal_named(snapshot, "group:automation")


async def test_a_reload_goes_through(tmp_path: Path) -> None:
    async with running(configured(tmp_path)) as runtime:
        operator = await ready(runtime)
        write(tmp_path, servers={"a": notes(tmp_path, "one")})
        assert (await operator.reload(ACT))["ok"] is True
        await until(lambda: len(tools(runtime)) == 6, "everything for anonymous")


async def test_what_somebody_sees_of_a_server_that_lists_by_who_asks_is_what_it_was_listed(tmp_path: Path) -> None:
    servers = {"a": {**notes(tmp_path, "one"), "catalog": "principal"}}
    path = write(tmp_path, servers=servers, clients={"bot": {"key": KEY}})
    async with running(path) as runtime:
        operator = await ready(runtime)
        assert operator.tools_as("bot")["tools"] == []
        assert operator.tools_as("bot")["hidden"] == [{"tool": "a/*", "why": "its own lists: not read yet"}]
        answer = await operator.call_as(ACT, "bot", "a/whoami", {})
        assert "one" in json.dumps(answer)
        seen = operator.tools_as("bot")
        assert "a__whoami" in json.dumps(seen["tools"])
        assert seen["hidden"] == []
        status = operator.status()
    assert status["servers"]["a"]["own_lists"] == {"known": 1, "failing": 0}  # type: ignore[index,call-overload]  # reason: JSON.
    assert status["clients"]["bot"]["tools"] == len(seen["tools"])  # type: ignore[index,call-overload,arg-type]  # reason: JSON.
