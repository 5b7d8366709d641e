"""Runs the gateway as users do: a process of its own, told by a config file and signals, asked over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("mcp-gateway")
READY_SECONDS = 20.0
STOP_SECONDS = 30.0


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(ask: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Ask until the answer is true; fail with ``what`` when it is not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not ask():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def descendants(pid: int) -> set[int]:
    """Return every process below ``pid``."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found: set[int] = set()
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found


def running_in(folder: Path) -> set[int]:
    """Return the processes whose working directory is ``folder``: how a test finds a server it configured."""
    found = set()
    for cwd in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if Path(os.readlink(cwd)) == folder:
                found.add(int(cwd.parent.name))
        except OSError:
            continue
    return {pid for pid in found if alive(pid)}


class Gateway:
    """One gateway process in a folder of its own. ``config`` may leave out what is decided here: ports and folders."""

    def __init__(self, folder: Path, config: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port, self.admin_port = free_port(), free_port()
        self.environment = {**os.environ, **(environment or {})}
        self.file = folder / "gateway.yaml"
        self.log = folder / "gateway.log"
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.audit = folder / "audit"
        self.options: list[str] = []
        """More options for ``serve``."""
        self.token = ""
        """Token that the admin listener is asked with; none is needed to read on loopback."""
        self._process: subprocess.Popen[bytes] | None = None
        self.write(config)

    def text(self, config: Mapping[str, Any]) -> str:
        """Return what is written to the config file; JSON is YAML."""
        whole: Json = {"state": {"dir": "state"}, **config}
        whole["audit"] = {"dir": "audit", **config.get("audit", {})}
        whole["listen"] = {"port": self.port, **config.get("listen", {})}
        whole["admin"] = {"port": self.admin_port, **config.get("admin", {})}
        return json.dumps(whole, indent=1)

    def write(self, config: Mapping[str, Any]) -> None:
        """Write the config file, as careful programs do."""
        beside = self.file.with_suffix(".new")
        beside.write_text(self.text(config))
        beside.replace(self.file)

    @property
    def pid(self) -> int:
        """Pid of the gateway itself."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it takes calls."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start, without waiting."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [COMMAND, "serve", "-c", self.file, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Wait until it takes calls."""
        try:
            eventually(self._ready, "ready", READY_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-4000:]}") from None

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the gateway ended with {self._process.returncode}")
        try:
            return self.admin("/readyz")[0] == 200
        except OSError:
            return False

    def admin(self, path: str) -> tuple[int, str]:
        """GET from the admin listener."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        question = urllib.request.Request(f"http://127.0.0.1:{self.admin_port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(question, timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self) -> Json:
        """Return what ``/status`` says."""
        code, body = self.admin("/status")
        assert code == 200, body
        answer: Json = json.loads(body)
        return answer

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that carry ``labels``; 0 where there is none."""
        total = 0.0
        for line in self.admin("/metrics")[1].splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{key}="{text}"' in series for key, text in labels.items()):
                total += float(value)
        return total

    def await_servers(self, *names: str) -> None:
        """Wait until every one of the named servers is up and its lists are known."""

        def down() -> list[str]:
            servers = self.status()["servers"]
            return [name for name in names if servers[name]["state"] != "up" or not servers[name].get("listed")]

        try:
            eventually(lambda: not down(), "the servers are up", READY_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; down: {down()}\n{self.log.read_text()[-4000:]}") from None

    def reload(self, config: Mapping[str, Any]) -> None:
        """Write another config, send SIGHUP and wait until it was read, whether or not it was taken."""
        before = self.metric("mcp_gateway_config_reloads_total")
        self.write(config)
        os.kill(self.pid, signal.SIGHUP)
        eventually(lambda: self.metric("mcp_gateway_config_reloads_total") > before, "reloaded")

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(5)

    def terminate(self) -> None:
        """Ask it to drain; ``wait`` tells how it ended."""
        assert self._process is not None
        self._process.terminate()

    def wait(self) -> int:
        """Return the exit code."""
        assert self._process is not None
        return self._process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """End it whatever state it is in, with everything below it."""
        if self._process is None or self._process.poll() is not None:
            return
        below = descendants(self.pid)
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)
        for pid in below:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)

    def cli(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command line tool in the gateway's folder."""
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def records(self) -> list[Json]:
        """Return every whole audit record written so far."""
        found: list[Json] = []
        for segment in sorted(self.audit.glob("*.jsonl")):
            lines = segment.read_bytes().split(b"\n")
            found += [json.loads(line) for line in lines[:-1] if line]
        return found


@contextmanager
def serving(folder: Path, config: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Iterator[Gateway]:
    """Run a gateway for a block."""
    folder.mkdir(parents=True, exist_ok=True)
    gateway = Gateway(folder, config, environment)
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.stop()
