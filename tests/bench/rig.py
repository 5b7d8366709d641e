"""What the stress runs share: a gateway whose insides can be counted, servers that keep a ledger, callers at a rate.

Memory, files and threads come from ``/proc``; the number of tasks from a hook in the gateway's interpreter, which
writes it to a file on SIGUSR2, so that the gateway itself needs to expose nothing for this.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.kit import wire
from tests.kit.gateway import ROOT, Gateway, Json, alive, descendants, serving

SCRIPTED = ROOT / "tests" / "kit" / "stdio_server.py"
MANY: Json = {"requests": "1000000/second", "in_flight": 256}

_HOOK = """
import asyncio, asyncio.tasks, os, signal, sys, threading, time, traceback
def tell(number, frame):
    names = [task.get_name() for task in list(asyncio.tasks._all_tasks) if not task.done()]
    with open(os.environ["TASKS_FILE"] + ".new", "w") as file:
        file.write("\\n".join(names))
    os.replace(os.environ["TASKS_FILE"] + ".new", os.environ["TASKS_FILE"])
def watch(loop, main, path):
    while True:
        beat = threading.Event()
        asked = time.monotonic()
        try:
            loop.call_soon_threadsafe(beat.set)
        except RuntimeError:
            return
        held = ""
        while not beat.wait(0.02):
            frame = sys._current_frames().get(main)
            lines = traceback.extract_stack(frame)[-14:] if frame else []
            places = [f"{each.name}:{os.path.basename(each.filename)}:{each.lineno}" for each in lines]
            held = " < ".join(reversed(places))
        late = time.monotonic() - asked
        if late > 0.03:
            with open(path, "a") as file:
                file.write(f"{asked:.3f} {late:.3f} {held}\\n")
        time.sleep(0.005)
if "TASKS_FILE" in os.environ:
    signal.signal(signal.SIGUSR2, tell)
    run = asyncio.Runner.run
    def watched(self, *arguments, **more):
        path = os.environ["TASKS_FILE"] + ".late"
        main = threading.get_ident()
        threading.Thread(target=watch, args=(self.get_loop(), main, path), daemon=True).start()
        return run(self, *arguments, **more)
    if os.environ.get("WATCH_LOOP"):
        asyncio.Runner.run = watched
"""


def scripted(folder: Path, *modes: str) -> Json:
    """Return the config of a scripted server that works in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["-I", "-S", str(SCRIPTED), "--name", folder.name, *modes]
    return {"command": sys.executable, "args": arguments, "cwd": str(folder)}


@contextmanager
def counted(folder: Path, config: Json, environment: dict[str, str] | None = None) -> Iterator[Gateway]:
    """Serve for a block, with tasks that ``levels`` can count."""
    hooks = folder / "hooks"
    hooks.mkdir(parents=True, exist_ok=True)
    (hooks / "sitecustomize.py").write_text(_HOOK)
    path = os.pathsep.join([str(hooks), str(ROOT)])
    own = {"PYTHONPATH": path, "TASKS_FILE": str(folder / "tasks"), **(environment or {})}
    with serving(folder / "gateway", {"limits": MANY, **config}, own) as gateway:
        yield gateway


def tasks(gateway: Gateway) -> list[str]:
    """Return the names of the gateway's tasks that are not done."""
    file = Path(gateway.environment["TASKS_FILE"])
    file.unlink(missing_ok=True)
    os.kill(gateway.pid, signal.SIGUSR2)
    deadline = time.monotonic() + 5
    while not file.exists():
        assert time.monotonic() < deadline, "the gateway does not count its tasks"
        gateway.admin("/healthz")
        time.sleep(0.02)
    return file.read_text().split("\n")


def resident(pid: int) -> int:
    """Return the bytes of memory a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    """Return how many descriptors a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@dataclass(frozen=True, slots=True)
class Levels:
    """What a gateway holds at one moment."""

    memory: int
    files: int
    threads: int
    tasks: int
    children: int
    zombies: int
    sessions: int
    streams: int

    def __str__(self) -> str:
        return (
            f"{self.memory / 2**20:6.1f} MiB  {self.files} files  {self.threads} threads  {self.tasks} tasks  "
            f"{self.children} children  {self.zombies} zombies  {self.sessions} sessions  {self.streams} streams"
        )


def levels(gateway: Gateway) -> Levels:
    """Measure now."""
    below = descendants(gateway.pid)
    living = {pid for pid in below if alive(pid)}
    status = Path(f"/proc/{gateway.pid}/status").read_text()
    threads = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Threads:"))
    return Levels(
        resident(gateway.pid),
        open_files(gateway.pid),
        threads,
        len(tasks(gateway)),
        len(living),
        len(below - living),
        int(gateway.metric("mcp_gateway_sessions")),
        int(gateway.metric("mcp_gateway_streams")),
    )


def settled(gateway: Gateway, seconds: float = 15.0) -> Levels:
    """Measure once two measurements in a row agree in everything but memory."""
    deadline, before = time.monotonic() + seconds, levels(gateway)
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = levels(gateway)
        if _countable(now) == _countable(before):
            return now
        before = now
    return before


def _countable(value: Levels) -> tuple[int, ...]:
    return (value.files, value.tasks, value.children, value.zombies, value.sessions, value.streams)


def grown(before: Levels, after: Levels, memory: int, spare: int = 3) -> list[str]:
    """Return what did not come back to where it was; ``spare`` files, tasks and children more are accepted."""
    problems = []
    if after.memory - before.memory > memory:
        problems.append(f"memory grew by {(after.memory - before.memory) >> 20} MiB")
    for name in ("files", "threads", "tasks", "children", "streams"):
        more = int(getattr(after, name)) - int(getattr(before, name))
        if more > spare:
            problems.append(f"{more} more {name}")
    if after.zombies:
        problems.append(f"{after.zombies} zombies")
    return problems


def ending(answer: wire.Answer) -> str:
    """Say in a word how a call ended."""
    result = answer.message.get("result")
    if result is None:
        return f"status {answer.status} error {answer.message.get('error', {}).get('code')}"
    if not result.get("isError"):
        return "ok"
    refusal = result.get("_meta", {}).get("dev.mcp-gateway/refusal")
    return str(refusal["reason"]) if refusal else "isError"


@dataclass(slots=True)
class Tally:
    """How calls ended, how long each kind took at most, and all durations of those that went well."""

    ends: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)
    durations: list[float] = field(default_factory=list)

    def note(self, end: str, seconds: float) -> None:
        """Count one call."""
        self.ends[end] += 1
        self.slowest[end] = max(self.slowest.get(end, 0.0), seconds)
        if end == "ok":
            self.durations.append(seconds)

    def __str__(self) -> str:
        slow = {end: f"{seconds * 1e3:.0f} ms" for end, seconds in self.slowest.items()}
        middle, high = self.quantile(0.5) * 1e3, self.quantile(0.99) * 1e3
        return f"{dict(self.ends)} slowest {slow} p50 {middle:.1f} p99 {high:.1f} ms"

    def quantile(self, share: float) -> float:
        """Return a quantile of the durations of good calls, in seconds."""
        ordered = sorted(self.durations)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """``rate`` calls a second in all, from ``callers`` clients of both eras, of the named tools in turn."""

    names: tuple[str, ...]
    rate: float = 50.0
    callers: int = 8
    arguments: Json = field(default_factory=dict)


async def press(gateway: Gateway, load: Load, until: Callable[[], bool], tally: Tally) -> None:
    """Call until told to stop; broken connections are counted as such."""
    async with asyncio.TaskGroup() as group:
        for number in range(load.callers):
            group.create_task(_caller(gateway, load, number, until, tally))


async def _caller(gateway: Gateway, load: Load, number: int, until: Callable[[], bool], tally: Tally) -> None:
    era: wire.EraName = "modern" if number % 2 else "legacy"
    pause = load.callers / load.rate
    try:
        async with wire.http_client(gateway.url, era) as client:
            turn = 0
            while not until():
                turn += 1
                started = time.monotonic()
                name = load.names[turn % len(load.names)]
                try:
                    answer = await wire.call(client, name, {**load.arguments, "nonce": f"{number}-{turn}"})
                    end = ending(answer)
                except (OSError, aiohttp.ClientError) as error:
                    end = type(error).__name__
                tally.note(end, time.monotonic() - started)
                await asyncio.sleep(max(0.0, pause - (time.monotonic() - started)))
    except (OSError, AssertionError, aiohttp.ClientError) as error:
        tally.note(f"client {type(error).__name__}", 0.0)


def audit_problems(gateway: Gateway) -> list[str]:
    """Verify the audit log of a gateway that has ended, and compare starts with ends."""
    verified = gateway.cli("audit", "verify", gateway.audit)
    problems = [] if verified.returncode == 0 else [f"audit verify: {verified.stdout[-500:]} {verified.stderr[-500:]}"]
    records = gateway.records()
    started = Counter(str(record["call_id"]) for record in records if record["event"] == "call.start")
    ended = Counter(str(record["call_id"]) for record in records if record["event"] in ("call.end", "call.orphaned"))
    if started != ended:
        lost, extra = started - ended, ended - started
        problems.append(f"{len(lost)} calls without an end, {len(extra)} ends without a start or too many")
    return problems


def stderr_problems(gateway: Gateway) -> list[str]:
    """Return what a gateway's output holds that it must not."""
    bad = ("Traceback", "never awaited", "ResourceWarning", "never retrieved", "crashed", "Unclosed", "unclosed")
    lines = gateway.log.read_text(errors="replace").splitlines()
    return [line[:300] for line in lines if any(word in line for word in bad)]


def show(text: object) -> None:
    """Print one line now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Late:
    """One time the loop was held: when it began (monotonic), for how many seconds, and where."""

    at: float
    seconds: float
    where: str


def lateness(gateway: Gateway) -> list[Late]:
    """Return every time the loop was late by over 30 ms, where ``counted`` was given ``WATCH_LOOP``."""
    file = Path(gateway.environment["TASKS_FILE"] + ".late")
    lines = file.read_text().splitlines() if file.exists() else []
    found = [line.split(" ", 2) for line in lines]
    return [Late(float(each[0]), float(each[1]), each[2] if len(each) > 2 else "") for each in found]
