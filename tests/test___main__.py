from __future__ import annotations

import subprocess
import sys

from gateway import __version__


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"mcp-gateway {__version__}\n")
