"""``schema``: the JSON Schema of the config, or of a policy file, for editors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gateway.cli.output import Exit, Output, add_common
from gateway.config.schema import config_schema, policy_file_schema

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def register(subparsers: Subparsers) -> None:
    """Add ``schema``."""
    parser = subparsers.add_parser("schema", help="print the JSON Schema of the config")
    parser.add_argument("--policies", action="store_true", help="the schema of a policy file instead")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the schema; it is JSON either way."""
    Output.standard().value(policy_file_schema() if args.policies else config_schema())
    return Exit.FINE
