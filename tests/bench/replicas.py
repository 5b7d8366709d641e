"""Three replicas for longer: a limit that all of them count, replicas that die again and again, a store that comes and
goes. ``python -m tests.bench.replicas [RUN …]``; REPLICA_SECONDS (default 120) is how long each run takes."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final, TypeAlias

from tests.bench import rig
from tests.kit.answering import answering
from tests.kit.cluster import Cluster, outcome
from tests.kit.gateway import Gateway, eventually
from tests.scale.crowd import Crowd, manner
from tests.scale.scene import CURIOUS, HASTE, KEYS, PLAIN, SERVERS, staged

TOLERANCE: Final = 0.05
"""How much more than its limit may pass over all replicas (S84)."""
LOST: Final = frozenset(f"{era} unavailable{more}" for era in ("modern", "legacy") for more in ("", " may have run"))
FINE: Final = frozenset({"modern ok", "legacy ok"})

Run: TypeAlias = Callable[[Cluster, float], Coroutine[object, object, list[str]]]


async def limits(cluster: Cluster, seconds: float) -> list[str]:
    """Call as fast as it goes, and see that no more passes than one gateway would let through."""
    ends: Counter[str] = Counter()
    began = time.monotonic()

    async def caller() -> None:
        async with answering(cluster.url, "modern", manner(KEYS["hasty"])) as client:
            while time.monotonic() - began < seconds:
                ends[outcome((await client.call("plain__echo", {})).message)] += 1
                await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(caller())
    taken = time.monotonic() - began
    most = HASTE * (taken + 1)
    rig.show(f"{dict(ends)} in {taken:.0f} s; the limit allows {most:.0f}")
    problems = [] if set(ends) == {"ok", "rate_limited"} else [f"calls ended otherwise: {dict(ends)}"]
    if ends["ok"] > most * (1 + TOLERANCE):
        problems.append(f"{ends['ok']} calls passed a limit of {most:.0f}")
    if ends["ok"] < most * (1 - 2 * TOLERANCE):
        problems.append(f"only {ends['ok']} calls passed a limit of {most:.0f}")
    return problems


async def kills(cluster: Cluster, seconds: float) -> list[str]:
    """Kill one after the other at random moments; what breaks is what was in flight there, and every log is whole."""
    crowd = Crowd(cluster.url, KEYS["bot"], PLAIN, CURIOUS)
    failed, killed, began = cluster.balancer.failed.total(), 0, time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(crowd.run(modern=6, legacy=4))
        while time.monotonic() - began < seconds:
            victim = random.choice(cluster.gateways)
            await asyncio.sleep(random.uniform(0.2, 1.5))
            await asyncio.to_thread(victim.kill)
            killed += 1
            await asyncio.sleep(random.uniform(0.0, 1.0))
            await _start(victim)
        crowd.stopped.set()
    rig.show(f"{killed} kills: {dict(crowd.ended)}, broken {len(crowd.broken)}")
    broken = cluster.balancer.failed.total() - failed
    problems = [f"calls ended otherwise: {dict(crowd.ended)}"] if set(crowd.ended) - FINE - LOST else []
    # A legacy client's answer may be the request that broke; then it is its call that has no answer.
    if len(crowd.broken) > broken:
        problems.append(f"{len(crowd.broken)} calls broke, but only {broken} requests: {crowd.broken[:5]}")
    if broken > killed * 12:
        problems.append(f"{broken} requests broke in {killed} kills")
    return problems


async def restarts(cluster: Cluster, seconds: float) -> list[str]:
    """Restart all in turn, again and again; nothing is lost."""
    crowd = Crowd(cluster.url, KEYS["bot"], PLAIN, CURIOUS)
    failed, began, turns = cluster.balancer.failed.total(), time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        group.create_task(crowd.run(modern=6, legacy=4))
        while time.monotonic() - began < seconds:
            gateway = cluster.gateways[turns % len(cluster.gateways)]
            turns += 1
            gateway.terminate()
            if await asyncio.to_thread(gateway.wait) != 0:
                return ["a gateway did not end well"]
            await _start(gateway)
        crowd.stopped.set()
    rig.show(f"{turns} restarts: {dict(crowd.ended)}")
    problems = [f"broken: {crowd.broken[:5]}"] if crowd.broken or cluster.balancer.failed.total() > failed else []
    if set(crowd.ended) - FINE - {"modern unavailable may have run"}:
        problems.append(f"calls ended otherwise: {dict(crowd.ended)}")
    return problems


async def outages(cluster: Cluster, seconds: float) -> list[str]:
    """Stop, pause and start the store; no call that needs no other replica fails, and limits never open."""
    crowd = Crowd(cluster.url, KEYS["bot"], PLAIN)
    began, times = time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        group.create_task(crowd.run(modern=6, legacy=0))
        while time.monotonic() - began < seconds:
            times += 1
            if times % 2:
                await asyncio.to_thread(cluster.store.pause)
                await asyncio.sleep(random.uniform(0.5, 4.0))
                await asyncio.to_thread(cluster.store.resume)
            else:
                await asyncio.to_thread(cluster.store.stop)
                await asyncio.sleep(random.uniform(0.5, 4.0))
                await asyncio.to_thread(cluster.store.start)
            await asyncio.to_thread(_store_is_back, cluster)
        crowd.stopped.set()
    slowest = max(crowd.longest.values(), default=0.0)
    rig.show(f"{times} outages: {dict(crowd.ended)}, slowest {slowest * 1e3:.0f} ms")
    problems = [f"broken: {crowd.broken[:5]}"] if crowd.broken else []
    if set(crowd.ended) - FINE:
        problems.append(f"calls ended otherwise: {dict(crowd.ended)}")
    return problems


def _store_is_back(cluster: Cluster) -> None:
    eventually(
        lambda: all(gateway.status()["store"]["state"] == "up" for gateway in cluster.gateways), "the store is back", 10
    )


async def _start(gateway: Gateway) -> None:
    await asyncio.to_thread(gateway.start)
    await asyncio.to_thread(gateway.await_servers, *SERVERS)


RUNS: Final[dict[str, Run]] = {"limits": limits, "kills": kills, "restarts": restarts, "outages": outages}


def run(name: str, folder: Path, seconds: float) -> list[str]:
    """Do one run, and look at all logs afterwards."""
    with staged(folder) as scene:
        cluster = scene.cluster
        problems = asyncio.run(RUNS[name](cluster, seconds))
        try:
            eventually(lambda: not cluster.unbalanced(), "every call has one start and one end", 30)
            cluster.verify()
        except AssertionError as error:
            problems.append(f"{error} {dict(list(cluster.unbalanced().items())[:5])}")
    return problems


def main() -> int:
    """Do the runs asked for, each with gateways of its own."""
    seconds = float(os.environ.get("REPLICA_SECONDS", "120"))
    problems = []
    for name in sys.argv[1:] or RUNS:
        sys.stdout.write(f"== {name}\n")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            problems += [f"{name}: {problem}" for problem in run(name, Path(scratch), seconds)]
    sys.stdout.write("".join(f"PROBLEM {problem}\n" for problem in problems) or "all held\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
