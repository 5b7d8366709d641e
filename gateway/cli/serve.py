"""``serve``: runs the gateway until it is told to stop, after saying where everything is."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.app import Addresses, serve
from gateway.cli import snippet
from gateway.cli.output import Exit, Output, add_common, config_path
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

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_SHOWN = ("claude-code", "vscode", "cursor")


def register(subparsers: Subparsers) -> None:
    """Add ``serve``."""
    parser = subparsers.add_parser("serve", help="run the gateway")
    add_common(parser)


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
        runner.run(serve(loaded, partial(announce, loaded, Output.standard())))
    return Exit.FINE


def program() -> str:
    """Return how this program can be started from here: by its name where that is on the PATH, else as it was."""
    started = sys.argv[0]
    name = Path(started).name
    found = shutil.which(name)
    if name == "__main__.py":
        return "python -m gateway"
    return name if found is not None and Path(found).samefile(started) else started


def announce(loaded: LoadedConfig, output: Output, addresses: Addresses) -> None:
    """Say where the gateway is, what to put into a client, and where to look afterwards."""
    config = loaded.config
    command = f"{program()} {{}} -c {loaded.path}"
    output.line("")
    output.line(f"MCP gateway is serving {addresses.endpoint}")
    servers = ", ".join(config.servers) or "none yet: add one under servers: in the config"
    output.line(f"  servers       {servers}")
    for name, reason in loaded.off.items():
        output.line(f"  off           {name}: {reason}")
    if loaded.anonymous:
        access = "the policies for anonymous apply" if loaded.enforcing else "everything is allowed"
        output.line(f"  access        anonymous, loopback only: no clients are configured, {access}, all is audited")
    else:
        output.line(f"  access        by key: {', '.join(config.clients)}")
    output.line(f"  status        {command.format('status')}   ({addresses.admin}/status)")
    output.line(f"  audit log     {command.format('audit tail')}   ({config.audit.dir})")
    if addresses.admin_token_file:
        output.line(f"  admin token   {addresses.admin_token_file}")
    output.line("")
    public = config.listen.public_url or config.listen.allowed_hosts
    known = snippet.endpoint_of(loaded)
    endpoint = known if public else replace(known, url=addresses.endpoint)
    for client in _SHOWN:
        made = snippet.CLIENTS[client](endpoint)
        output.line(f"{client}: put into {made.file}")
        output.block(rawjson.pretty(made.value))
        for note in made.notes:
            output.line(f"  {note}")
    output.line("")
    output.stream.flush()
