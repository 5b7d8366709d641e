"""``serve``: runs the gateway until it is told to stop, after saying where everything is."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from gateway.app import Addresses, serve
from gateway.cli import snippet
from gateway.cli.output import Exit, Output, config_path
from gateway.config.loader import load
from gateway.config.root import LoadedConfig
from gateway.config.start_rules import start_problems
from gateway.errors import ConfigError
from gateway.protocol import rawjson
from gateway.telemetry.logs import configure

try:
    import uvloop
except ImportError:  # Optional: the gateway runs on asyncio's own loop too.
    uvloop = None  # type: ignore[assignment]  # reason: the absent module's place.

_SHOWN = ("claude-code", "vscode", "cursor")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigError: the config cannot be served, or something it names cannot be used.
    """
    loaded = load(config_path(args), os.environ)
    problems = start_problems(loaded)
    if problems:
        raise ConfigError(problems)
    telemetry = loaded.config.telemetry
    configure(telemetry.log_format, telemetry.log_level)
    factory = None if uvloop is None else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        told = partial(announce, loaded, partial(again, args), Output.standard(), watch=args.watch)
        runner.run(serve(loaded, told, watch=args.watch))
    return Exit.FINE


def again(args: argparse.Namespace, command: str) -> str:
    """Return the command line that runs another command on this gateway from where it was started."""
    config = ["-c", str(args.config)] if hasattr(args, "config") else []
    return shlex.join([*_program(), *command.split(), *config])


def _program() -> list[str]:
    """Return how this program was started: by its name if an absolute path is all that is known of it.

    A path with folders was typed, or comes from a Makefile whose PATH is not that of the user's shell.
    """
    started = sys.argv[0]
    name = Path(started).name
    if name == "__main__.py":
        return [sys.orig_argv[0], "-m", "gateway"]
    found = shutil.which(name) if Path(started).is_absolute() else None
    return [name if found is not None and Path(found).samefile(started) else started]


def announce(
    loaded: LoadedConfig, command: Callable[[str], str], output: Output, addresses: Addresses, *, watch: bool = True
) -> None:
    """Say where the gateway is, what to put into a client, and where to look afterwards.

    ``command`` makes the command line of another command on this gateway.
    """
    config = loaded.config
    output.line("")
    output.line(f"MCP gateway is serving {addresses.endpoint}")
    servers = ", ".join(config.servers) or "none yet: add one under servers: in the config"
    output.line(f"  servers       {servers}")
    for name, reason in loaded.off.items():
        output.line(f"  off           {name}: {reason}")
    output.line(f"  access        {_access(loaded)}")
    output.line(f"  status        {command('status')}")
    output.line(f"  audit log     {command('audit tail')}")
    when = "at once when a file of the config changes, or" if watch else "after a change of the config:"
    output.line(f"  reload        {when} kill -HUP {os.getpid()}   (Ctrl-C ends the gateway)")
    token = f", token in {addresses.admin_token_file}" if addresses.admin_token_file else ""
    output.line(f"  admin         {addresses.admin}/ui{token}")
    output.line("")
    public = config.listen.public_url or config.listen.allowed_hosts
    known = snippet.endpoint_of(loaded)
    endpoint = known if public else replace(known, url=addresses.endpoint)
    for client in _SHOWN:
        made = snippet.CLIENTS[client](endpoint)
        output.line(f"{client}: put into {made.file}")
        output.line(f"  {rawjson.encode(made.value).decode()}")
        for note in made.notes:
            output.line(f"  {note}")
    output.line("")
    output.stream.flush()


def _access(loaded: LoadedConfig) -> str:
    if not loaded.anonymous:
        return f"by key: {', '.join(loaded.config.clients)}"
    allowed = "the policies for anonymous apply" if loaded.enforcing else "everything is allowed"
    return f"anonymous, loopback only; {allowed}; all is audited"
