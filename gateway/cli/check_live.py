"""``check --live``: the same, against what the servers offer now. A module of its own, since only it needs them."""

from __future__ import annotations

import argparse

from gateway.cli.check import checked
from gateway.config.root import LoadedConfig
from gateway.judgement import Findings, against
from gateway.rollcall import listed_now
from gateway.telemetry.logs import configure


def run(args: argparse.Namespace) -> int:
    """Check the config, list every server, and print what was found."""
    return checked(args, against_live)


def against_live(loaded: LoadedConfig) -> Findings:
    """List every server now and judge against that."""
    # What fails is in the findings, said once and with its server.
    configure("console", "error")
    listings, failures = listed_now(loaded)
    findings = against(loaded, listings)
    findings.notes += [f"{name} cannot be listed: {reason}" for name, reason in failures.items()]
    return findings
