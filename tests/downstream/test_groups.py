"""What is left of a process group, and how processes end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gateway.downstream.groups import describe, inhabited


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exited with code 0"),
        (127, "exited with code 127"),
        (-signal.SIGSEGV, "was ended by SIGSEGV"),
        (-64 - 1, "was ended by signal 65"),
    ],
)
def test_an_end_is_described(code: int, text: str) -> None:
    assert describe(code) == text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the dead count as long as they are not reaped")
def test_a_group_is_inhabited_as_long_as_somebody_in_it_runs() -> None:
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    assert inhabited(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
    assert not inhabited(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the dead count as long as they are not reaped")
def test_the_dead_that_nobody_reaped_do_not_inhabit_a_group() -> None:
    """A container whose process 1 reaps nothing would keep every group for ever."""
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not inhabited(process.pid)
    process.communicate()
