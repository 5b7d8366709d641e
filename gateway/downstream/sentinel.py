"""The guardian process: ends the process groups it was told of when the gateway is gone, however it ended.

Run as a script by the gateway's own interpreter with ``-I -S -E`` in a session of its own. Its standard input is a
pipe that only the gateway holds open: ``+GROUP`` and ``-GROUP`` lines come in, end of file means the gateway is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal

READY = b"ready\n"


def obey(groups: set[int], line: bytes) -> None:
    """Apply one order; anything else is ignored, and so are the groups that would mean everybody."""
    number = line[1:]
    if not number.isdigit() or int(number) <= 1:
        return
    if line[:1] == b"+":
        groups.add(int(number))
    elif line[:1] == b"-":
        groups.discard(int(number))


def watch(source: int) -> set[int]:
    """Read orders until end of file; return the groups still known then."""
    groups: set[int] = set()
    rest = b""
    while True:
        try:
            part = os.read(source, 65536)
        except OSError:
            part = b""
        if not part:
            return groups
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            obey(groups, line)


def end(groups: set[int]) -> None:
    """Kill every process of the groups; a process that is forking right now cannot slip through (kill(2))."""
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue


def main() -> None:
    """Live until the gateway is gone; signals meant for the gateway's session or service do not end it before."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Where the gateway is gone already its orders are still in the pipe.
    with contextlib.suppress(OSError):
        os.write(1, READY)
    os.close(1)
    end(watch(0))


if __name__ == "__main__":
    main()
