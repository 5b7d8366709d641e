"""Disks that fill up, descriptors that run out, readers that do not read, and work that could hold the loop."""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import rig
from tests.bench.rig import Load, Tally
from tests.kit import wire
from tests.kit.gateway import Gateway, Json, eventually

TOO_LATE = 0.05
"""Seconds the loop may be late."""


async def _pressed(gateway: Gateway, load: Load, seconds: float) -> Tally:
    tally, until = Tally(), time.monotonic() + seconds
    await rig.press(gateway, load, lambda: time.monotonic() > until, tally)
    return tally


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[bool]:
    """Mount a little file system, where that is allowed."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", str(folder)]
    done = subprocess.run(mount, check=False, capture_output=True)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=False)


def full_disk(folder: Path, rounds: int) -> list[str]:
    """A full disk under the audit log: calls are refused, nothing is lost silently, and it goes on with room."""
    problems: list[str] = []
    audit = folder / "disk"
    with _small_disk(audit, "16m") as mounted:
        if not mounted:
            rig.show("full disk: skipped, nothing can be mounted here")
            return []
        config: Json = {"servers": {"a": rig.scripted(folder / "a")}, "audit": {"dir": str(audit / "audit")}}
        with rig.counted(folder, config) as gateway:
            gateway.await_servers("a")
            gateway.audit = audit / "audit"
            ballast = audit / "ballast"
            load = Load(("a__echo",), 200.0, 16)
            for _ in range(rounds):
                good = asyncio.run(_pressed(gateway, load, 1.0))
                free = shutil.disk_usage(audit).free
                ballast.write_bytes(b"x" * max(0, free - 65536))
                full = asyncio.run(_pressed(gateway, load, 4.0))
                ready, alive = gateway.admin("/readyz")[0], gateway.admin("/healthz")[0]
                ballast.unlink()
                eventually(lambda: gateway.admin("/readyz")[0] == 200, "ready again", 5)
                again = asyncio.run(_pressed(gateway, load, 1.0))
                rig.show(f"full disk: before {good}\n  full {full} (ready {ready}, alive {alive})\n  after {again}")
                problems += _only(good, "ok") + _only(again, "ok") + _only(full, "ok", "audit_unavailable")
                if "audit_unavailable" not in full.ends or ready != 503 or alive != 200:
                    problems.append(f"a full disk was not noticed: {full}, ready {ready}, alive {alive}")
            gateway.stop()
            problems += rig.audit_problems(gateway)
            if not any(record["event"] == "audit.gap" for record in gateway.records()):
                problems.append("losses are not accounted for")
    return problems + rig.stderr_problems(gateway)


def no_files_at_all(folder: Path, rounds: int) -> list[str]:
    """Not one byte may be written to any file, the gateway's own output included."""
    problems: list[str] = []
    with rig.counted(folder, {"servers": {"a": rig.scripted(folder / "a")}}) as gateway:
        gateway.await_servers("a")
        load = Load(("a__echo",), 200.0, 16)
        for _ in range(rounds):
            limits = resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
            full = asyncio.run(_pressed(gateway, load, 3.0))
            resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, limits)
            eventually(lambda: gateway.admin("/readyz")[0] == 200, "ready again", 5)
            again = asyncio.run(_pressed(gateway, load, 1.0))
            rig.show(f"no writing: {full}\n  after {again}")
            problems += _only(again, "ok") + _only(full, "ok", "audit_unavailable")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


def _only(tally: Tally, *ends: str) -> list[str]:
    return [f"{count} calls ended with {end}" for end, count in tally.ends.items() if end not in ends]


def few_files(folder: Path, rounds: int) -> list[str]:
    """Descriptors run out: no crash, those who are connected go on, and it recovers."""
    problems: list[str] = []
    servers = {name: rig.scripted(folder / name) for name in ("a", "b")}
    with rig.counted(folder, {"servers": servers}) as gateway:
        gateway.await_servers("a", "b")
        before = rig.settled(gateway)
        hard = resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (256, hard))
        for _ in range(rounds):
            problems += asyncio.run(_exhausted(gateway))
            eventually(
                lambda: asyncio.run(_pressed(gateway, Load(("a__echo",), 20.0, 2), 0.3)).ends["ok"] > 0, "served"
            )
        after = rig.settled(gateway)
        rig.show(f"few files:\n  before {before}\n  after  {after}")
        problems += rig.grown(before, after, 24 * 2**20)
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


async def _exhausted(gateway: Gateway) -> list[str]:
    tally, until, cpu = Tally(), time.monotonic() + 4, _cpu(gateway)
    with ExitStack() as stack:
        pressing = asyncio.get_running_loop().create_task(
            rig.press(gateway, Load(("a__echo", "b__echo"), 50.0, 4), lambda: time.monotonic() > until, tally)
        )
        await asyncio.sleep(0.5)
        for _ in range(400):
            idle = stack.enter_context(socket.socket())
            idle.settimeout(2)
            idle.connect(("127.0.0.1", gateway.port))
        await pressing
        files = rig.open_files(gateway.pid)
    rig.show(f"exhausted: {files} files, {tally}, {_cpu(gateway) - cpu:.1f} s of CPU in 4 s")
    return _only(tally, "ok")


def _cpu(gateway: Gateway) -> float:
    fields = Path(f"/proc/{gateway.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def slow_readers(folder: Path, count: int) -> list[str]:
    """Clients that never read while a server floods progress at them: memory is bounded, others do not notice."""
    problems: list[str] = []
    servers = {"a": rig.scripted(folder / "a"), "b": rig.scripted(folder / "b")}
    with rig.counted(folder, {"servers": servers}, {"WATCH_LOOP": "1"}) as gateway:
        gateway.await_servers("a", "b")
        asyncio.run(_pressed(gateway, Load(("b__echo",), 50.0, 4), 1.0))
        before = rig.settled(gateway)
        highest = 0
        with ExitStack() as stack:
            for number in range(count):
                stack.enter_context(_deaf(gateway, number))

            async def run() -> Tally:
                nonlocal highest
                pressing = asyncio.get_running_loop().create_task(_pressed(gateway, Load(("b__echo",), 50.0, 4), 6.0))
                while not pressing.done():
                    highest = max(highest, rig.resident(gateway.pid))
                    await asyncio.sleep(0.1)
                return pressing.result()

            tally = asyncio.run(run())
        after = rig.settled(gateway, 40)
        rig.show(
            f"slow readers: others {tally}\n  before {before}\n  highest {highest / 2**20:.1f} MiB\n  after  {after}"
        )
        rig.show(f"  late {[round(each.seconds, 3) for each in rig.lateness(gateway)]}")
        problems += _only(tally, "ok") + rig.grown(before, after, 48 * 2**20)
        if highest - before.memory > count * 2 * 2**20:
            problems.append(f"memory rose by {(highest - before.memory) >> 20} MiB")
        if tally.quantile(0.99) > 0.5:
            problems.append(f"others waited {tally.quantile(0.99):.2f} s")
    return problems + rig.stderr_problems(gateway) + rig.audit_problems(gateway)


@contextmanager
def _deaf(gateway: Gateway, number: int) -> Iterator[None]:
    """Ask for a flood and read nothing of it."""
    params = {
        "name": "a__progress",
        "arguments": {"steps": 200_000},
        "_meta": {**wire.modern_meta(), "progressToken": number},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {wire.MODERN}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: a__progress\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", gateway.port))
        client.sendall(head.encode() + body)
        yield


def lag(folder: Path, seconds: int) -> list[str]:
    """What could hold the loop, one after the other; says how late the loop was at most."""
    problems: list[str] = []
    big = {"limits": {**rig.MANY, "in_flight": 256}}
    servers: Json = {
        "a": {**rig.scripted(folder / "a"), "max_result": "32MiB"},
        "b": rig.scripted(folder / "b"),
        "many": rig.scripted(folder / "many", "catalog=1000"),
    }
    with rig.counted(folder, {**big, "servers": servers}, {"WATCH_LOOP": "1"}) as gateway:
        gateway.await_servers(*servers)
        works = {
            "idle": None,
            "bodies of 4 MiB": _bodies,
            "results of 16 MiB": _results,
            "1,000 tools that change": _changes,
            "lists of 1,000 tools": _lists,
            "hostile JSON": _hostile,
            "reloads": _reloads,
        }
        for name, work in works.items():
            began = time.monotonic()
            others = asyncio.run(_lateness(gateway, seconds, work))
            late = [each for each in rig.lateness(gateway) if each.at >= began]
            longest = max((each.seconds for each in late), default=0.0)
            rig.show(f"{name}: other calls {others}\n  late {len(late)} times, {longest:.3f} s at most")
            worst: dict[str, rig.Late] = {}
            for each in sorted(late, key=lambda each: -each.seconds):
                worst.setdefault(each.where.split(":")[0], each)
            for each in list(worst.values())[:6]:
                rig.show(f"    {each.seconds:.3f} {each.where[:420]}")
    return problems + rig.stderr_problems(gateway)


async def _lateness(gateway: Gateway, seconds: float, work: object) -> Tally:
    until = time.monotonic() + seconds
    tally = Tally()
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.press(gateway, Load(("b__echo",), 100.0, 2), lambda: time.monotonic() > until, tally))
        if callable(work):
            group.create_task(work(gateway, until))
    return tally


async def _bodies(gateway: Gateway, until: float) -> None:
    async with wire.http_client(gateway.url, "modern") as client:
        while time.monotonic() < until:
            answer = await wire.call(client, "a__whoami", {"text": "x" * (4 * 2**20 - 4096)})
            assert rig.ending(answer) == "ok", answer.message
            answer = await wire.call(client, "a__whoami", {f"k{n}": [n, "v" * 100] for n in range(9000)})
            assert rig.ending(answer) == "ok", answer.message


async def _results(gateway: Gateway, until: float) -> None:
    async with wire.http_client(gateway.url, "modern") as client:
        while time.monotonic() < until:
            answer = await wire.call(client, "a__big", {"size": 16 * 2**20})
            assert rig.ending(answer) == "ok", str(answer.message)[:500]


async def _changes(gateway: Gateway, until: float) -> None:
    async with wire.http_client(gateway.url, "modern") as client:
        while time.monotonic() < until:
            await wire.call(client, "many__change")
            await asyncio.sleep(0.2)


async def _lists(gateway: Gateway, until: float) -> None:
    async with wire.http_client(gateway.url, "modern") as client:
        while time.monotonic() < until:
            await wire.every(client, "tools/list", "tools")


async def _hostile(gateway: Gateway, until: float) -> None:
    meta = json.dumps(wire.modern_meta())
    start = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{meta},"name":"b__echo","arguments":'
    texts = [
        start + "[" * 3_000_000,
        start + '{"a":' * 700_000,
        start + "[" + "1," * 1_500_000 + "1]}}",
        start + "{" + ",".join(f'"k{n}":1' for n in range(300_000)) + "}}}",
        start + '"' + "\\ud800" * 600_000 + '"}}',
        start + '"' + '\\"' * 2_000_000 + '"}}',
        start + "[" + ",".join(["1" * 64] * 60_000) + "]}}",
        start + "[" + ",".join(["1e308"] * 99_000) + "]}}",
        start + "{" + ",".join(f'"k{n}":"v"' for n in range(9_999)) + "}}}",
        start + "[" + ",".join(['{"a":"b","c":[]}'] * 30_000) + "]}}",
    ]
    async with wire.http_client(gateway.url, "modern") as client:
        head = {**client._head("tools/call", {"name": "b__echo"}), "Content-Type": "application/json"}
        while time.monotonic() < until:
            for text in texts:
                await client.post(text, head)


async def _reloads(gateway: Gateway, until: float) -> None:
    config = json.loads(gateway.file.read_text())
    number = 0
    while time.monotonic() < until:
        number += 1
        rule = {"tools": "*/echo", "when": f"size(args) < {number + 100}"}
        policies = [{"name": f"p{n}", "clients": ["anonymous"], "allow": ["*/*", rule]} for n in range(5)]
        await asyncio.to_thread(gateway.reload, {**config, "policies": policies})
        await asyncio.sleep(0.1)
