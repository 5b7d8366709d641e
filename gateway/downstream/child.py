"""A started process whose end is noticed at once and reaped, on any event loop.

Not ``asyncio.subprocess``: its ``wait`` hangs while a grandchild holds a pipe, its watchers differ between Python
versions, and uvloop has its own. A pidfd is readable on every loop the moment the process has ended; where there is
none (macOS) one waiting thread does the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

INTERPRETER = (sys.executable, "-I", "-S", "-E")
"""Our own interpreter with nothing around it; starts about three times faster than a full one."""

_LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All our scripts get of the environment: what an interpreter may need to load. The rest holds secrets (S105)."""


def script(name: str) -> str:
    """Path of a script that ships beside this module."""
    return str(Path(__file__).with_name(name))


def spawn(argv: Sequence[str], fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start our own script with piped standard streams, in a session and process group of its own.

    Blocks for about a millisecond. Only descriptors 0 to 2 and ``fds`` are open in it, and no secret is around it.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(  # noqa: S603 - an argument list of our own, no shell.
        argv,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=True,
        pass_fds=fds,
        start_new_session=True,
        cwd="/",
        env={name: os.environ[name] for name in _LIBRARIES if name in os.environ},
    )


class Child:
    """Watches one process. ``on_exit`` is called once, on the loop, with the exit code (negative: the signal)."""

    def __init__(self, process: subprocess.Popen[bytes], on_exit: Callable[[int], None]) -> None:
        self._process = process
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._pidfd = -1
        self.exited = asyncio.Event()
        self._watch()

    @property
    def pid(self) -> int:
        """Process id, also the id of its group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    def _watch(self) -> None:
        if sys.platform == "linux":
            try:
                self._pidfd = os.pidfd_open(self.pid)
            except OSError:
                # Kernels before 5.3 and some sandboxes have none.
                self._watch_by_thread()
            else:
                self._loop.add_reader(self._pidfd, self._reap)
        else:
            self._watch_by_thread()

    def _watch_by_thread(self) -> None:
        def wait() -> None:
            self._process.wait()
            # The loop may be closed by then; nobody is left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._reap)

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()

    def _reap(self) -> None:
        code = self._process.poll()
        if code is None or self.exited.is_set():
            return
        self.close()
        self.exited.set()
        self._on_exit(code)

    def close(self) -> None:
        """Stop watching; safe to call twice."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
