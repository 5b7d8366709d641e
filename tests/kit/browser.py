"""A real Chromium for tests, without scripts unless asked for; where there is none a test is skipped."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.environments import prepare
from tests.kit.peers import Driver, environment


def chromium() -> str:
    """Return the browser of this machine."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium on this machine: apt-get install --no-install-recommends chromium")
    return found


@contextmanager
def browsing(log: Path, *, scripts: bool = False) -> Iterator[Driver]:
    """Open a browser for a block; its commands are those of ``drive_browser.py``, through ``ok``."""
    program = chromium()
    command: list[str | Path] = [environment("browser") / "bin" / "python", prepare.HERE / "drive_browser.py", program]
    command += ["scripts"] if scripts else []
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    try:
        try:
            driver = Driver(process)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
        yield driver
    finally:
        # At the end of its input it closes the browser; killed, it would leave that behind.
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        assert process.stdout is not None
        process.stdout.close()
