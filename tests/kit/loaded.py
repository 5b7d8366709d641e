"""A process that has the commands of ``mcp-gateway`` loaded and runs each in a child: ``python -m tests.kit.loaded``.

Loading takes most of the time of a short command. One line of JSON comes in for each, with its words, its directory,
its variables and the terminal it is to write to; one goes out with its exit code. It has one thread, so that children
may be forked from it.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import sys
from importlib import import_module
from typing import Any

from gateway import cli
from gateway.cli.main import main

SECONDS = 60


def become(order: dict[str, Any]) -> int:
    """Go on as the command; returns its exit code."""
    signal.alarm(SECONDS)
    os.setsid()
    os.chdir(order["folder"])
    terminal = os.open(order["terminal"], os.O_RDWR | os.O_NOCTTY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for own, other in ((nothing, 0), (terminal, 1), (terminal, 2)):
        os.dup2(own, other)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(order["variables"])
    sys.argv = order["words"]
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - the child's own, until it ends.
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    code = main(order["words"][1:])
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve() -> None:
    """Run one command after the other."""
    for module in pkgutil.iter_modules(cli.__path__, "gateway.cli."):
        import_module(module.name)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = become(order)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
