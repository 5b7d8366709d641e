"""What runs in a new process before it becomes a server: waits for its orders, drops powers, executes.

Run as a script by the gateway's own interpreter with ``-I -S -E``; imports next to nothing, since each start pays
for it. A fork hook in the gateway (``preexec_fn``) would run Python in a copy of a threaded process, which can
deadlock and cannot use vfork; this costs some milliseconds and is safe. It executes nothing before the gateway has
told its guardian of it: orders come over a socket afterwards, and a gateway that dies before sends an end instead.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

HEADER = 8
"""Decimal digits of the length in front of the orders."""

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 38, 9
_SIGPIPE, _SIGXFSZ = 13, 25


def receive(gate: int) -> list[bytes] | None:
    """Read the orders; None where the gateway went away before they were complete."""
    data = b""
    while len(data) < HEADER or len(data) < HEADER + int(data[:HEADER]):
        part = os.read(gate, 65536)
        if not part:
            return None
        data += part
    return data[HEADER:].split(b"\0")


def restrict(memory: int | None, open_files: int | None) -> None:
    """Set umask, limits, no_new_privs and default signals; all of it survives the exec."""
    os.umask(0o077)
    _limit(resource.RLIMIT_CORE, 0)
    if open_files is not None:
        _limit(resource.RLIMIT_NOFILE, open_files)
    if memory is not None:
        # Not RLIMIT_AS: runtimes such as Node reserve far more addresses than they use.
        _limit(resource.RLIMIT_DATA, memory)
    libc = ctypes.CDLL(None)
    for number in (_SIGPIPE, _SIGXFSZ):
        # The interpreter ignores these; a server expects the defaults.
        libc.signal(ctypes.c_int(number), ctypes.c_void_p(0))
    if sys.platform == "linux":
        one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
        if libc.prctl(ctypes.c_int(_PR_SET_NO_NEW_PRIVS), one, zero, zero, zero) != 0:
            raise OSError(1, "no_new_privs")
        # The guardian is what ends whole groups; this is the belt for the case that it was killed too.
        libc.prctl(ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(_SIGKILL), zero, zero, zero)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def run(gate: int, orders: list[bytes]) -> None:
    """Become the server; on failure send the step and errno back and end with 127.

    ``orders`` are cwd, memory and open files (empty for none), the number of arguments, the arguments, then the
    environment as ``NAME=value``.
    """
    step = b"chdir"
    try:
        os.chdir(orders[0])
        step = b"limits"
        restrict(int(orders[1]) if orders[1] else None, int(orders[2]) if orders[2] else None)
        step = b"exec"
        count = int(orders[3])
        argv, pairs = orders[4 : 4 + count], orders[4 + count :]
        names = [pair.partition(b"=") for pair in pairs]
        os.set_inheritable(gate, False)
        os.execve(argv[0], argv, {name: value for name, _, value in names})  # noqa: S606 - no shell is the point.
    except (OSError, ValueError) as error:
        os.write(gate, b"%b:%d" % (step, getattr(error, "errno", None) or 0))
        os._exit(127)


if __name__ == "__main__":
    _gate = int(sys.argv[1])
    _orders = receive(_gate)
    if _orders is None:
        os._exit(0)
    run(_gate, _orders)
