"""Drains and reloads under load, and signals at moments nobody likes."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import aiohttp

from tests.bench import rig
from tests.bench.rig import Load, Tally
from tests.kit import wire
from tests.kit.gateway import COMMAND, Gateway, Json, alive, descendants, eventually, running_in

DRAIN = 4


def drains(folder: Path, times: int) -> list[str]:
    """SIGTERM under load: calls shorter than the drain are answered, streams end in order, the exit is clean."""
    problems: list[str] = []
    servers = {name: rig.scripted(folder / name) for name in ("a", "b")}
    config: Json = {"servers": servers, "listen": {"drain": f"{DRAIN}s"}}
    with rig.counted(folder, config) as gateway:
        for round_ in range(times):
            gateway.await_servers("a", "b")
            problems += [f"round {round_}: {each}" for each in asyncio.run(_drain(gateway, second=round_ % 4 == 3))]
            problems += [f"round {round_}: left {name}" for name in ("a", "b") if running_in(folder / name)]
            if round_ + 1 < times:
                gateway.start()
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


async def _drain(gateway: Gateway, second: bool) -> list[str]:
    problems: list[str] = []
    tally, slow, endless = Tally(), Tally(), Tally()
    over = False
    streams: list[str] = []

    async def sleeper(client: wire.HttpClient, seconds: float, into: Tally) -> None:
        started = time.monotonic()
        try:
            end = rig.ending(await wire.call(client, "b__sleep", {"seconds": seconds}))
        except (OSError, aiohttp.ClientError) as error:
            end = type(error).__name__
        into.note(end, time.monotonic() - started)

    async with (
        wire.http_client(gateway.url, "modern") as modern,
        aiohttp.ClientSession(read_bufsize=2**22) as http,
    ):
        old = wire.HttpClient(http, gateway.url, "legacy")
        await old.open()
        flying = [
            asyncio.get_running_loop().create_task(sleeper(client, 1.5, slow))
            for client in (modern, old)
            for _ in range(5)
        ]
        flying += [asyncio.get_running_loop().create_task(sleeper(client, 60, endless)) for client in (modern, old)]
        listening = [
            asyncio.get_running_loop().create_task(_listen(modern, streams)),
            asyncio.get_running_loop().create_task(_get(old, streams)),
        ]
        pressing = asyncio.get_running_loop().create_task(
            rig.press(gateway, Load(("a__echo",), 100.0), lambda: over, tally)
        )
        await asyncio.sleep(random.uniform(0.3, 0.8))
        started = time.monotonic()
        gateway.terminate()
        if second:
            await asyncio.sleep(0.3)
            gateway.terminate()
        code = await asyncio.to_thread(gateway.wait)
        elapsed = time.monotonic() - started
        over = True
        async with asyncio.timeout(20):
            await asyncio.wait([*flying, *listening, pressing])
    rig.show(f"drain: exit {code} in {elapsed:.2f} s, {dict(tally.ends)}")
    rig.show(f"  short calls {dict(slow.ends)}, endless ones {dict(endless.ends)}, {streams}")
    if code != 0 or elapsed > DRAIN + 10:
        problems.append(f"exit {code} after {elapsed:.1f} s")
    if not second and set(slow.ends) != {"ok"}:
        problems.append(f"calls shorter than the drain ended with {dict(slow.ends)}")
    if set(endless.ends) != {"overloaded"}:
        problems.append(f"calls longer than the drain ended with {dict(endless.ends)}")
    if sorted(streams) != ["get ended", "listen ended"]:
        problems.append(f"streams: {streams}")
    bad = {end for end in tally.ends if end not in ("ok", "overloaded") and "503" not in end and "Client" not in end}
    # A kept connection may be closed under a request, where a second signal left no time.
    fine = ("Connection", "Disconnected") if second else ("Connection",)
    return problems + [f"calls ended with {end}" for end in bad if not any(word in end for word in fine)]


async def _listen(client: wire.HttpClient, streams: list[str]) -> None:
    params: Json = {"notifications": {"toolsListChanged": True}, "_meta": wire.modern_meta()}
    body = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params}
    head = client._head("subscriptions/listen", params)
    try:
        async with client._session.post(client._url, json=body, headers=head) as reply:
            messages = [
                json.loads(line[5:]) async for line in reply.content if line.startswith(b"data:") and line[5:].strip()
            ]
    except (OSError, aiohttp.ClientError) as error:
        streams.append(f"listen {type(error).__name__}")
        return
    last, cancelled = messages[-1], messages[-2]
    graceful = last.get("id") == 7 and "result" in last and cancelled.get("method") == "notifications/cancelled"
    streams.append("listen ended" if graceful else f"listen {messages}")


async def _get(client: wire.HttpClient, streams: list[str]) -> None:
    try:
        async with client._session.get(client._url, headers=client._head("", {})) as reply:
            await reply.content.read()
    except (OSError, aiohttp.ClientError) as error:
        streams.append(f"get {type(error).__name__}")
        return
    streams.append("get ended")


def early_signals(folder: Path, times: int) -> list[str]:
    """SIGTERM, SIGINT and SIGHUP at any moment after the imports, with servers that hang in their handshake."""
    problems: list[str] = []
    hanging = {f"h{n}": rig.scripted(folder / f"h{n}", "silent", "ignoreterm", "noeof") for n in range(2)}
    gateway = Gateway(folder, {"servers": {"a": rig.scripted(folder / "a"), **hanging}})
    for round_ in range(times):
        number = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[round_ % 3]
        delay = 0.01 * (round_ // 3)
        shutil.rmtree(folder / "state", ignore_errors=True)
        log = folder / f"early-{round_}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [COMMAND, "serve", "-c", gateway.file], stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder
            )
        # The first thing that is made once the loop runs.
        eventually((folder / "state" / "sealing.key").exists, "it has begun", 20)
        time.sleep(delay)
        below = descendants(process.pid)
        started = time.monotonic()
        process.send_signal(number)
        if number is signal.SIGHUP:
            time.sleep(1.0)
            process.send_signal(signal.SIGTERM)
        try:
            code: int | None = process.wait(20)
        except subprocess.TimeoutExpired:
            code = None
            process.kill()
            process.wait()
        elapsed = time.monotonic() - started
        text = log.read_text()
        serving = '"serving"' in text
        trace = "Traceback" in text
        rig.show(f"{number.name} after {delay:.2f} s: exit {code} in {elapsed:.2f} s, serving {serving}, trace {trace}")
        if trace or code is None or elapsed > 15 or code != 0:
            problems.append(f"{number.name} after {delay:.2f} s: exit {code} in {elapsed:.1f} s\n{text[-1500:]}")
        eventually(lambda pids=below: not any(alive(pid) for pid in pids), "nothing is left", 8)  # type: ignore[misc]  # reason: a default.
        if any(running_in(folder / name) for name in ("a", *hanging)):
            problems.append(f"{number.name} after {delay:.2f} s: servers are left")
    return problems


def reloads(folder: Path, times: int) -> list[str]:
    """Reloads at 200 calls a second: every answer fits the old policy or the new one, and nothing fails."""
    problems: list[str] = []
    names = ("a", "b")
    servers = {name: rig.scripted(folder / name) for name in names}
    tally, listed = Tally(), {"odd": 0, "even": 0, "other": 0}

    def config(number: int) -> Json:
        hidden = "whoami" if number % 2 else "fds"
        policy = {"name": f"p{number}", "clients": ["anonymous"], "allow": ["*/*"], "deny": [f"*/{hidden}"]}
        return {"limits": rig.MANY, "servers": servers, "policies": [policy]}

    with rig.counted(folder, config(0)) as gateway:
        gateway.await_servers(*names)
        pids = {name: running_in(folder / name) for name in names}
        done = False

        async def lister() -> None:
            """A list of tools hides one of two, never both and never none."""
            async with wire.http_client(gateway.url, "modern") as client:
                while not done:
                    tools = {tool["name"] for tool in (await client.request("tools/list")).result["tools"]}
                    seen = {each for each in ("whoami", "fds") if {f"{name}__{each}" for name in names} <= tools}
                    some = {each for each in ("whoami", "fds") if {f"{name}__{each}" for name in names} & tools}
                    kind = "other" if len(seen) != 1 or seen != some else "odd" if seen == {"fds"} else "even"
                    listed[kind] += 1
                    await asyncio.sleep(0.01)

        def reload_all() -> None:
            for number in range(1, times + 1):
                bad = {**config(number), "policies": [{"name": "x", "allow": ["nobody/*"], "clients": 3}]}
                if number % 5 == 0:
                    gateway.reload(bad)
                gateway.reload(config(number))

        async def run() -> None:
            nonlocal done
            async with asyncio.TaskGroup() as group:
                load = Load(("a__echo", "b__echo"), 200.0, 16)
                group.create_task(rig.press(gateway, load, lambda: done, tally))
                group.create_task(lister())
                try:
                    await asyncio.to_thread(reload_all)
                finally:
                    done = True

        started = time.monotonic()
        asyncio.run(run())
        rig.show(f"reloads: {times} in {time.monotonic() - started:.1f} s, {tally}\n  lists {listed}")
        lag = gateway.metric("mcp_gateway_event_loop_lag_seconds_sum")
        rig.show(f"  lag summed {lag:.3f} s")
        if set(tally.ends) != {"ok"}:
            problems.append(f"calls ended with {dict(tally.ends)}")
        if listed["other"]:
            problems.append(f"{listed['other']} lists fit no policy")
        if pids != {name: running_in(folder / name) for name in names}:
            problems.append("unchanged servers were restarted")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)
