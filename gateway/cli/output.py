"""What every command prints, and how: tables for a terminal, plain lines for a pipe, one JSON value with ``--json``.

Names come from files and servers that others wrote: control characters in them never reach a terminal.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, TextIO

from gateway.errors import Problem
from gateway.protocol import rawjson
from gateway.telemetry.text import printable

DEFAULT_CONFIG: Final = "gateway.yaml"
_GAP: Final = "  "
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"
_GOOD, _FAIR, _BAD = "\x1b[32m", "\x1b[33m", "\x1b[31m"
_COLOURS: Final = {
    **dict.fromkeys(("up", "ok", "approved", "granted", "fine"), _GOOD),
    **dict.fromkeys(("starting", "waiting for consent", "pending", "changed", "off", "stopped", "warn"), _FAIR),
    **dict.fromkeys(("failed", "mismatch", "quarantined", "denied", "rejected", "error"), _BAD),
}
"""Cells that are one of these words stand out on a terminal; what others wrote is never coloured by itself."""


class Exit(IntEnum):
    """Exit codes of every command."""

    FINE = 0
    FINDING = 1
    UNKNOWN = 2
    """It could not tell: no config, no answer, or a command line that makes no sense."""


def add_common(parser: argparse.ArgumentParser) -> None:
    """Give a command the options that all have; what stands before the command counts as well."""
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        default=argparse.SUPPRESS,
        help=f"config file (default: {DEFAULT_CONFIG} in the working directory)",
    )
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON value")


def config_path(args: argparse.Namespace) -> Path:
    """Return the config file that was asked for."""
    path: Path = getattr(args, "config", None) or Path(DEFAULT_CONFIG)
    return path


def wants_json(args: argparse.Namespace) -> bool:
    """Tell whether ``--json`` was given."""
    return bool(getattr(args, "json", False))


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``1 policy``; ``many`` is for plurals that need more than an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def escaped(text: str) -> str:
    """Make text safe for a terminal and for one line: what cannot be seen is shown as its escape."""
    return printable(text)


def problem_values(problems: Sequence[Problem]) -> list[dict[str, str | int]]:
    """Return problems for ``--json``."""
    return [
        {"file": one.file, "line": one.line, "path": one.path, "message": one.message, "hint": one.hint}
        for one in problems
    ]


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes. Texts for people go to ``lines`` and ``table``, values for programs to ``value``."""

    stream: TextIO
    terminal: bool
    colour: bool = False

    @classmethod
    def standard(cls) -> Output:
        """Write to standard output, as a terminal if it is one."""
        return cls(sys.stdout, sys.stdout.isatty(), _colours(sys.stdout))

    @classmethod
    def errors(cls) -> Output:
        """Write to standard error, for what is not the answer."""
        return cls(sys.stderr, sys.stderr.isatty(), _colours(sys.stderr))

    def line(self, text: str) -> None:
        """Print one line."""
        self.stream.write(escaped(text) + "\n")

    def block(self, text: str) -> None:
        """Print several lines; tabs in them are for the eye alone."""
        for line in text.splitlines():
            self.line(line.expandtabs())

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print aligned columns under headings for a terminal, and bare lines otherwise."""
        safe = [[escaped(cell) for cell in row] for row in rows]
        if not self.terminal:
            for row in safe:
                self.stream.write(_GAP.join(cell or "-" for cell in row) + "\n")
            return
        grid = [[heading.upper() for heading in headings], *safe]
        widths = [max(len(row[column]) for row in grid) for column in range(len(headings))]
        for number, row in enumerate(grid):
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            padded[-1] = padded[-1].rstrip()
            if self.colour:
                padded = [_painted(cell, heading=number == 0) for cell in padded]
            self.stream.write(_GAP.join(padded).rstrip() + "\n")

    def value(self, value: object) -> None:
        """Print one JSON value on one line."""
        self.stream.write(rawjson.encode(value).decode("utf-8") + "\n")


def _colours(stream: TextIO) -> bool:
    """Tell whether to use colours: on a terminal that has them, unless NO_COLOR says otherwise (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _painted(cell: str, *, heading: bool) -> str:
    """Colour a padded cell; the blanks behind it stay plain."""
    word = cell.rstrip()
    code = _BOLD if heading else _COLOURS.get(word, "")
    return f"{code}{word}{_RESET}{cell[len(word) :]}" if code and word else cell
