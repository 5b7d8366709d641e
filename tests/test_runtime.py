"""The runtime with real servers and a real audit log: snapshots, reloads, what outlives what."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.admin.operations import Act
from gateway.audit.verify import verify
from gateway.catalog import refresh
from gateway.catalog.collect import Source, collect
from gateway.config.loader import load
from gateway.errors import ConfigError
from gateway.model.call import Call, Caller, Target
from gateway.model.catalog import Kind, Listing
from gateway.model.principal import ANONYMOUS, Principal
from gateway.protocol.versions import Era
from gateway.runtime import Runtime

ACT = Act("test", "")
NOTES = Path(__file__).parents[1] / "demo" / "notes.py"


def notes(folder: Path, name: str) -> dict[str, object]:
    return {"command": sys.executable, "args": [str(NOTES), "--dataset", name, "--file", str(folder / f"{name}.json")]}


def write(folder: Path, **sections: object) -> Path:
    path = folder / "gateway.yaml"
    base: dict[str, object] = {"state": {"dir": "state"}, "audit": {"dir": "audit"}}
    path.write_text(json.dumps(base | sections))
    return path


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Runtime]:
    runtime = Runtime(load(path, {}))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.aclose()


async def until(done: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(10):
            while not done():
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"never: {what}")


def tools(runtime: Runtime) -> list[str]:
    return [route.exposed for route in runtime.current().listed(Kind.TOOL, ANONYMOUS, None)]


def records(folder: Path) -> list[dict[str, object]]:
    lines = [line for file in sorted((folder / "audit").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


async def test_it_serves_before_any_server_answers(tmp_path: Path) -> None:
    """S188."""
    hanging = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    async with asyncio.timeout(5), running(write(tmp_path, servers={"slow": hanging})) as runtime:
        assert tools(runtime) == []
        assert runtime.audit.healthy


async def test_a_servers_tools_appear_and_listeners_hear_of_it(tmp_path: Path) -> None:
    """G118."""
    heard: list[tuple[str, frozenset[Kind]]] = []
    async with running(write(tmp_path, servers={"a": notes(tmp_path, "one")})) as runtime:
        unsubscribe = runtime.changes(lambda server, kinds: heard.append((server, kinds)))
        await until(lambda: "a__whoami" in tools(runtime), "tools of a")
        await until(lambda: bool(heard), "a change")
        unsubscribe()
    assert heard[0][0] == "a"
    assert verify(tmp_path / "audit").ok
    events = [record["event"] for record in records(tmp_path)]
    assert events[:3] == ["audit.segment", "audit.checkpoint", "gateway.started"]
    assert "downstream.started" in events
    assert events[-2:] == ["gateway.stopped", "audit.checkpoint"]


async def test_lists_that_were_read_again_and_are_equal_are_no_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was only read because its time was up makes no client read it again."""
    read: list[str] = []

    async def counted(source: Source, server: str, last: Listing | None = None) -> Listing:
        listing = await collect(source, server, last)
        read.append(server)
        return listing

    monkeypatch.setattr(refresh, "collect", counted)
    monkeypatch.setattr(refresh, "MIN_AGE", 0.01)
    path = write(tmp_path, servers={"a": notes(tmp_path, "one")}, naming={"list_ttl": "10ms"})
    heard: list[frozenset[Kind]] = []
    async with running(path) as runtime:
        runtime.changes(lambda server, kinds: heard.append(kinds))
        await until(lambda: len(read) > 3, "read again")
    [only] = [kinds for kinds in heard if kinds]
    assert Kind.TOOL in only


async def test_the_last_complete_lists_are_there_at_once_after_a_restart(tmp_path: Path) -> None:
    """G132: and only for a server that is configured as it was."""
    path = write(tmp_path, servers={"a": notes(tmp_path, "one")})
    async with running(path) as runtime:
        await until(lambda: bool(tools(runtime)), "tools")
        before = tools(runtime)
    assert tools(Runtime(load(path, {}))) == before
    path = write(tmp_path, servers={"a": notes(tmp_path, "other")})
    assert tools(Runtime(load(path, {}))) == []


async def test_a_reload_changes_policy_at_once_and_keeps_unchanged_processes(tmp_path: Path) -> None:
    """S61, S183, G036, G128."""
    servers = {"a": notes(tmp_path, "one")}
    path = write(tmp_path, servers=servers)
    async with running(path) as runtime:
        await until(lambda: "a__whoami" in tools(runtime), "tools of a")
        instance = runtime.pool.status()["a"]
        policy = {"name": "p", "clients": ["anonymous"], "allow": ["a/whoami"]}
        write(tmp_path, servers=servers | {"b": notes(tmp_path, "two")}, policies=[policy])
        result = await runtime.reloading.reload(ACT)
        assert result["ok"] is True
        assert tools(runtime) == ["a__whoami"]
        assert runtime.pool.status()["a"].since == instance.since
        await until(lambda: runtime.pool.status()["b"].state == "up", "b")
    kept = [record for record in records(tmp_path) if record["event"] == "downstream.started"]
    assert [record["server"] for record in kept] == ["a", "b"]


async def test_a_bad_reload_changes_nothing_and_is_seen(tmp_path: Path) -> None:
    """S182."""
    path = write(tmp_path, servers={"a": notes(tmp_path, "one")})
    async with running(path) as runtime:
        await until(lambda: bool(tools(runtime)), "tools")
        before = runtime.current()
        for broken in ("{", json.dumps({"servers": {"a": {"comand": "x"}}}), json.dumps({"policies": ["none/*.yaml"]})):
            path.write_text(broken)
            with pytest.raises(ConfigError):
                await runtime.reloading.reload(ACT)
            assert runtime.current() is before
        assert not runtime.reloading.good
        assert "mcp_gateway_config_reload_success 0.0" in runtime.metrics.render("")[0].decode()
    assert [record["event"] for record in records(tmp_path)].count("config.reload_failed") == 3


async def test_a_reload_changes_what_is_not_part_of_the_snapshot_too(tmp_path: Path) -> None:
    path = write(tmp_path, auth={"throttle": {"failures": "1/minute"}}, limits={"requests": "1/minute"})
    async with running(path) as runtime:
        assert [runtime.throttle.failed("10.0.0.1", now) is None for now in (0.0, 1.0)] == [True, False]
        write(tmp_path, auth={"throttle": {"failures": "100/minute"}}, limits={"requests": "100/minute"})
        await runtime.reloading.reload(ACT)
        assert [runtime.throttle.failed("10.0.0.2", now) is None for now in (0.0, 1.0)] == [True, True]
        assert [await runtime.budget.charge("p") for _ in range(2)] == [None, None]


async def test_settings_that_need_a_restart_are_named_and_stay(tmp_path: Path) -> None:
    """S184."""
    path = write(tmp_path)
    async with running(path) as runtime:
        write(tmp_path, listen={"port": 1234})
        result = await runtime.reloading.reload(ACT)
        assert result["needs_restart"] == ["listen.port"]
        assert runtime.current().config.listen.port == 8080
        assert path.exists()


async def test_a_removed_server_takes_its_tools_along(tmp_path: Path) -> None:
    path = write(tmp_path, servers={"a": notes(tmp_path, "one")})
    async with running(path) as runtime:
        await until(lambda: bool(tools(runtime)), "tools")
        write(tmp_path, servers={})
        await runtime.reloading.reload(ACT)
        assert tools(runtime) == []
        assert runtime.pool.status() == {}


async def test_a_second_gateway_cannot_write_the_same_log(tmp_path: Path) -> None:
    """S171."""
    path = write(tmp_path)
    async with running(path):
        with pytest.raises(ConfigError, match="a running gateway"):
            await Runtime(load(path, {})).start()


async def test_lists_and_floods_are_audited_as_samples_and_refusals_without_a_whole_address(tmp_path: Path) -> None:
    alice = Principal("key:alice", "key", "alice")
    caller = Caller(Era.MODERN, "2026-07-28", source="203.0.113.9")
    draft = Call("", "7", "tools/list", {}, Target(Kind.TOOL, "", ""), alice, caller)
    async with running(write(tmp_path)) as runtime:
        for _ in range(3):
            runtime.listed(draft, 42)
            runtime.limited(alice, caller)
        await runtime.security_event("auth.failed", {"source": "203.0.113.9", "reason": "missing"})
    told = {str(record["event"]): record for record in records(tmp_path)}
    # What fell silent after the first record is told at the end, so that the counts add up.
    for event in ("list.served", "ratelimit.refused"):
        assert [record["count"] for record in records(tmp_path) if record["event"] == event] == [1, 2]
    assert told["list.served"]["list"] == {"items": 42}
    assert told["ratelimit.refused"]["decision"] == {
        "action": "deny",
        "reason": "rate_limited",
        "limits": {"scope": "requests"},
    }
    failed = told["auth.failed"]
    assert (failed["src"], failed["auth"], failed["count"]) == ({"ip": "203.0.113.0/24"}, {"reason": "missing"}, 1)
