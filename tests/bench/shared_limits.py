"""Three gateways on one Valkey: what they admit together (S84), and what a call costs while it is away (S85).

In the first part one user calls twice as often as it may. In the second the store is stopped, stands still, and answers
two seconds late; each time calls go on, and it comes back. One of the runs of ``soak``; alone it is
``python -m tests.bench.shared_limits``.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from tests.kit import valkey, wire
from tests.kit.field import scripted
from tests.kit.gateway import Gateway, Json, serving
from tests.kit.wire import HttpClient

REPLICAS: Final = 3
LIMIT: Final = 30
"""Calls a minute of the first part's user, as many at once as there are replicas."""
PACE: Final = 0.02
"""Seconds between two calls of each client of the second part."""
PHASE: Final = 6.0
ADDED: Final = 0.05
"""Seconds that an outage may add to a call."""
RECOVERY: Final = 5.0
KEYS: Final = {name: f"mcpgw_{name.ljust(8, '0')}_{name[0] * 43}" for name in ("slow", "busy")}


@dataclass
class Phase:
    """What calls took, in seconds, and how many were admitted."""

    name: str
    times: list[float] = field(default_factory=list)
    admitted: int = 0

    def at(self, part: float) -> float:
        """Return a quantile."""
        return sorted(self.times)[min(int(len(self.times) * part), len(self.times) - 1)]

    def __str__(self) -> str:
        p50, p99, longest = (self.at(part) * 1000 for part in (0.5, 0.99, 1.0))
        text = f"{len(self.times)} calls, {self.admitted} admitted, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        return f"{self.name:<10} {text}, longest {longest:.1f} ms"


def config(port: int) -> Json:
    """Return the config of every replica."""
    return {
        "servers": {"one": scripted("--name", "one")},
        "clients": {name: {"key": key} for name, key in KEYS.items()},
        "limits": {"requests": "100000/minute"},
        "policies": [
            {
                "name": "slow",
                "clients": ["slow"],
                "allow": ["one/*"],
                "limits": [{"rate": f"{LIMIT}/minute", "burst": REPLICAS}],
            },
            {"name": "busy", "clients": ["busy"], "allow": ["one/*"], "limits": [{"rate": "10/second", "burst": 10}]},
        ],
        "state": {"dir": "state", "url": f"redis://127.0.0.1:{port}", "sealing_keys": ["s" * 32]},
    }


async def call(client: HttpClient, phase: Phase) -> None:
    """Call once."""
    began = time.perf_counter()
    answer = await wire.call(client, "one__echo", {"a": 1})
    phase.times.append(time.perf_counter() - began)
    phase.admitted += not answer.result.get("isError")


async def together(clients: list[HttpClient], seconds: int) -> list[str]:
    """Call twice as often as allowed, at every replica in turn; return what is not as it has to be."""
    phase, pause = Phase("together"), 60 / (2 * LIMIT)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        await call(clients[len(phase.times) % len(clients)], phase)
        await asyncio.sleep(max(0.0, began + len(phase.times) * pause - time.monotonic()))
    refused = 1 - phase.admitted / len(phase.times)
    most = LIMIT * seconds / 60 + REPLICAS
    sys.stdout.write(f"{phase}; {refused:.1%} refused, at most {most:.0f} to be admitted\n")
    # In a shorter run the calls that may come at once count for more.
    fine = phase.admitted <= most and (seconds < 100 or 0.45 <= refused <= 0.55)
    return [] if fine else [f"together: {phase.admitted} admitted, {refused:.1%} refused"]


async def calling(clients: list[HttpClient], phase: Phase) -> None:
    """Call at every replica at once, at a steady pace."""

    async def one(client: HttpClient) -> None:
        until = time.monotonic() + PHASE
        while time.monotonic() < until:
            await call(client, phase)
            await asyncio.sleep(PACE)

    await asyncio.gather(*(one(client) for client in clients))


async def outage(
    name: str, gateways: list[Gateway], clients: list[HttpClient], act: Callable[[], None], undo: Callable[[], None]
) -> list[str]:
    """Call before and during an outage, and see it end; return what is not as it has to be."""
    before, during = Phase("before"), Phase(name)
    await calling(clients, before)
    act()
    await calling(clients, during)
    undo()
    began = time.monotonic()
    for gateway in gateways:
        while await asyncio.to_thread(gateway.metric, "mcp_gateway_ratelimit_degraded"):
            await asyncio.sleep(0.05)
    recovery = time.monotonic() - began
    added = during.at(0.99) - before.at(0.99)
    sys.stdout.write(f"{before}\n{during}\n  added {added * 1000:.1f} ms at p99, back after {recovery:.1f} s\n")
    most = 10 + 10 * PHASE
    alone = during.admitted <= REPLICAS * most * 1.1
    fine = {"adds too much": added <= ADDED, "comes back late": recovery <= RECOVERY, "admits too much": alone}
    fine["admits too much before"] = before.admitted <= most * 1.1
    return [f"{name}: {what}" for what, holds in fine.items() if not holds]


async def run(folder: Path, seconds: int) -> list[str]:
    """Run both parts."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(valkey.running())
        relay = await stack.enter_async_context(valkey.relayed(server.port))
        gateways = []
        for number in range(REPLICAS):
            # Not on the loop, which passes on what they say to the store.
            one = serving(folder / str(number), config(relay.port))
            gateways.append(await asyncio.to_thread(one.__enter__))
            stack.push_async_callback(asyncio.to_thread, one.__exit__, None, None, None)
        for gateway in gateways:
            await asyncio.to_thread(gateway.await_servers, "one")
        session = await stack.enter_async_context(aiohttp.ClientSession())
        slow, busy = ([HttpClient(session, each.url, "modern", KEYS[name]) for each in gateways] for name in KEYS)
        problems = await together(slow, seconds)

        def late() -> None:
            relay.delay = 2.0

        def on_time() -> None:
            relay.delay = 0.0
            relay.cut()

        outages = (
            ("stopped", server.stop, server.start),
            ("paused", server.pause, server.resume),
            ("two late", late, on_time),
        )
        for name, act, undo in outages:
            problems += await outage(name, gateways, busy, act, undo)
        return problems


def shared_limits(folder: Path, seconds: int) -> list[str]:
    """Run both parts; return what is not as it has to be."""
    return asyncio.run(run(folder, seconds))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit("\n".join(shared_limits(Path(temporary), 120)) or 0)
