"""Where the audit log of a command line is, and what is said when it cannot be read."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from gateway.cli.output import Exit, config_path
from gateway.config.loader import load
from gateway.config.root import Config
from gateway.errors import ConfigError
from gateway.telemetry.text import printable

_WIDEST = 4096


def directory_of(args: argparse.Namespace) -> Path:
    """Return the log's directory: the one that was named, else that of the config."""
    return Path(args.dir) if args.dir else Path(config_of(args).audit.dir)


def directories_of(args: argparse.Namespace) -> list[Path]:
    """Return the directories of one log or several: those that were named, else that of the config."""
    return [Path(each) for each in args.dir] or [Path(config_of(args).audit.dir)]


def config_of(args: argparse.Namespace) -> Config:
    """Load the config."""
    return load(config_path(args), os.environ).config


def told(work: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """Run a command and say in one line why it could not."""
    try:
        return work(args)
    except (ConfigError, ValueError) as error:
        print(printable(str(error), _WIDEST), file=sys.stderr)
    except BrokenPipeError:
        # Whoever read along has seen enough; the program's border knows what to do.
        raise
    except FileExistsError as error:
        print(f"{error.filename} exists", file=sys.stderr)
    except OSError as error:
        place = printable(str(error.filename or "the audit log"), _WIDEST)
        print(f"{place} cannot be read: {error.strerror}", file=sys.stderr)
    return Exit.UNKNOWN
