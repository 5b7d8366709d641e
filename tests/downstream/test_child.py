from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.downstream import child
from gateway.downstream.child import INTERPRETER, Child, script, spawn

WAIT = 20.0
LISTING = """
import os
def is_open(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False
print([fd for fd in range(256) if is_open(fd)])
"""


def start(line: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", "-c", line], start_new_session=True)


async def finished(line: str) -> int:
    codes: list[int] = []
    watched = Child(start(line), codes.append)
    await asyncio.wait_for(watched.exited.wait(), WAIT)
    assert codes == [watched.returncode]
    return codes[0]


async def test_an_exit_is_noticed_and_reaped() -> None:
    popen, codes = start("exit 3"), list[int]()
    watched = Child(popen, codes.append)
    await asyncio.wait_for(watched.exited.wait(), WAIT)
    assert codes == [3]
    with pytest.raises(ChildProcessError):
        os.waitpid(popen.pid, os.WNOHANG)


async def test_a_signal_is_a_negative_code() -> None:
    assert await finished("kill -9 $$") == -signal.SIGKILL


async def test_a_grandchild_that_holds_the_pipes_delays_nothing() -> None:
    """M17: ``asyncio``'s wait hangs here."""
    process = subprocess.Popen(["/bin/sh", "-c", "sleep 60 & exit 5"], stdout=subprocess.PIPE, start_new_session=True)
    codes: list[int] = []
    watched = Child(process, codes.append)
    await asyncio.wait_for(watched.exited.wait(), WAIT)
    os.killpg(process.pid, signal.SIGKILL)
    assert codes == [5]
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="there is none elsewhere")
async def test_without_a_pidfd_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS, kernels before 5.3, sandboxes."""

    def refuse(pid: int) -> int:
        raise OSError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert await finished("exit 4") == 4


async def test_closing_stops_watching_and_can_be_repeated() -> None:
    codes: list[int] = []
    process = start("sleep 60")
    watched = Child(process, codes.append)
    watched.close()
    watched.close()
    process.kill()
    process.wait()
    await asyncio.sleep(0)
    assert codes == []


def test_only_the_standard_descriptors_and_the_named_one_are_open(tmp_path: Path) -> None:
    """S106, G013"""
    listing = tmp_path / "listing.py"
    listing.write_text(LISTING)
    source, sink = os.pipe()
    os.set_inheritable(source, True)
    process = spawn((*INTERPRETER, str(listing)), (sink,))
    output, _ = process.communicate(timeout=WAIT)
    os.close(source)
    os.close(sink)
    assert output == f"[0, 1, 2, {sink}]\n".encode()


def test_a_spawned_script_leads_a_session_of_its_own(tmp_path: Path) -> None:
    facts = tmp_path / "facts.py"
    facts.write_text("import os; print(os.getpid() == os.getpgrp() == os.getsid(0))")
    process = spawn((*INTERPRETER, str(facts)))
    assert process.communicate(timeout=WAIT)[0] == b"True\n"


def test_the_scripts_are_where_they_are_looked_for() -> None:
    assert Path(script("launcher.py")).is_file()
    assert Path(script("sentinel.py")).is_file()
    assert child.INTERPRETER[1:] == ("-I", "-S", "-E")
