"""What the gateway adds to a call, on this machine (``make bench``).

A scripted server behind a real gateway, called over HTTP at several numbers of calls at once, and the same server
asked directly over its pipe for comparison. Client, gateway and server share the machine: numbers compare runs on
one machine, not machines.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.kit import wire
from tests.kit.gateway import ROOT, serving

SCRIPTED = ROOT / "tests" / "kit" / "stdio_server.py"
COMMAND = [sys.executable, "-I", "-S", str(SCRIPTED)]
SECONDS = 4.0
CALLERS = (1, 8, 32)
ARGUMENTS = {"text": "x" * 200, "number": 17}


@dataclass(frozen=True, slots=True)
class Measured:
    """Durations of calls in seconds, and how long all of them took."""

    durations: list[float]
    elapsed: float

    def row(self, name: str) -> str:
        """One line of the table, in calls per second and milliseconds."""
        cuts = statistics.quantiles(self.durations, n=100)
        rate = len(self.durations) / self.elapsed
        return f"{name:28} {rate:9.0f}/s  p50 {cuts[49] * 1e3:7.2f} ms  p99 {cuts[98] * 1e3:7.2f} ms"


async def measure(call: Callable[[], Awaitable[object]], callers: int) -> Measured:
    """Call in a loop from ``callers`` tasks for ``SECONDS``."""
    durations: list[float] = []
    started = time.perf_counter()

    async def loop() -> None:
        while time.perf_counter() - started < SECONDS:
            before = time.perf_counter()
            await call()
            durations.append(time.perf_counter() - before)

    await asyncio.gather(*(loop() for _ in range(callers)))
    return Measured(durations, time.perf_counter() - started)


async def bench(folder: Path) -> None:
    """Print the table."""
    async with wire.stdio_client(COMMAND, "modern", folder) as direct:
        measured = await measure(lambda: wire.call(direct, "echo", ARGUMENTS), 1)
        sys.stdout.write(measured.row("server alone, 1 call at once") + "\n")
    for durability in ("group", "interval(1s)"):
        config = {
            "servers": {"scripted": {"command": COMMAND[0], "args": COMMAND[1:]}},
            "audit": {"durability": durability},
            "limits": {"requests": "1000000/second", "in_flight": 256},
        }
        with serving(folder / durability.partition("(")[0], config) as gateway:
            gateway.await_servers("scripted")
            for era in ("modern", "legacy"):
                async with wire.http_client(gateway.url, era) as client:
                    for callers in CALLERS:
                        measured = await measure(lambda: wire.call(client, "scripted__echo", ARGUMENTS), callers)
                        name = f"{era}, {durability}, {callers} at once"
                        sys.stdout.write(measured.row(name) + "\n")
            overhead = gateway.metric("mcp_gateway_gateway_overhead_seconds_sum")
            count = gateway.metric("mcp_gateway_gateway_overhead_seconds_count")
            sys.stdout.write(f"{'the gateway itself, mean':28} {overhead / max(count, 1) * 1e3:9.2f} ms\n")


def main() -> None:
    """Run it in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(bench(Path(folder)))


if __name__ == "__main__":
    main()
