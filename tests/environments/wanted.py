"""Programs that tests use where they can be had, and are skipped without: a collector and Prometheus' own checker.

Neither is on every platform: the collector is a wheel that needs the shared library of Python, ``promtool`` is in
Debian's archive alone. Run after ``prepare`` by ``make environments``.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.environments.prepare import ENVIRONMENTS, HERE

COLLECTOR: Final = ENVIRONMENTS / "rotel"
PROMTOOL: Final = ENVIRONMENTS / "promtool"
_PACKAGE: Final = "prometheus"


def _done(*command: str | Path, cwd: Path | None = None) -> bool:
    """Run something; tell whether it worked."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False, cwd=cwd, timeout=300)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def collector_command() -> Path | None:
    """Return the collector's program, None where there is none that runs here."""
    found = next(iter(sorted(COLLECTOR.glob("lib/python*/site-packages/rotel/rotel-agent"))), None)
    return found if found is not None and (COLLECTOR / ".key").exists() else None


def collector_variables() -> dict[str, str]:
    """Return what it needs of the environment: where the library of Python is."""
    return {"LD_LIBRARY_PATH": sysconfig.get_config_var("LIBDIR") or "", "PATH": os.environ.get("PATH", "")}


def promtool() -> Path | None:
    """Return Prometheus' checker: the machine's own, or the one that was unpacked."""
    own = shutil.which("promtool")
    if own:
        return Path(own)
    unpacked = PROMTOOL / "promtool"
    return unpacked if unpacked.exists() else None


def make_collector() -> str:
    """Install the collector, unless it is there or cannot run."""
    source = (HERE / "rotel.lock").read_bytes() + sys.version.encode()
    stamp = hashlib.sha256(source).hexdigest()
    if (COLLECTOR / ".key").exists() and (COLLECTOR / ".key").read_text() == stamp:
        return "rotel: there"
    shutil.rmtree(COLLECTOR, ignore_errors=True)
    venv.create(COLLECTOR, with_pip=True, symlinks=True)
    pip = (COLLECTOR / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q")
    if not _done(*pip, "--only-binary", ":all:", "--require-hashes", "-r", HERE / "rotel.lock"):
        return f"rotel: no wheel for {platform.platform()}, so traces are read by the tests' own collector alone"
    (COLLECTOR / ".key").write_text(stamp)
    command = collector_command()
    works = command is not None and subprocess.run(
        [command, "--version"], env=collector_variables(), capture_output=True, timeout=30, check=False
    )
    if not works or works.returncode != 0:
        (COLLECTOR / ".key").unlink()
        return "rotel: does not run here, so traces are read by the tests' own collector alone"
    return "rotel: made"


def make_promtool() -> str:
    """Unpack Prometheus' checker from its package in Debian's archive; nothing is installed."""
    if promtool() is not None:
        return "promtool: there"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return "promtool: no Debian here, so the alert rules are checked by shape alone"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        got = _done("apt-get", "-qq", "download", _PACKAGE, cwd=folder) or (
            os.geteuid() == 0
            and _done("apt-get", "-qq", "-o", "Acquire::Retries=3", "update")
            and _done("apt-get", "-qq", "download", _PACKAGE, cwd=folder)
        )
        if not got:
            return "promtool: not to be had, so the alert rules are checked by shape alone"
        package = next(folder.glob(f"{_PACKAGE}_*.deb"))
        if not _done("dpkg-deb", "-x", package, folder / "files"):
            return "promtool: its package cannot be read"
        PROMTOOL.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "files" / "usr" / "bin" / "promtool", PROMTOOL / "promtool")
    return "promtool: unpacked"


def main() -> None:
    """Get what is missing."""
    sys.stdout.write(f"{make_collector()}\n{make_promtool()}\n")


if __name__ == "__main__":
    main()
