"""One server's process: started without a gap, always drained, ended as a whole group in bounded time.

Knows pipes, signals and the guardian; knows no JSON. The order of a start is: our launcher runs in a new session,
the guardian hears of its group, and only then it is told what to execute. The order of an end (2026-07-28
transports/stdio §Shutdown) is: end of input, SIGTERM to the group, SIGKILL to the group, each after a grace. No step
waits for pipes, which a grandchild may hold open for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import Protocol, cast

from gateway.downstream import cgroup
from gateway.downstream.cgroup import Cgroup
from gateway.downstream.child import INTERPRETER, Child, script, spawn
from gateway.downstream.command import Command, encode
from gateway.downstream.groups import describe, inhabited
from gateway.downstream.guardian import Guardian
from gateway.errors import DownstreamError, Reason
from gateway.tasks import TaskSet
from gateway.telemetry.logs import get_logger, on_crash

GRACE = 2.0
"""Seconds between end of input and SIGTERM, and between SIGTERM and SIGKILL."""
KILL_WAIT = 1.0
LAUNCH_TIMEOUT = 10.0
SETTLE = 0.1
"""Seconds to read the last output after an exit, and to await the exit that explains a closed pipe."""
POLL = 0.05
FAIR_SHARE = 0.005
"""Seconds of the loop that one piece of output may cost; after more it rests as long, so that others get their turn."""
MAX_UNSENT = 64 * 1024
"""Bytes waiting for the process to read before ``room`` makes writers wait."""

_log = get_logger("process")


class Owner(Protocol):
    """Who a process belongs to. Called on the loop; nothing here may block."""

    def output(self, data: bytes) -> None:
        """Bytes of its standard output."""

    def complaint(self, data: bytes) -> None:
        """Bytes of its standard error."""

    def ended(self, how: str) -> None:
        """It ended or is of no more use; called once, after its last output, and not after ``stop`` was called."""


@dataclass(slots=True)
class _Pipes:
    """The three ends that are ours, once connected."""

    stdin: asyncio.WriteTransport | None = None
    stdout: asyncio.ReadTransport | None = None
    stderr: asyncio.ReadTransport | None = None


class Process:
    """A running server process; made by ``start``."""

    def __init__(self, popen: subprocess.Popen[bytes], guardian: Guardian, owner: Owner) -> None:
        self._popen = popen
        self._guardian = guardian
        self._owner: Owner | None = owner
        self._tasks = TaskSet(on_crash(_log))
        self._pipes = _Pipes()
        self._input = _Input(self)
        self._open_outputs = 2
        self._group: Cgroup | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._settle: asyncio.TimerHandle | None = None
        self._started = False
        self._early: str | None = None
        self._child = Child(popen, self._exited)

    @property
    def pid(self) -> int:
        """Process id and process group id."""
        return self._popen.pid

    @property
    def unsent(self) -> int:
        """Bytes written here that the process has not taken yet."""
        return self._pipes.stdin.get_write_buffer_size() if self._pipes.stdin is not None else 0

    def write(self, data: bytes) -> None:
        """Queue bytes for its standard input; dropped where that is closed. Bound it with ``room`` or ``unsent``."""
        if self._pipes.stdin is not None and not self._input.lost and not self._pipes.stdin.is_closing():
            self._pipes.stdin.write(data)

    async def room(self) -> None:
        """Wait until at most ``MAX_UNSENT`` bytes are queued, or nothing can be written any more."""
        await self._input.writable.wait()

    async def stop(self) -> None:
        """End the process and everything in its group; safe to call twice.

        A caller that is cancelled still waits, which is bounded: nobody else would see the end of the group.
        """
        self._owner = None
        stopping = self._begin_stop()
        try:
            await asyncio.wait({stopping})
        except asyncio.CancelledError:
            await asyncio.wait({stopping})
            raise

    def kill(self) -> None:
        """End the whole group without any grace; ``stop`` then waits for it."""
        self._owner = None
        self._signal(signal.SIGKILL)
        self._begin_stop()

    async def connect(self) -> None:
        """Attach the pipes to the loop."""
        loop = asyncio.get_running_loop()
        popen = self._popen
        self._pipes.stdin, _ = await loop.connect_write_pipe(lambda: self._input, popen.stdin)
        self._pipes.stdin.set_write_buffer_limits(high=MAX_UNSENT, low=0)
        self._pipes.stdout, _ = await loop.connect_read_pipe(lambda: _Output(self, False), popen.stdout)
        self._pipes.stderr, _ = await loop.connect_read_pipe(lambda: _Output(self, True), popen.stderr)

    def confine(self, memory: int | None) -> bool:
        """Put the process into a memory cgroup; False where there is none to be had."""
        self._group = cgroup.create(memory) if memory is not None else None
        if self._group is not None and not self._group.add(self.pid):
            self._group.remove()
            self._group = None
        return self._group is not None

    def started(self) -> None:
        """Let the owner hear of the end from now on; before, a failed start is the caller's to report."""
        self._started = True
        if self._early is not None:
            asyncio.get_running_loop().call_soon(self._report, self._early)

    def received(self, data: bytes, is_stderr: bool) -> None:
        """Hand output to the owner; without one it is still drained."""
        if self._owner is not None:
            (self._owner.complaint if is_stderr else self._owner.output)(data)

    def closed(self, pipe: str) -> None:
        """Take note of a closed pipe; an exit that explains it usually follows."""
        self._open_outputs -= pipe != "input"
        if self._child.exited.is_set():
            if self._open_outputs == 0:
                self._settled()
        elif pipe != "errors" and self._settle is None and self._stopping is None:
            self._settle = asyncio.get_running_loop().call_later(SETTLE, self._report, f"closed its {pipe}")

    def _exited(self, code: int) -> None:
        if self._settle is not None:
            self._settle.cancel()
        self._input.lose()
        if self._open_outputs == 0:
            self._settled()
        else:
            self._settle = asyncio.get_running_loop().call_later(SETTLE, self._settled)

    def _settled(self) -> None:
        if self._settle is not None:
            self._settle.cancel()
        self._report(describe(self._child.returncode or 0))

    def _report(self, how: str) -> None:
        if not self._started:
            self._early = how
            return
        owner, self._owner = self._owner, None
        if owner is not None:
            self._begin_stop()
            owner.ended(how)

    def _begin_stop(self) -> asyncio.Task[None]:
        if self._stopping is None:
            self._stopping = self._tasks.start(self._stop(), f"stop-{self.pid}")
        return self._stopping

    async def _stop(self) -> None:
        if self._pipes.stdin is not None:
            self._pipes.stdin.close()
        # Orphans of a dead leader have seen the end of their input already.
        if self._child.exited.is_set() or not await self._gone(GRACE, orphans=False):
            self._signal(signal.SIGTERM)
        gone = await self._gone(GRACE)
        if not gone:
            self._signal(signal.SIGKILL)
            gone = await self._gone(KILL_WAIT)
        if gone:
            self._guardian.release(self.pid)
        else:
            _log.error("process_group_survives", pid=self.pid)
        self._release()
        # One turn of the loop, in which the transports close their descriptors.
        await asyncio.sleep(0)

    async def _gone(self, seconds: float, *, orphans: bool = True) -> bool:
        """Wait until the leader has ended and the group is empty; without ``orphans`` the leader's end is enough."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.exited.wait(), seconds)
        if not orphans and self._child.exited.is_set():
            return not self._alive()
        while self._alive():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL)
        return True

    def _alive(self) -> bool:
        """Tell whether anything is left in the group; reaps what of it became our own child (as process 1)."""
        if not self._child.exited.is_set():
            return True
        with contextlib.suppress(OSError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        return inhabited(self.pid)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _release(self) -> None:
        self._input.lose()
        if self._settle is not None:
            self._settle.cancel()
        if self._pipes.stdin is None:
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        elif not self._input.closed:
            self._pipes.stdin.abort()
        for transport, pipe in ((self._pipes.stdout, self._popen.stdout), (self._pipes.stderr, self._popen.stderr)):
            if transport is not None:
                transport.close()
            elif pipe is not None:
                pipe.close()
        self._child.close()
        if self._group is not None:
            self._group.remove()


class _Input(asyncio.BaseProtocol):
    """Flow control of the standard input."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lost = False
        self.closed = False
        self.writable = asyncio.Event()
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def lose(self) -> None:
        self.lost = True
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.lose()
        self._process.closed("input")


class _Output(asyncio.Protocol):
    """Standard output or standard error."""

    def __init__(self, process: Process, is_stderr: bool) -> None:
        self._process = process
        self._is_stderr = is_stderr
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Cast, not asked: uvloop's transports have the methods, not the base class.
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        started = time.monotonic()
        self._process.received(data, self._is_stderr)
        spent = time.monotonic() - started
        transport = self._transport
        if spent > FAIR_SHARE and transport is not None and not transport.is_closing():
            transport.pause_reading()
            asyncio.get_running_loop().call_later(spent, self._go_on, transport)

    def _go_on(self, transport: asyncio.ReadTransport) -> None:
        if not transport.is_closing():
            transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.closed("errors" if self._is_stderr else "output")


async def start(command: Command, guardian: Guardian, owner: Owner) -> Process:
    """Start a process in a group that the guardian watches.

    Raises:
        DownstreamError: it cannot be started; nothing of it is left.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            popen = spawn((*INTERPRETER, script("launcher.py"), str(theirs.fileno())), (theirs.fileno(),))
        except OSError as error:
            raise _failed(command, error.strerror) from None
        process = Process(popen, guardian, owner)
        try:
            # No await between the start and this: until it is told, the launcher only waits.
            guardian.watch(process.pid)
            theirs.close()
            async with asyncio.timeout(LAUNCH_TIMEOUT):
                await process.connect()
                orders = encode(command, memory=not process.confine(command.memory))
                answer = await _exchange(ours, orders)
        except (OSError, TimeoutError):
            await _abandon(process)
            raise _failed(command, "the launch failed") from None
        except BaseException:
            # Cancelled, mostly: a process that nobody holds must not live.
            await _abandon(process)
            raise
        if answer:
            await _abandon(process)
            raise _failed(command, _explain(answer))
    process.started()
    return process


async def _abandon(process: Process) -> None:
    process.kill()
    await process.stop()


async def _exchange(gate: socket.socket, orders: bytes) -> bytes:
    """Send the orders; returns nothing once they are executed, else what went wrong."""
    loop = asyncio.get_running_loop()
    gate.setblocking(False)
    await loop.sock_sendall(gate, orders)
    return await loop.sock_recv(gate, 256)


def _explain(answer: bytes) -> str:
    step, _, number = answer.decode("ascii", "replace").partition(":")
    text = os.strerror(int(number)) if number.isdigit() else "unknown error"
    return f"working directory: {text}" if step == "chdir" else f"limits: {text}" if step == "limits" else text


def _failed(command: Command, why: str | None) -> DownstreamError:
    return DownstreamError(Reason.UNAVAILABLE, f"cannot start {command.name}: {why or 'unknown error'}")
