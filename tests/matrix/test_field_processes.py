"""Field faults of processes: how they start, how they end, and whose they are."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path

from tests.kit import wire
from tests.kit.field import KIT, field, lines, scripted, text_of
from tests.kit.gateway import Json, alive, descendants, eventually, running_in, serving

KEYS = {"alice": "alice-" + "a" * 40, "bob": "bob-" + "b" * 40}


def shell(folder: Path, **config: object) -> Json:
    """Return the config of a stubborn server behind a shell that only waits for it."""
    folder.mkdir(exist_ok=True)
    line = f"exec 3<&0; '{sys.executable}' -I -S '{KIT / 'field_server.py'}' --stubborn --starts starts <&3 & wait"
    return {"command": "sh", "args": ["-c", line], "cwd": str(folder), **config}


async def test_a_line_over_the_limit_ends_its_server_with_a_reason_and_only_that(tmp_path: Path) -> None:
    """G002, G004: the caller is told, the next call finds a new process, other servers notice nothing."""
    config = {
        "servers": {
            "big": field(tmp_path, max_result="1MiB"),
            "endless": scripted("flood", max_result="1MiB"),
            "other": scripted(),
        }
    }
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers(*config["servers"])
        async with wire.http_client(gateway.url, "modern") as client:
            for name, arguments in (("big__say", {"write": [["x", 700_000], ["y", 700_000]]}), ("endless__echo", {})):
                refusal = (await wire.call(client, name, arguments)).refusal
                assert refusal["reason"] == "too_large"
                assert refusal["mayHaveRun"] is True
            assert text_of(await wire.call(client, "big__get")) == "0"
            assert not (await wire.call(client, "other__whoami")).result.get("isError")


def test_a_server_that_cannot_start_is_named_with_its_exit_code_and_last_words(tmp_path: Path) -> None:
    """G011: a missing key says so where operators look."""
    with serving(tmp_path, {"servers": {"keyless": scripted("crash")}}) as gateway:
        eventually(lambda: gateway.status()["servers"]["keyless"]["last_error"], "the failure is known")
        shown = gateway.status()["servers"]["keyless"]

    assert "exited with code 3" in shown["last_error"]
    assert "cannot start: no key" in shown["last_error"]
    assert shown["next_retry_s"] is not None


async def test_nothing_behind_a_shell_outlives_its_idle_time_or_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """G012, G037: the idle instance of a principal goes, the catalog's stays until the gateway goes too."""
    config = {"servers": {"behind": shell(tmp_path / "behind", idle_stop="300ms")}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("behind")
        before = running_in(tmp_path / "behind")
        async with wire.http_client(gateway.url, "modern") as client:
            assert text_of(await wire.call(client, "behind__incr")) == "1"
            assert len(running_in(tmp_path / "behind")) > len(before) >= 2

            eventually(lambda: running_in(tmp_path / "behind") == before, "the idle instance is gone", 10)
        below = descendants(gateway.pid) | before
        gateway.kill()

        eventually(lambda: not any(alive(pid) for pid in below), "every process is gone")


async def test_a_timeout_of_the_config_holds_on_a_pipe_and_is_told_to_the_server(tmp_path: Path) -> None:
    """G015: about as long as it says, with the server's own id in the cancellation."""
    log = tmp_path / "log"
    server = field(tmp_path, "--log", str(log), isolation="shared", timeouts={"call": "500ms"})
    with serving(tmp_path / "gateway", {"servers": {"never": server}}) as gateway:
        gateway.await_servers("never")
        async with wire.http_client(gateway.url, "legacy") as client:
            begun = time.monotonic()
            answer = await client.request("tools/call", {"name": "never__say", "arguments": {"write": []}}, "mine")

        assert answer.refusal["reason"] == "timeout"
        assert answer.refusal["mayHaveRun"] is True
        assert time.monotonic() - begun < 5
        eventually(lambda: lines(log, "notifications/cancelled"), "the server was told")
        asked = lines(log, "tools/call")[-1]["id"]
        assert lines(log, "notifications/cancelled")[-1]["params"]["requestId"] == asked != "mine"


async def test_principals_have_their_own_state_and_keep_it(tmp_path: Path) -> None:
    """G039, G040, G122: one process for each, the same for all its calls, started once for many at a time."""
    config = {
        "servers": {"counter": field(tmp_path, "--starts", "starts")},
        "clients": {name: {"key": key} for name, key in KEYS.items()},
    }
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("counter")
        async with (
            wire.http_client(gateway.url, "legacy", KEYS["alice"]) as alice,
            wire.http_client(gateway.url, "modern", KEYS["bob"]) as bob,
        ):
            counted = await asyncio.gather(*(wire.call(alice, "counter__incr") for _ in range(50)))
            assert Counter(text_of(answer) for answer in counted) == Counter(str(n + 1) for n in range(50))
            assert text_of(await wire.call(bob, "counter__get")) == "0"
            assert text_of(await wire.call(bob, "counter__incr")) == "1"
            assert text_of(await wire.call(alice, "counter__get")) == "50"

        assert len((tmp_path / "starts").read_text().splitlines()) == 3


async def test_fifty_callers_of_a_server_that_exits_at_once_start_it_a_few_times_only(tmp_path: Path) -> None:
    """G122: one start for all, then back-off, and every process reaped."""
    script = tmp_path / "run.sh"
    script.write_text(f"exec '{sys.executable}' -I -S '{KIT / 'field_server.py'}'")
    config = {"servers": {"brief": {"command": "sh", "args": [str(script)], "cwd": str(tmp_path)}}}
    with serving(tmp_path / "gateway", config) as gateway:
        gateway.await_servers("brief")
        script.write_text("echo start >> starts; exit 3")
        async with wire.http_client(gateway.url, "modern") as client, asyncio.timeout(10):
            answers = await asyncio.gather(*(wire.call(client, "brief__get") for _ in range(50)))
        children = [pid for pid in descendants(gateway.pid) if not alive(pid)]

        assert {answer.refusal["reason"] for answer in answers} == {"unavailable"}
        assert {answer.refusal["mayHaveRun"] for answer in answers} == {False}
        assert "exited with code 3" in text_of(answers[-1])
        assert len((tmp_path / "starts").read_text().splitlines()) <= 4
        assert children == []
