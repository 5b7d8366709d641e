"""``check --live``: the same, against what the servers offer now. A module of its own, since only it needs them."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from gateway.cli.check import checked
from gateway.config.root import LoadedConfig
from gateway.durable import opened
from gateway.errors import ConfigError, Problem
from gateway.judgement import Findings, against
from gateway.rollcall import listed_now
from gateway.sharing import trouble
from gateway.telemetry.logs import configure


def run(args: argparse.Namespace) -> int:
    """Check the config, list every server, and print what was found."""
    return checked(args, against_live)


def against_live(loaded: LoadedConfig) -> Findings:
    """List every server now and judge against that; try what gateways share, too."""
    # What fails is in the findings, said once and with its server.
    configure("console", "error")
    listings, failures = listed_now(loaded)
    findings = against(loaded, listings)
    findings.problems += _unreachable(loaded)
    findings.notes += [f"{name} cannot be listed: {reason}" for name, reason in failures.items()]
    if why := asyncio.run(trouble(loaded)):
        findings.notes.append(f"state.url: the shared store cannot be used now ({why}); a gateway starts all the same")
    return findings


def _unreachable(loaded: LoadedConfig) -> list[Problem]:
    """Return why what gateways share cannot be used; it is opened as by a gateway."""
    if not loaded.config.state.database.get_secret_value():
        return []
    try:
        opened(loaded, Path(loaded.config.state.dir)).close()
    except ConfigError as error:
        return error.problems
    return []
