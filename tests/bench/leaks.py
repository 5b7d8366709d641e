"""Things done thousands of times, after which the gateway must hold what it held before."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from tests.bench import rig
from tests.kit import wire
from tests.kit.gateway import Gateway, Json, eventually, running_in

MEMORY = 24 * 2**20
WORKERS = 8


async def _share(times: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Do something so many times, by a few at once."""
    left = iter(range(times))

    async def worker() -> None:
        for number in left:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(worker())


def _twice(gateway: Gateway, what: str, rounds: Callable[[int], None], times: int) -> list[str]:
    """Warm up with a third, then measure the rest: caches fill once, leaks go on."""
    rounds(max(1, times // 3))
    before = rig.settled(gateway)
    started = time.monotonic()
    rounds(times)
    elapsed = time.monotonic() - started
    after = rig.settled(gateway)
    requests = gateway.metric("mcp_gateway_http_requests_total", listener="mcp")
    rig.show(f"{what}: {times} in {elapsed:.1f} s, requests {requests:.0f}\n  before {before}\n  after  {after}")
    return [f"{what}: {problem}" for problem in rig.grown(before, after, MEMORY)]


def sessions(folder: Path, times: int) -> list[str]:
    """Legacy sessions, ended by their clients and not."""
    problems: list[str] = []
    with rig.counted(folder, {"servers": {"a": {**rig.scripted(folder / "a"), "isolation": "shared"}}}) as gateway:
        gateway.await_servers("a")

        async def open_session(http: aiohttp.ClientSession, end: bool) -> None:
            client = wire.HttpClient(http, gateway.url, "legacy")
            await client.open()
            await client.request("tools/list")
            if end:
                await client.close()

        def rounds(end: bool) -> Callable[[int], None]:
            async def run(count: int) -> None:
                async with aiohttp.ClientSession(read_bufsize=2**22) as http:
                    await _share(count, lambda _: open_session(http, end))

            return lambda count: asyncio.run(run(count))

        problems += _twice(gateway, "initialize, list, DELETE", rounds(True), times)
        problems += _twice(gateway, "initialize, list", rounds(False), times)
        held = gateway.metric("mcp_gateway_sessions")
        if held > 100:
            problems.append(f"{held:.0f} sessions of one principal are kept")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def private_sessions(folder: Path, times: int) -> list[str]:
    """Legacy sessions that have a process each, ended by their clients or by the cap."""
    problems: list[str] = []
    server = {**rig.scripted(folder / "a", "--era", "legacy"), "isolation": "session", "max_instances": 8}
    with rig.counted(folder, {"servers": {"a": server}, "limits": {**rig.MANY, "sessions": 6}}) as gateway:
        gateway.await_servers("a")

        async def one(number: int) -> None:
            timeout = aiohttp.ClientTimeout(total=30)
            async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2**22) as http:
                client = wire.HttpClient(http, gateway.url, "legacy")
                await client.open()
                await wire.call(client, "a__whoami")
                if number % 2:
                    await client.close()

        async def run(count: int) -> None:
            for number in range(count):
                await one(number)

        problems += _twice(gateway, "a process per session", lambda count: asyncio.run(run(count)), times)
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def cancelled(folder: Path, times: int) -> list[str]:
    """Calls that their clients cancel: by leaving (modern), by notification and by leaving (legacy)."""
    problems: list[str] = []
    servers: Json = {
        "modern": rig.scripted(folder / "modern", "--era", "modern"),
        "legacy": {**rig.scripted(folder / "legacy", "--era", "legacy"), "isolation": "shared"},
    }
    with rig.counted(folder, {"servers": servers}) as gateway:
        gateway.await_servers(*servers)
        nothing = ("modern", "legacy")

        async def leave(client: wire.HttpClient, number: int) -> None:
            call = asyncio.get_running_loop().create_task(
                wire.call(client, f"{nothing[number % 2]}__sleep", {"seconds": 5})
            )
            await asyncio.sleep(0.01 * (number % 4))
            call.cancel()
            await asyncio.wait([call])

        async def tell(client: wire.HttpClient, number: int) -> None:
            name = f"call-{number}"
            params: Json = {"name": f"{nothing[number % 2]}__sleep", "arguments": {"seconds": 5}}
            call = asyncio.get_running_loop().create_task(client.request("tools/call", params, name))
            await asyncio.sleep(0.01 * (number % 4))
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}}
            await client.post(json.dumps(note), {**client._head("", {}), "Content-Type": "application/json"})
            async with asyncio.timeout(10):
                await asyncio.wait([call])

        async def run(count: int) -> None:
            async with (
                wire.http_client(gateway.url, "modern") as modern,
                wire.http_client(gateway.url, "legacy") as old,
            ):
                await _share(count, lambda number: leave(modern, number))
                await _share(count, lambda number: tell(old, number))

        problems += _twice(gateway, "cancelled calls", lambda count: asyncio.run(run(count)), times)
        eventually(lambda: gateway.metric("mcp_gateway_inflight_calls") == 0, "no call is in flight", 10)
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def streams(folder: Path, times: int) -> list[str]:
    """Streams of both eras, opened and closed by their clients."""
    problems: list[str] = []
    with rig.counted(folder, {"servers": {"a": rig.scripted(folder / "a")}}) as gateway:
        gateway.await_servers("a")

        async def listen(client: wire.HttpClient) -> None:
            params: Json = {"notifications": {"toolsListChanged": True}, "_meta": wire.modern_meta()}
            body = {"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": params}
            head = client._head("subscriptions/listen", params)
            async with client._session.post(gateway.url, json=body, headers=head) as reply:
                assert reply.status == 200, await reply.text()
                await reply.content.readany()

        async def get(client: wire.HttpClient) -> None:
            async with client._session.get(gateway.url, headers=client._head("", {})) as reply:
                assert reply.status == 200, await reply.text()

        async def run(count: int) -> None:
            async with (
                wire.http_client(gateway.url, "modern") as modern,
                wire.http_client(gateway.url, "legacy") as old,
            ):
                await _share(count, lambda _: listen(modern))
                await _share(count, lambda _: get(old))

        problems += _twice(gateway, "streams", lambda count: asyncio.run(run(count)), times)
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def restarts(folder: Path, times: int) -> list[str]:
    """Processes of sessions that are killed with a call in flight, so that each has died without being asked to."""
    problems: list[str] = []
    server = {**rig.scripted(folder / "a", "--era", "legacy"), "isolation": "session", "max_instances": 16}
    with rig.counted(folder, {"servers": {"a": server}}) as gateway:
        gateway.await_servers("a")
        ends: Counter[str] = Counter()

        async def one(client: wire.HttpClient) -> None:
            pid = (await wire.call(client, "a__whoami")).result["structuredContent"]["pid"]
            call = asyncio.get_running_loop().create_task(wire.call(client, "a__sleep", {"seconds": 20}))
            await asyncio.sleep(0.3)
            os.kill(pid, signal.SIGKILL)
            ends[rig.ending(await call)] += 1

        async def run(count: int) -> None:
            async def session(_: int) -> None:
                async with wire.http_client(gateway.url, "legacy") as client:
                    await one(client)

            await _share(count, session)

        problems += _twice(gateway, "crashes", lambda count: asyncio.run(run(count)), times)
        if set(ends) - {"unavailable", "ok"}:
            problems.append(f"calls ended with {dict(ends)}")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def reloads(folder: Path, times: int) -> list[str]:
    """Reloads with another policy every time, and another server."""
    problems: list[str] = []
    steady = rig.scripted(folder / "steady")

    def config(number: int) -> Json:
        changing = {**rig.scripted(folder / "changing"), "env": {"NUMBER": str(number)}}
        policy = {"name": f"p{number}", "clients": ["anonymous"], "allow": ["*/*"], "deny": [f"*/no{number}"]}
        rule = {"tools": "*/echo", "when": f"size(args) < {number + 100}"}
        return {
            "limits": rig.MANY,
            "servers": {"steady": steady, "changing": changing},
            "policies": [policy, {"name": "when", "clients": ["anonymous"], "allow": [rule]}],
        }

    with rig.counted(folder, config(0)) as gateway:
        gateway.await_servers("steady", "changing")
        pid = running_in(folder / "steady")
        numbers = iter(range(1, 10**6))

        def run(count: int) -> None:
            for _ in range(count):
                gateway.reload(config(next(numbers)))

        problems += _twice(gateway, "reloads", run, times)
        if running_in(folder / "steady") != pid:
            problems.append("an unchanged server was restarted")
        gateway.await_servers("steady", "changing")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)
