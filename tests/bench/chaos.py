"""Servers and gateways that die, hang and lie under load."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from pathlib import Path

from gateway.audit.keys import load_key
from gateway.protocol import rawjson
from tests.bench import rig
from tests.bench.rig import Load, Tally
from tests.kit import http_server, wire
from tests.kit.gateway import Gateway, Json, alive, descendants, eventually, running_in

IN_FLIGHT_LIMIT = 0.2
"""Seconds in which a call must have ended once its server was killed."""


def kills(folder: Path, times: int) -> list[str]:
    """Kill servers at random moments under 50 calls a second; each only a few times, since its restarts slow down."""
    problems: list[str] = []
    tally, flown, back, late = Tally(), Tally(), Tally(), Tally()
    names = tuple(f"s{number}" for number in range(max(2, times // 4)))
    servers = {name: rig.scripted(folder / name) for name in names}
    with rig.counted(folder, {"servers": servers}) as gateway:
        gateway.await_servers(*names)
        done = False

        async def sleeper(client: wire.HttpClient, name: str, killed: list[float]) -> None:
            started = time.monotonic()
            answer = await wire.call(client, f"{name}__sleep", {"seconds": 20})
            flown.note(rig.ending(answer), time.monotonic() - started)
            late.note("ok" if killed else "before the kill", time.monotonic() - (killed or [started])[0])

        async def killer() -> None:
            nonlocal done
            try:
                async with wire.http_client(gateway.url, "modern") as client:
                    for turn in range(times):
                        name = names[turn % len(names)]
                        await _until_up(client, name)
                        killed: list[float] = []
                        flying = [
                            asyncio.get_running_loop().create_task(sleeper(client, name, killed)) for _ in range(4)
                        ]
                        await asyncio.sleep(random.uniform(0.05, 0.3))
                        killed.append(time.monotonic())
                        for pid in running_in(folder / name):
                            os.kill(pid, signal.SIGKILL)
                        async with asyncio.timeout(30):
                            await asyncio.wait(flying)
                        started = time.monotonic()
                        await _until_up(client, name)
                        back.note("ok", time.monotonic() - started)
            finally:
                done = True

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                tools = tuple(f"{name}__echo" for name in names)
                group.create_task(rig.press(gateway, Load(tools), lambda: done, tally))
                group.create_task(killer())

        asyncio.run(run())
        rig.show(f"kills: {tally}\n  in flight {flown}\n  ended after the kill {late}\n  back after a kill {back}")
        if late.slowest.get("ok", 0.0) > IN_FLIGHT_LIMIT or "before the kill" in late.ends:
            problems.append(f"calls of a killed server: {late}")
        problems += _unexpected(tally, {"ok", "unavailable"}) + _unexpected(flown, {"unavailable"})
        if any(len(running_in(folder / name)) > 1 for name in names):
            problems.append("a server runs twice")
        problems += _left(gateway, *(folder / name for name in names))
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def _left(gateway: Gateway, *folders: Path) -> list[str]:
    """End a gateway and see whether anything of its servers stays."""
    gateway.stop()
    left = {pid for folder in folders for pid in running_in(folder)}
    return [f"orphans: {left}"] if left else []


async def _until_up(client: wire.HttpClient, name: str) -> None:
    async with asyncio.timeout(60):
        while rig.ending(await wire.call(client, f"{name}__echo")) != "ok":
            await asyncio.sleep(0.02)


def _unexpected(tally: Tally, expected: set[str]) -> list[str]:
    return [f"{count} calls ended with {end}" for end, count in tally.ends.items() if end not in expected]


def stopped(folder: Path, times: int) -> list[str]:
    """SIGSTOP: calls end at their limit, and nobody else notices."""
    problems: list[str] = []
    limits = {"timeouts": {"call": "2s", "max": "3s", "start": "3s", "probe": "2s"}}
    servers = {"a": {**rig.scripted(folder / "a"), **limits}, "b": rig.scripted(folder / "b")}
    with rig.counted(folder, {"servers": servers}) as gateway:
        gateway.await_servers("a", "b")
        for _ in range(times):
            mine, other = Tally(), Tally()
            pids = running_in(folder / "a")
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            deadline = time.monotonic() + 6

            async def run(until: float = deadline, mine: Tally = mine, other: Tally = other) -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(rig.press(gateway, Load(("a__echo",)), lambda: time.monotonic() > until, mine))
                    group.create_task(rig.press(gateway, Load(("b__echo",)), lambda: time.monotonic() > until, other))

            asyncio.run(run())
            for pid in pids:
                if alive(pid):
                    os.kill(pid, signal.SIGCONT)
            rig.show(f"stopped: {mine}\n  other {other}")
            problems += _unexpected(other, {"ok"}) + _unexpected(mine, {"timeout", "unavailable", "overloaded"})
            if not 1.0 <= mine.slowest.get("timeout", 0.0) <= 3.0:
                problems.append(f"timeouts took {mine.slowest.get('timeout', 0.0):.2f} s, not 2")
            if other.quantile(0.99) > 0.5:
                problems.append(f"others waited {other.quantile(0.99):.2f} s")
            eventually(lambda: asyncio.run(_asked(gateway)) == "ok", "the server is served again", 60)
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


async def _asked(gateway: Gateway) -> str:
    async with wire.http_client(gateway.url, "modern") as client:
        return rig.ending(await wire.call(client, "a__echo"))


def liars(folder: Path, seconds: int) -> list[str]:
    """HTTP servers that never answer, drip, send garbage or close early, beside one that works."""
    return asyncio.run(_liars(folder, seconds))


async def _never(exchange: http_server.Exchange) -> None:
    await exchange.until_gone()
    exchange.close()


async def _drip(exchange: http_server.Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(600):
        await exchange.raw(b" ")
        await asyncio.sleep(0.1)
    exchange.close()


async def _garbage(exchange: http_server.Exchange) -> None:
    await exchange.raw(os.urandom(4096) + b"\r\n\r\n")
    exchange.close()


async def _early(exchange: http_server.Exchange) -> None:
    await exchange.raw(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"jsonrpc"')
    exchange.close()


_LIES = {"never": _never, "drip": _drip, "garbage": _garbage, "early": _early}


class _Liar:
    """Works as a server until it is told to lie to calls."""

    def __init__(self, name: str) -> None:
        self._honest = http_server.McpServer(era="modern", name=name)
        self._lie = _LIES[name]

    async def script(self, exchange: http_server.Exchange) -> None:
        if exchange.method == "POST" and exchange.message.get("method") == "tools/call":
            await self._lie(exchange)
        else:
            await self._honest.script(exchange)


async def _liars(folder: Path, seconds: int) -> list[str]:
    problems: list[str] = []
    tallies = {name: Tally() for name in (*_LIES, "good")}
    async with (
        http_server.serving(_Liar("never").script) as never,
        http_server.serving(_Liar("drip").script) as drip,
        http_server.serving(_Liar("garbage").script) as garbage,
        http_server.serving(_Liar("early").script) as early,
        http_server.serving(http_server.McpServer().script) as good,
    ):
        timeouts = {"timeouts": {"call": "2s", "max": "3s", "start": "3s"}}
        ports = {"never": never, "drip": drip, "garbage": garbage, "early": early, "good": good}
        servers: Json = {name: {"url": server.url, **timeouts} for name, server in ports.items()}
        serve = rig.counted(folder, {"servers": servers})
        gateway = await asyncio.to_thread(serve.__enter__)
        try:
            await asyncio.to_thread(gateway.await_servers, *servers)
            deadline = time.monotonic() + seconds
            async with asyncio.TaskGroup() as group:
                for name, tally in tallies.items():
                    load = Load((f"{name}__echo",), 20.0, 4)
                    group.create_task(rig.press(gateway, load, lambda: time.monotonic() > deadline, tally))
            rig.show(await asyncio.to_thread(rig.settled, gateway))
        finally:
            await asyncio.to_thread(serve.__exit__, None, None, None)
    for name, tally in tallies.items():
        rig.show(f"{name}: {tally}")
        allowed = {"ok"} if name == "good" else {"unavailable", "timeout", "protocol_error", "overloaded"}
        problems += [f"{name}: {problem}" for problem in _unexpected(tally, allowed)]
        if max(tally.slowest.values(), default=0) > 3.5:
            problems.append(f"{name}: a call took {max(tally.slowest.values()):.1f} s")
    if tallies["good"].quantile(0.99) > 0.3:
        problems.append(f"the good server's calls took {tallies['good'].quantile(0.99):.2f} s")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def gateway_kills(folder: Path, times: int) -> list[str]:
    """Kill the gateway itself: nothing of it stays, the log verifies, and no call was made without a start record."""
    problems: list[str] = []
    servers = {name: rig.scripted(folder / name, "ledger") for name in ("a", "b")}
    with rig.counted(folder, {"servers": servers}) as gateway:
        for round_ in range(times):
            gateway.await_servers("a", "b")
            below = descendants(gateway.pid)
            tally = Tally()
            killed = False
            load = Load(("a__echo", "b__echo"), 150.0, 12, {"round": round_})

            async def run(load: Load = load, tally: Tally = tally) -> None:
                nonlocal killed
                killed = False
                pressing = asyncio.get_running_loop().create_task(rig.press(gateway, load, lambda: killed, tally))
                await asyncio.sleep(random.uniform(0.3, 1.2))
                await asyncio.to_thread(gateway.kill)
                killed = True
                await pressing

            asyncio.run(run())
            eventually(lambda pids=below: not any(alive(pid) for pid in pids), "children are gone", 3)  # type: ignore[misc]  # reason: a default.
            verified = gateway.cli("audit", "verify", gateway.audit)
            if verified.returncode != 0:
                problems.append(f"round {round_}: {verified.stdout[-300:]}{verified.stderr[-300:]}")
            gateway.start()
            verified = gateway.cli("audit", "verify", gateway.audit)
            if verified.returncode != 0:
                problems.append(f"round {round_}, restarted: {verified.stdout[-300:]}{verified.stderr[-300:]}")
        gateway.stop()
        problems += _unrecorded(gateway, folder)
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def _unrecorded(gateway: Gateway, folder: Path) -> list[str]:
    """Compare what servers saw with the starts in the log, by the digest of the arguments."""
    key = load_key(gateway.folder / "state")
    seen = {
        key.digest("arguments", rawjson.canonical(json.loads(line)))
        for name in ("a", "b")
        for line in (folder / name / "ledger.jsonl").read_text().splitlines()
    }
    starts = [record for record in gateway.records() if record["event"] == "call.start"]
    recorded = {record["payload"]["args_hmac"] for record in starts}
    rig.show(f"servers saw {len(seen)} calls, the log has {len(recorded)} starts")
    return [f"{len(seen - recorded)} calls were made without a start record"] if seen - recorded else []
