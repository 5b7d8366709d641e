"""The cells of the matrix: clients of both eras times servers of both eras on both transports, behind one gateway.

Knows no behaviour: what is done in a cell, and what must come of it, is in ``behaviours``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from tests.kit.answering import Answerer, AnsweringClient, Manner, answering, answers_nothing
from tests.kit.gateway import ROOT, Gateway, eventually, free_port, running_in, serving
from tests.kit.peers import listens
from tests.kit.wire import EraName

Json: TypeAlias = dict[str, Any]
Transport: TypeAlias = Literal["stdio", "http"]

ERAS: Final[tuple[EraName, ...]] = ("modern", "legacy")
TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "http")
EVERYTHING: Final[Json] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}
"""What a client declares that can be asked anything."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Who speaks to whom, and over what the server is reached; a client always comes over HTTP."""

    client: EraName
    server: EraName
    transport: Transport

    @property
    def behind(self) -> str:
        """Name of the server in the config; it is the namespace and the scheme of its resources too."""
        return f"{self.server}-{self.transport}"

    def __str__(self) -> str:
        return f"{self.client} client, {self.server} server, {self.transport}"


CELLS: Final = tuple(Cell(client, server, transport) for client, server, transport in product(ERAS, ERAS, TRANSPORTS))
KINDS: Final = tuple(product(ERAS, TRANSPORTS))
EXTENDED: Final = "extended-"
"""What the names of servers with tasks and extensions begin with."""


class Peers:
    """Servers that listen: processes of our own, which can be started anew on the same port."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._ports: dict[str, int] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def port(self, name: str) -> int:
        """Return the port of a server."""
        return self._ports.setdefault(name, free_port())

    def start(self, name: str, era: EraName) -> None:
        """Start one, without waiting for it."""
        module = "tests.matrix.extended_world" if name.startswith(EXTENDED) else "tests.matrix.cell_http"
        command = [sys.executable, "-m", module, name, era, str(self.port(name))]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes[name] = process

    def listening(self) -> None:
        """Wait until all listen."""
        eventually(lambda: all(listens(self.port(name)) for name in self._processes), "the servers listen", 20)

    def kill(self, *names: str) -> None:
        """End these as a crash would; all where none is named."""
        for name in names or tuple(self._processes):
            self._processes[name].kill()
            self._processes[name].wait(5)


@dataclass(frozen=True, slots=True)
class Matrix:
    """The gateway, the servers behind it, and the config it was started with."""

    gateway: Gateway
    peers: Peers
    folder: Path
    config: Json

    def restart(self, cell: Cell) -> None:
        """End the server of a cell and see to it that it runs again: one on pipes is started by the gateway."""
        before = self.gateway.metric("mcp_gateway_downstream_restarts_total", server=cell.behind)
        if cell.transport == "http":
            self.peers.kill(cell.behind)
            self.peers.start(cell.behind, cell.server)
            self.peers.listening()
            return
        for pid in running_in(self.folder / cell.behind):
            os.kill(pid, signal.SIGKILL)
        eventually(
            lambda: self.gateway.metric("mcp_gateway_downstream_restarts_total", server=cell.behind) > before,
            "the gateway has seen the end of its server",
        )


def configs(
    folder: Path, peers: Peers, prefix: str = "", kinds: tuple[tuple[EraName, Transport], ...] = KINDS, **more: object
) -> Json:
    """Start the servers that listen, and return the entries of all; those on pipes work in ``folder``."""
    entries: Json = {}
    for era, transport in kinds:
        name = f"{prefix}{era}-{transport}"
        if transport == "http":
            peers.start(name, era)
            entries[name] = {"url": f"http://127.0.0.1:{peers.port(name)}/mcp", **more}
            continue
        (folder / name).mkdir(parents=True, exist_ok=True)
        module = "tests.matrix.extended_world" if prefix == EXTENDED else "tests.matrix.cell_world"
        arguments = ["-m", module, name, era]
        command = {"command": sys.executable, "args": arguments, "env": {"PYTHONPATH": str(ROOT)}}
        entries[name] = {**command, "cwd": str(folder / name), **more}
    return entries


@contextmanager
def listening_peers(folder: Path) -> Iterator[Peers]:
    """Provide for servers that listen, and end them with the block."""
    peers = Peers(folder / "peers.log")
    try:
        yield peers
    finally:
        peers.kill()


@contextmanager
def matrix(folder: Path) -> Iterator[Matrix]:
    """Serve all four kinds through one gateway, each once more as a server that may ask nothing (``mute-…``).

    ``own-legacy-stdio`` is a legacy server on pipes as people have it: with processes for each caller. So are the
    servers with tasks and extensions (``extended-…``), one of each kind, each also alone in a view of its name.
    """
    with listening_peers(folder) as peers:
        # One process for all who declare nothing, so that what one client does can be seen by another.
        asks = ["elicitation", "sampling", "roots"]
        asking = configs(folder, peers, asks=asks, isolation="shared")
        asking |= configs(folder, peers, "own-", (("legacy", "stdio"),), asks=asks)
        extended = configs(folder, peers, EXTENDED, asks=["elicitation"])
        servers = asking | configs(folder, peers, "mute-", isolation="shared") | extended
        # With views, new definitions would be held back until they are approved.
        servers = {name: {**server, "pin": {"mode": "warn"}} for name, server in servers.items()}
        peers.listening()
        config: Json = {
            "servers": servers,
            "views": {name: {"include": [f"any:{name}/**"]} for name in extended},
            "naming": {"page_size": 20},
            "limits": {"requests": "100000/second"},
        }
        with serving(folder / "gateway", config) as gateway:
            gateway.await_servers(*servers)
            yield Matrix(gateway, peers, folder, config)


@dataclass(frozen=True, slots=True)
class Bench:
    """One cell to try a behaviour in."""

    cell: Cell
    matrix: Matrix

    @property
    def gateway(self) -> Gateway:
        """The gateway."""
        return self.matrix.gateway

    @property
    def is_modern(self) -> bool:
        """Whether the client is."""
        return self.cell.client == "modern"

    @property
    def extended(self) -> str:
        """Name of the cell's server with tasks and extensions; its view has the same."""
        return f"{EXTENDED}{self.cell.behind}"

    def name(self, own: str, server: str = "") -> str:
        """Return the name under which clients know a tool or prompt."""
        return f"{server or self.cell.behind}__{own}"

    def uri(self, path: str) -> str:
        """Return the URI of a resource of this cell's server."""
        return f"{self.cell.behind}://{path}"

    def client(
        self, capabilities: Json | None = None, answer: Answerer = answers_nothing
    ) -> AbstractAsyncContextManager[AnsweringClient]:
        """Connect a client of the cell's era for a block."""
        return answering(self.gateway.url, self.cell.client, Manner(capabilities or {}, answer))

    @asynccontextmanager
    async def asked(self, answers: Mapping[str, Json]) -> AsyncIterator[AnsweringClient]:
        """Connect a client that can be asked anything, and answers each method with one of ``answers``."""

        async def answer(method: str, params: Json) -> Json:
            return answers[method]

        async with self.client(EVERYTHING, answer) as client:
            yield client

    def errors(self, kind: str) -> float:
        """Return how often this cell's server said something of a kind that no server may say."""
        server = self.cell.behind
        return self.gateway.metric("mcp_gateway_downstream_protocol_errors_total", server=server, kind=kind)


Run: TypeAlias = Callable[[Bench], Any]


@dataclass(frozen=True, slots=True)
class Instead:
    """Why some cells cannot have a behaviour, and what is seen there in its place."""

    where: Callable[[Cell], bool]
    reason: str
    run: Run


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row of the matrix: what it is called, what it means in a sentence, and the test of it."""

    name: str
    means: str
    run: Run
    instead: tuple[Instead, ...] = field(default=())

    def in_cell(self, cell: Cell) -> Instead | None:
        """Return what stands for the behaviour in a cell; None where the cell has it."""
        return next((each for each in self.instead if each.where(cell)), None)
