"""The gateway's side of its guardian process (contract, section 6: no process of a server outlives the gateway).

One pipe, held open by the gateway alone, carries the process groups; its end means the gateway is gone. A group is
told with one atomic write before the process in it executes anything (see ``process``), so a gateway killed at any
moment leaves nothing unwatched: what was written to the pipe is read before its end. A process that leaves its group
with ``setsid`` escapes; only a container or cgroup closes that hole.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess

from gateway.downstream.child import INTERPRETER, Child, script, spawn
from gateway.downstream.sentinel import READY
from gateway.errors import GatewayError
from gateway.telemetry.logs import get_logger

START_TIMEOUT = 10.0
"""Seconds the process may take to say that it watches."""
STOP_TIMEOUT = 2.0
RESTART_DELAY = 1.0
"""Seconds between two restarts; a group that is added meanwhile restarts it at once."""

_log = get_logger("guardian")


class Guardian:
    """Keeps one guardian process alive and informed. One per gateway; used on the loop it was started on."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._child: Child | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._heard = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Process id of the guardian process, None while there is none."""
        return self._child.pid if self._child is not None else None

    async def start(self) -> None:
        """Start the process and wait until it watches.

        Raises:
            GatewayError: it does not come up.
        """
        try:
            process = self._spawn()
            await asyncio.wait_for(self._heard.wait(), START_TIMEOUT)
        except (OSError, TimeoutError):
            await self.aclose()
            raise GatewayError("the guardian process cannot be started") from None
        if process.stdout is None or process.stdout.closed or process.stdout.read(len(READY)) != READY:
            await self.aclose()
            raise GatewayError("the guardian process ended at its start")

    def watch(self, pgid: int) -> None:
        """Have a process group killed should the gateway end before ``release``.

        Raises:
            OSError: no guardian process can be started; the group is not watched.
        """
        self._groups.add(pgid)
        if self._child is None:
            # The restart tells all groups, this one included.
            self._spawn()
        elif not self._tell(b"+%d\n" % pgid):
            self._replace()

    def release(self, pgid: int) -> None:
        """Forget a process group that has ended."""
        self._groups.discard(pgid)
        if self._child is not None and not self._tell(b"-%d\n" % pgid):
            with contextlib.suppress(OSError):
                self._replace()

    async def aclose(self) -> None:
        """End the guardian process; groups still known are killed by it. Safe to call twice."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        process, child = self._process, self._child
        if process is None or child is None:
            return
        _close(process)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.exited.wait(), STOP_TIMEOUT)
        if not child.exited.is_set():
            process.kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.exited.wait(), STOP_TIMEOUT)
        child.close()
        self._process = self._child = None

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = spawn((*INTERPRETER, script("sentinel.py")))
        self._process, self._child = process, Child(process, self._on_exit)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        if process.stdout is not None:
            asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._hear, process.stdout.fileno())
        if not self._tell(b"".join(b"+%d\n" % group for group in sorted(self._groups))):
            raise BrokenPipeError("the guardian process takes no orders")
        return process

    def _hear(self, fd: int) -> None:
        """Note its first words, or the end of its output; there is nothing else to hear."""
        asyncio.get_running_loop().remove_reader(fd)
        self._heard.set()

    def _tell(self, orders: bytes) -> bool:
        """Write orders to the pipe; False where they did not all fit or nobody reads."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return False
        try:
            return os.write(self._process.stdin.fileno(), orders) == len(orders) if orders else True
        except OSError:
            return False

    def _replace(self) -> None:
        """Start another guardian process in place of one that does not listen."""
        process, child = self._process, self._child
        self._process = self._child = None
        if process is not None and child is not None:
            # Killed before its pipe is closed: an end of file would make it kill every group it knows.
            process.kill()
            _close(process)
        _log.warning("guardian_replaced", groups=len(self._groups))
        self._spawn()

    def _on_exit(self, code: int) -> None:
        self._heard.set()
        if self._process is not None and self._process.returncode is not None:
            _close(self._process)
            self._process = self._child = None
        if self._closed or self._child is not None or self._timer is not None:
            return
        _log.warning("guardian_died", code=code, groups=len(self._groups))
        self._restart()

    def _restart(self) -> None:
        self._timer = None
        if self._closed or self._child is not None:
            return
        try:
            self._spawn()
        except OSError as error:
            _log.error("guardian_not_restarted", error=error.strerror or "")
        # A guardian process that dies at once is tried again, but not in a busy loop.
        self._timer = asyncio.get_running_loop().call_later(RESTART_DELAY, self._restart)


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is not None and not process.stdout.closed:
        asyncio.get_running_loop().remove_reader(process.stdout.fileno())
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
