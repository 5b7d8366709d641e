"""Starts the result of a build as an engine would: its own namespaces, read-only root, no capabilities, not root.

Only volumes and /tmp can be written. Commands run inside as ``docker exec`` runs them.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.image.recipe import Settings
from tests.image.rootfs import mounts

STOP_SECONDS: Final = 40.0


@dataclass(frozen=True, slots=True)
class Start:
    """How a container is started. ``network`` false: a loopback of its own and nothing else."""

    root: Path
    settings: Settings
    binds: Mapping[Path, str]
    command: tuple[str, ...] = ()
    network: bool = False


class Container:
    """A running container. ``pid`` is its process 1, seen from outside."""

    def __init__(self, start: Start, process: subprocess.Popen[bytes], pid: int) -> None:
        self._start = start
        self._process = process
        self.pid = pid

    def exec(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as the image's user, with its environment and in its folder."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--ipc", "--root"]
        inner = _as_user(self._start.settings, variables)
        folder = ["/bin/sh", "-c", f'cd {self._start.settings.workdir} && exec "$@"', "sh"]
        return subprocess.run(
            [*enter, *inner, *folder, *command], capture_output=True, text=True, timeout=120, check=False
        )

    def status(self) -> dict[str, str]:
        """Return the lines of ``/proc/PID/status`` of process 1."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def stop(self) -> int:
        """Send the stop signal of the image and return the exit code."""
        os.kill(self.pid, signal.Signals[self._start.settings.stop_signal])
        return self._process.wait(STOP_SECONDS)

    def running(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None


def _as_user(settings: Settings, more: Mapping[str, str]) -> list[str]:
    uid, _, gid = settings.user.partition(":")
    variables = [f"{name}={value}" for name, value in {**settings.env, **more}.items()]
    drop = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    return ["env", "-i", *variables, "setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *drop]


def _script(start: Start) -> str:
    root = start.root
    uid, _, gid = start.settings.user.partition(":")
    lines = [*mounts(root), f"mount -t tmpfs -o mode=1777 tmp {root}/tmp"]
    lines += [
        f"mount -t tmpfs -o mode=700,uid={uid},gid={gid} volume {root}{volume}" for volume in start.settings.volumes
    ]
    for source, target in start.binds.items():
        lines.append(f"mount --bind -o ro {shlex.quote(str(source))} {root}{target}")
        lines.append(f"mount -o remount,bind,ro {root}{target}")
    lines.append(f"mount -o remount,bind,ro {root}")
    if not start.network:
        lines.append("ip link set lo up")
    words = [*start.settings.entrypoint, *(start.command or start.settings.command)]
    folder = ["/bin/sh", "-c", f'cd {start.settings.workdir} && exec "$@"', "sh"]
    lines.append(shlex.join(["exec", "chroot", str(root), *_as_user(start.settings, {}), *folder, *words]))
    return "\n".join(lines)


@contextmanager
def running(start: Start, log: Path) -> Iterator[Container]:
    """Run a container for a block."""
    spaces = ["--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", *([] if start.network else ["--net"])]
    command = ["unshare", *spaces, "/bin/sh", "-ec", _script(start)]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield Container(start, process, _first(process))
    finally:
        if process.poll() is None:
            # Process 1 is killed with its parent, and all of its namespace with it.
            process.kill()
            process.wait(10)


def _first(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        found = children.read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.01)
    raise RuntimeError("the container did not start")
