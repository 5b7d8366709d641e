"""``schema``: the JSON Schema of the config, or of a policy file, for editors."""

from __future__ import annotations

import argparse

from gateway.cli.output import Exit, Output
from gateway.config.schema import config_schema, policy_file_schema


def run(args: argparse.Namespace) -> int:
    """Print the schema; it is JSON either way."""
    Output.standard().value(policy_file_schema() if args.policies else config_schema())
    return Exit.FINE
