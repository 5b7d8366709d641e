from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"mcp-gateway {__version__}\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_program_is_still_being_read_ends_it_quietly(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """The signal comes from within the import of the command line, which is where most of the start is spent."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'gateway.cli.main': os.kill(os.getpid(), {int(number)})\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--version"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
