"""What is started for a stdio server: argument vector, environment, directory, limits. Values only, starts nothing.

The vector comes from the operator's file alone and no shell sees it. The environment is an allowlist plus what the
file declares, so that no secret of the gateway reaches a server by accident (S105).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.config.servers import Server
from gateway.downstream.launcher import HEADER
from gateway.errors import DownstreamError, Reason
from gateway.telemetry.text import printable

INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "TERM")
"""All a server gets from the gateway's own environment."""

MAX_ORDERS: Final = 10 ** (HEADER - 1)


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start: ``argv[0]`` is the absolute executable, ``memory`` in bytes."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    memory: int | None = None
    open_files: int | None = None

    @property
    def name(self) -> str:
        """The executable without its folder, safe to show."""
        return shown(self.argv[0])


def shown(command: str) -> str:
    """Return the last part of a command's path, safe to show."""
    return printable(os.path.basename(command) or command, 128)


def plan(server: Server, environ: Mapping[str, str]) -> Command:
    """Resolve what a server's config means here, with the PATH that the process itself gets.

    With a ``sandbox`` its executable must exist; the command after it may exist only inside, then it stays as written.

    Raises:
        DownstreamError: a command that is not found, or a value that no process can be given.
    """
    env = {key: environ[key] for key in INHERITED if key in environ}
    env |= {key: value.get_secret_value() for key, value in server.env.items()}
    cwd = os.path.abspath(server.cwd or os.curdir)
    path = env.get("PATH", os.defpath)
    command = server.command or ""
    if server.sandbox:
        prefix = (resolve(server.sandbox[0], path, cwd), *server.sandbox[1:])
        argv = (*prefix, find(command, path, cwd) or command, *server.args)
    else:
        argv = (resolve(command, path, cwd), *server.args)
    if any("\0" in text for text in (*argv, *env, *env.values(), cwd)) or any("=" in key or not key for key in env):
        raise _unusable("the command or its environment holds a value that no process can be given")
    return Command(argv, env, cwd, server.limits.memory, server.limits.open_files)


def resolve(command: str, path: str, cwd: str) -> str:
    """Return the absolute path of an executable.

    Raises:
        DownstreamError: there is none; the text names the command without its folder.
    """
    found = find(command, path, cwd)
    if found is None:
        raise _unusable(f"command not found: {shown(command)}")
    return found


def find(command: str, path: str, cwd: str) -> str | None:
    """Look an executable up: with a slash from ``cwd``, else along ``path``."""
    if "\0" in command or not command:
        return None
    if os.sep in command:
        candidate = os.path.join(cwd, command)
        return candidate if os.path.isfile(candidate) and os.access(candidate, os.X_OK) else None
    found = shutil.which(command, path=path)
    return os.path.abspath(found) if found else None


def encode(command: Command, *, memory: bool) -> bytes:
    """Write the orders that ``launcher`` reads; ``memory`` tells whether it has to set that limit.

    Raises:
        DownstreamError: longer than any process could be started with.
    """
    fields = [
        command.cwd,
        str(command.memory) if memory and command.memory is not None else "",
        str(command.open_files) if command.open_files is not None else "",
        str(len(command.argv)),
        *command.argv,
        *(f"{key}={value}" for key, value in command.env.items()),
    ]
    body = b"\0".join(os.fsencode(field) for field in fields)
    if len(body) >= MAX_ORDERS:
        raise _unusable("the command and its environment are too long")
    return b"%0*d%b" % (HEADER, len(body), body)


def _unusable(message: str) -> DownstreamError:
    return DownstreamError(Reason.UNAVAILABLE, message)
