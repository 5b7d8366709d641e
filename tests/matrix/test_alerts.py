"""Alerts, with real processes and a real receiver: what is unusual, out of hours, sensitive or drifts is told once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.kit import wire
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, eventually, serving
from tests.kit.pinning import Definitions, twenty
from tests.kit.webhook import Receiver, receiving

KEY: Final = "k" * 40
NEVER: Final = "Mon 00:00-00:01 UTC"


def config(folder: Path, hook: str, **alerts: object) -> Json:
    """A server that drifts, and one with a tool that is sensitive for all and refused to one."""
    policies = [
        {"name": "all", "clients": ["bot"], "allow": ["any:*/**"]},
        {"name": "some", "clients": ["guest"], "allow": ["a/echo", "a/whoami"], "deny": ["a/echo"]},
        {"name": "args", "clients": ["guest"], "deny": [{"tools": "a/whoami", "when": "has(args.no)"}]},
    ]
    return {
        "servers": {"a": scripted(), "d": Definitions(folder / "d.json", twenty()).server()},
        "clients": {"bot": {"key": KEY}, "guest": {"key": "g" * 40}},
        "policies": policies,
        "alerts": {"sensitive": ["a/echo", "a/whoami"], "to": [hook], **alerts},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("alerts")


@pytest.fixture(scope="module")
def world(folder: Path) -> Iterator[tuple[Gateway, Receiver]]:
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving())
        gateway = stack.enter_context(serving(folder / "gateway", config(folder, receiver.url)))
        gateway.await_servers("a", "d")
        yield gateway, receiver


async def arrived(receiver: Receiver, kind: str, count: int) -> list[Json]:
    def enough() -> bool:
        return len(receiver.of(kind)) >= count

    await asyncio.to_thread(eventually, enough, f"{count} alerts of {kind}")
    return receiver.of(kind)


async def test_every_call_of_something_sensitive_is_told_also_a_refused_one(world: tuple[Gateway, Receiver]) -> None:
    gateway, receiver = world
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        await wire.call(client, "a__echo", {"word": "hush"})
    async with wire.http_client(gateway.url, "legacy", "g" * 40) as client:
        assert (await wire.call(client, "a__whoami", {"no": 1})).refusal["reason"] == "denied"
        assert "Unknown tool" in (await wire.call(client, "a__echo", {"word": "hush"})).error["message"]
    found = await arrived(receiver, "sensitive", 3)
    assert [(each["client"], each["server"], each["name"], each["outcome"]) for each in found] == [
        ("bot", "a", "echo", "ok"),
        ("guest", "a", "whoami", "denied"),
        ("guest", "a", "echo", "denied"),
    ]
    assert found[0]["text"] == "mcp-gateway: called something sensitive: bot a echo"
    assert len({each["id"] for each in found}) == 3
    assert "hush" not in json.dumps(receiver.got)
    told = [record["alert"] for record in gateway.records() if record["event"] == "alert.raised"]
    assert [each["kind"] for each in told].count("sensitive") == 3
    assert gateway.metric("mcp_gateway_alerts_total", kind="sensitive") == 3


async def test_drift_of_a_server_is_told_like_any_alert(world: tuple[Gateway, Receiver], folder: Path) -> None:
    gateway, receiver = world
    tools = twenty()
    tools[7]["description"] = "Does something else."
    Definitions(folder / "d.json", tools)
    [held] = await arrived(receiver, "pin_hold", 1)
    assert (held["server"], held["name"]) == ("d", "tool:t7")
    status = await asyncio.to_thread(gateway.status)
    assert "pin_hold" in [each["kind"] for each in status["alerts"]["recent"]]
    shown = await asyncio.to_thread(gateway.cli, "status")
    assert "alerts: " in shown.stdout


async def test_what_a_receiver_missed_while_it_was_down_arrives_later(world: tuple[Gateway, Receiver]) -> None:
    gateway, receiver = world
    before = len(receiver.of("sensitive"))
    await asyncio.to_thread(receiver.down)
    failed = gateway.metric("mcp_gateway_alert_deliveries_total", result="failed")
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        for word in ("one", "two"):
            assert "isError" not in (await wire.call(client, "a__echo", {"word": word})).result
    await asyncio.to_thread(
        eventually,
        lambda: gateway.metric("mcp_gateway_alert_deliveries_total", result="failed") > failed,
        "a delivery failed",
    )
    assert gateway.status()["alerts"]["undelivered"] == 2
    receiver.up()
    assert len(await arrived(receiver, "sensitive", before + 2)) == before + 2
    log = gateway.log.read_text()
    assert "alert_not_delivered" in log
    assert "secret-path" not in log


async def test_hours_and_rates_are_told_once_in_a_window_and_settings_reload(
    world: tuple[Gateway, Receiver], folder: Path
) -> None:
    gateway, receiver = world
    rate = {"factor": 2, "window": "1h", "min": 3}
    await asyncio.to_thread(gateway.reload, config(folder, receiver.url, hours=NEVER, rate=rate))
    async with wire.http_client(gateway.url, "modern", KEY) as client:
        for _ in range(12):
            await wire.call(client, "a__whoami")
    [late] = await arrived(receiver, "hours", 1)
    [many] = await arrived(receiver, "rate", 1)
    assert (late["client"], late["name"]) == ("bot", "whoami")
    assert (many["client"], many["usual"]) == ("bot", None)
    assert many["calls"] == 7


async def test_somebody_is_told_that_a_call_waits(tmp_path: Path) -> None:
    with receiving() as receiver:
        settings = config(tmp_path, receiver.url, sensitive=[])
        settings["policies"][0]["approve"] = [{"tools": "a/echo", "hold": "0s"}]
        with serving(tmp_path / "gateway", settings) as gateway:
            gateway.await_servers("a")
            async with wire.http_client(gateway.url, "modern", KEY) as client:
                asked = (await wire.call(client, "a__echo", {"word": "hush"})).refusal["approval"]
            [told] = await arrived(receiver, "approval_requested", 1)
            assert (told["approval"], told["client"], told["name"]) == (asked, "bot", "echo")
            assert "hush" not in json.dumps(told)
