from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from gateway.downstream.child import INTERPRETER, script
from gateway.downstream.command import Command, encode

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, and limits differ elsewhere")


def launch(orders: bytes, command: Command) -> tuple[bytes, bytes, int]:
    """Run the launcher for real: what it said at the gate, what the program wrote, how it ended."""
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(
            [*INTERPRETER, script("launcher.py"), str(theirs.fileno())],
            stdout=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        ) as process,
    ):
        theirs.close()
        ours.settimeout(5)
        ours.sendall(orders)
        ours.shutdown(socket.SHUT_WR)
        said = ours.recv(100)
        output, _ = process.communicate(timeout=5)
    return said, output, process.returncode


def shell(line: str, **more: int) -> Command:
    return Command(("/bin/sh", "-c", line), {"GREETING": "hello", "PATH": os.defpath}, "/", **more)


def run(command: Command) -> tuple[bytes, bytes, int]:
    return launch(encode(command, memory=True), command)


def test_it_becomes_the_program_with_exactly_the_given_environment() -> None:
    said, output, code = run(Command(("/usr/bin/env",), {"A": "1", "B": "x=y"}, "/"))
    assert (said, output, code) == (b"", b"A=1\nB=x=y\n", 0)


def test_it_changes_into_the_directory() -> None:
    assert run(shell("pwd"))[1] == b"/\n"


def test_core_files_and_open_files_are_limited_and_the_umask_is_private() -> None:
    """S106, S113"""
    assert run(shell("ulimit -c; ulimit -n; umask", open_files=64))[1] == b"0\n64\n0077\n"


def test_memory_is_limited_by_data_not_by_addresses() -> None:
    """S113: RLIMIT_AS breaks Node."""
    assert run(shell("ulimit -d; ulimit -v", memory=512 * 2**20))[1] == b"524288\nunlimited\n"


def test_pipe_signals_are_back_to_their_defaults() -> None:
    """The interpreter ignores SIGPIPE and SIGXFSZ; a server must not inherit that."""
    ignored = run(shell("grep SigIgn /proc/self/status"))[1]
    assert int(ignored.split()[1], 16) & (1 << 12 | 1 << 24) == 0


def test_no_privileges_can_be_gained() -> None:
    """S106"""
    assert run(shell("grep NoNewPrivs /proc/self/status"))[1].split() == [b"NoNewPrivs:", b"1"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (Command(("/nonexistent/program",), {}, "/"), b"exec:2"),
        (Command(("/etc/passwd",), {}, "/"), b"exec:13"),
        (Command(("/bin/true",), {}, "/nonexistent"), b"chdir:2"),
    ],
)
def test_a_failure_is_told_with_its_step_and_errno(command: Command, answer: bytes) -> None:
    said, output, code = run(command)
    assert (said, output, code) == (answer, b"", 127)


@pytest.mark.parametrize("kept", [0, 5, 20])
def test_incomplete_orders_execute_nothing(kept: int) -> None:
    """S112: a gateway that dies before or while it gives orders leaves no server behind."""
    command = shell("echo started")
    assert launch(encode(command, memory=True)[:kept], command) == (b"", b"", 0)
