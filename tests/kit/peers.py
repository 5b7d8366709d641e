"""Real peers: the official SDKs as clients, each in its own environment, and the servers people run."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.environments import prepare
from tests.kit.gateway import Gateway, eventually, free_port
from tests.kit.wire import EraName

Json: TypeAlias = dict[str, Any]

HERE = prepare.HERE
DEMO = Path(__file__).parents[2] / "demo"
ANSWER_SECONDS = 20.0

CLIENTS = ("mcp1-legacy", "mcp2-legacy", "mcp2-modern", "ts1-legacy", "ts2-legacy", "ts2-modern")
"""The official clients; the second half is the era they are told to speak."""


def environment(name: str) -> Path:
    """Return the folder of an environment; without it a test fails in CI and is skipped elsewhere."""
    if not prepare.ready(name):
        reason = f"the environment {name} is missing or old: run `make environments`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return prepare.ENVIRONMENTS / name


class Driver:
    """An official client that stays connected and carries out commands."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._rest = b""
        self.connected = self._line()

    def do(self, command: str, **arguments: Any) -> Json:
        """Carry out one command; returns ``{"ok": result}`` or ``{"error": …}``."""
        return self.send({"do": command, **arguments})

    def send(self, line: Json) -> Json:
        """Say one thing and return the next line of the client."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        return self._line()

    def ok(self, command: str, **arguments: Any) -> Json:
        """Carry out one command that must end well; returns the result."""
        answer = self.do(command, **arguments)
        assert "ok" in answer, answer
        result: Json = answer["ok"]
        return result

    def _line(self) -> Json:
        assert self._process.stdout is not None
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self._rest:
            readable, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._process.stdout.fileno(), 65536) if readable else b""
            if not chunk:
                raise AssertionError(f"the client said no more; it ended with {self._process.poll()}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        answer: Json = json.loads(line)
        return answer


@contextmanager
def driver(client: str, url: str, log: Path, key: str = "") -> Iterator[Driver]:
    """Connect one of ``CLIENTS`` to an endpoint for a block; ``log`` gets what it says on stderr."""
    line, era = client.split("-")
    command: list[str | Path]
    if line.startswith("mcp"):
        command = [environment(line) / "bin" / "python", HERE / f"drive_{line}.py", url, era]
    else:
        peers = environment("node")
        command = [prepare.node(), HERE / "drive_ts.mjs", url, "v1" if line == "ts1" else era]
    variables = {**os.environ, "PEERS": str(peers)} if line.startswith("ts") else dict(os.environ)
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*command, *([key] if key else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=variables,
        )
    try:
        try:
            connected = Driver(process)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
        yield connected
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True, slots=True)
class Peer:
    """A server people run: how to start it bare, the era it speaks with us, and one call with a known answer.

    ``command`` empty: it listens at ``url``.
    """

    name: str
    era: EraName
    tool: str
    arguments: Json
    expect: str
    command: tuple[str, ...] = ()
    url: str = ""

    @property
    def config(self) -> Json:
        """Return the entry of ``servers``."""
        if self.url:
            return {"url": self.url}
        return {"command": self.command[0], "args": list(self.command[1:])}


@dataclass(frozen=True, slots=True)
class Farm:
    """A running gateway and the real servers behind it, by name."""

    gateway: Gateway
    peers: dict[str, Peer]


def stdio_peers(folder: Path) -> list[Peer]:
    """Return the servers on pipes, each over data of its own in ``folder``."""
    python = str(environment("mcp2") / "bin" / "python")
    servers = environment("servers") / "bin"
    packages = environment("node") / "node_modules" / "@modelcontextprotocol"
    node = str(prepare.node())
    files, repository = _files(folder / "files"), _repository(folder / "repository")
    return [
        notes(folder, "notes"),
        Peer(
            "time",
            "modern",
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            "21:00",
            (str(servers / "mcp-server-time"), "--local-timezone", "UTC"),
        ),
        Peer(
            "git",
            "modern",
            "git_log",
            {"repo_path": str(repository), "max_count": 1},
            "the first commit",
            (str(servers / "mcp-server-git"), "--repository", str(repository)),
        ),
        Peer(
            "everything",
            "legacy",
            "echo",
            {"message": "héllo \u2028 there"},
            "Echo: héllo \u2028 there",
            (node, str(packages / "server-everything" / "dist" / "index.js"), "stdio"),
        ),
        Peer(
            "files",
            "legacy",
            "read_text_file",
            {"path": str(files / "hello.txt")},
            "hello from a file",
            (node, str(packages / "server-filesystem" / "dist" / "index.js"), str(files)),
        ),
        Peer("modern", "modern", "add", {"a": 2, "b": 40}, "42", (python, str(HERE / "modern_server.py"))),
    ]


def notes(folder: Path, name: str) -> Peer:
    """Return a notes server over a fresh copy of the demonstration's team notes."""
    command = (
        sys.executable,
        str(DEMO / "notes.py"),
        "--dataset",
        name,
        "--file",
        str(folder / f"{name}.json"),
        "--seed",
        str(DEMO / "data" / "team.json"),
    )
    return Peer(name, "modern", "read_note", {"id": "n1"}, "Release on Thursday", command)


def _files(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hello.txt").write_text("hello from a file\n")
    return folder


def _repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README").write_text("A repository.\n")
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "the first commit"]):
        subprocess.run(["git", "-C", folder, *command], check=True, capture_output=True)
    return folder


@contextmanager
def http_peers(folder: Path) -> Iterator[list[Peer]]:
    """Run the servers that listen, for a block."""
    ports = free_port(), free_port()
    packages = environment("node") / "node_modules" / "@modelcontextprotocol"
    everything: list[str | Path] = [prepare.node(), packages / "server-everything" / "dist" / "index.js"]
    modern: list[str | Path] = [environment("mcp2") / "bin" / "python", HERE / "modern_server.py"]
    commands = ([*everything, "streamableHttp"], [*modern, "--port", str(ports[1])])
    started = []
    for command in commands:
        with (folder / "peers.log").open("ab") as log:
            variables = {**os.environ, "PORT": str(ports[0])}
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables))
    urls = [f"http://127.0.0.1:{port}/mcp" for port in ports]
    try:
        eventually(lambda: all(listens(port) for port in ports), "the servers listen", 20)
        yield [
            Peer("everything-http", "legacy", "echo", {"message": "over HTTP"}, "Echo: over HTTP", url=urls[0]),
            Peer("modern-http", "modern", "add", {"a": 2, "b": 40}, "42", url=urls[1]),
        ]
    finally:
        for process in started:
            process.kill()
            process.wait(5)


def listens(port: int) -> bool:
    """Tell whether something listens on a loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
