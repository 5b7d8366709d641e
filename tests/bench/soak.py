"""Everything that wears a gateway out (``make soak``); ends with 1 when something does not hold.

First load with servers dying underneath, for ``SOAK_MINUTES``: memory and files must stay level. Then the runs of
``RUNS``, each in a folder of its own; ``python -m tests.bench.soak NAME…`` does only those that are named.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.bench import chaos, crossed, leaks, lifecycle, pressure, shared_limits
from tests.kit import wire
from tests.kit.gateway import ROOT, Gateway, Json, running_in, serving

SCRIPTED = ROOT / "tests" / "kit" / "stdio_server.py"
SERVERS = ("a", "b", "c")
CALLERS = 8
KILL_EVERY = 5.0
SAMPLE_EVERY = 5.0
WARM_UP = 30.0
MAX_GROWTH = 64 * 2**20
MAX_FILES = 32
EXPECTED = {"ok", "unavailable", "overloaded"}

RUNS: dict[str, tuple[Callable[[Path, int], list[str]], int]] = {
    "sessions": (leaks.sessions, 3000),
    "private-sessions": (leaks.private_sessions, 300),
    "cancelled": (leaks.cancelled, 3000),
    "streams": (leaks.streams, 500),
    "restarts": (leaks.restarts, 300),
    "reload-leaks": (leaks.reloads, 300),
    "kills": (chaos.kills, 100),
    "stopped": (chaos.stopped, 3),
    "liars": (chaos.liars, 20),
    "gateway-kills": (chaos.gateway_kills, 20),
    "drains": (lifecycle.drains, 20),
    "early-signals": (lifecycle.early_signals, 30),
    "reloads": (lifecycle.reloads, 100),
    "full-disk": (pressure.full_disk, 5),
    "no-writing": (pressure.no_files_at_all, 3),
    "few-files": (pressure.few_files, 5),
    "slow-readers": (pressure.slow_readers, 50),
    "lag": (pressure.lag, 10),
    "crossed": (crossed.crossed, 10_000),
    "shared-limits": (shared_limits.shared_limits, 120),
}
"""What is done, and how often or for how many seconds."""


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _config(folder: Path) -> Json:
    servers: Json = {}
    for name in SERVERS:
        (folder / name).mkdir()
        args = ["-I", "-S", str(SCRIPTED), "--name", name]
        servers[name] = {"command": sys.executable, "args": args, "cwd": str(folder / name)}
    return {"servers": servers, "limits": {"requests": "1000000/second"}}


async def _caller(gateway: Gateway, until: float, ends: Counter[str], number: int) -> None:
    era: wire.EraName = "modern" if number % 2 else "legacy"
    async with wire.http_client(gateway.url, era) as client:
        while time.monotonic() < until:
            answer = await wire.call(client, f"{random.choice(SERVERS)}__echo", {"n": number})
            result = answer.message.get("result")
            if result is None:
                ends[f"error {answer.message.get('error', {}).get('code')}"] += 1
            elif result.get("isError"):
                ends[str(answer.refusal["reason"])] += 1
            else:
                ends["ok"] += 1


async def _killer(folder: Path, until: float) -> None:
    while time.monotonic() < until:
        await asyncio.sleep(KILL_EVERY)
        for pid in running_in(folder / random.choice(SERVERS)):
            os.kill(pid, signal.SIGKILL)


async def _sampler(gateway: Gateway, until: float, samples: list[tuple[int, int]]) -> None:
    await asyncio.sleep(WARM_UP)
    while time.monotonic() < until:
        samples.append((_resident(gateway.pid), _files(gateway.pid)))
        await asyncio.sleep(SAMPLE_EVERY)


async def soak(gateway: Gateway, folder: Path, minutes: float) -> list[str]:
    """Return everything that went wrong."""
    until = time.monotonic() + minutes * 60
    ends: Counter[str] = Counter()
    samples: list[tuple[int, int]] = []
    callers = [_caller(gateway, until, ends, number) for number in range(CALLERS)]
    await asyncio.gather(_killer(folder, until), _sampler(gateway, until, samples), *callers)
    sys.stdout.write(f"{dict(ends)}\n")
    problems = [f"{count} calls ended with {end}" for end, count in ends.items() if end not in EXPECTED]
    quarter = max(1, len(samples) // 4)
    memory = [max(sample[0] for sample in part) for part in (samples[:quarter], samples[-quarter:])]
    files = [max(sample[1] for sample in part) for part in (samples[:quarter], samples[-quarter:])]
    sys.stdout.write(f"resident {memory[0] >> 20} MiB, then {memory[1] >> 20} MiB; files {files[0]}, then {files[1]}\n")
    if memory[1] - memory[0] > MAX_GROWTH:
        problems.append(f"memory grew by {(memory[1] - memory[0]) >> 20} MiB")
    if files[1] - files[0] > MAX_FILES:
        problems.append(f"{files[1] - files[0]} more files are open")
    return problems


def steady(folder: Path, minutes: float) -> list[str]:
    """Run the steady load."""
    with serving(folder / "gateway", _config(folder)) as gateway:
        gateway.await_servers(*SERVERS)
        problems = asyncio.run(soak(gateway, folder, minutes))
    verified = gateway.cli("audit", "verify", gateway.audit)
    sys.stdout.write(verified.stdout)
    return problems if verified.returncode == 0 else [*problems, "the audit log does not verify"]


def main() -> int:
    """Do what was asked for, one after the other, each in a folder of its own."""
    names = sys.argv[1:] or ["steady", *RUNS]
    problems = []
    for name in names:
        sys.stdout.write(f"== {name}\n")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            if name == "steady":
                found = steady(Path(scratch), float(os.environ.get("SOAK_MINUTES", "10")))
            else:
                run, amount = RUNS[name]
                found = run(Path(scratch), amount)
        problems += [f"{name}: {problem}" for problem in found]
    sys.stdout.write("".join(f"PROBLEM {problem}\n" for problem in problems) or "all held\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
