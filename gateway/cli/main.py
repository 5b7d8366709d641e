"""``mcp-gateway``: finds the command, runs it, turns what it raises into a text and an exit code. No logic of its own.

A command group is a module with ``register(subparsers)``, which adds its parsers, and ``run(args)``, which returns
the exit code.
"""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gateway import __version__
from gateway.cli import (
    approvals,
    audit,
    call,
    check,
    completion,
    connect,
    importing,
    keys,
    pins,
    policy,
    schema,
    serve,
    snippet,
    status,
    tools,
)
from gateway.cli.output import Exit, Output, add_common, wants_json
from gateway.config.loader import ConfigError, Unreadable

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


class Command(Protocol):
    """What a module of a command group has."""

    def register(self, subparsers: Subparsers, /) -> None:
        """Add the parsers of the group."""

    def run(self, args: argparse.Namespace, /) -> int:
        """Run what was asked for."""


COMMANDS: Final[tuple[Command, ...]] = (
    serve,
    check,
    status,
    tools,
    call,
    pins,
    approvals,
    keys,
    audit,
    policy,
    schema,
    importing,
    snippet,
    connect,
    completion,
)
"""The command groups, in the order of the help text."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 a finding, 2 could not tell."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser, runners = _parser()
    wrong = _unknown(words, list(runners))
    if wrong:
        Output.errors().line(wrong)
        return Exit.UNKNOWN
    try:
        args = parser.parse_args(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.UNKNOWN
    if args.command is None:
        parser.print_help(sys.stderr)
        return Exit.UNKNOWN
    return _run(runners[args.command], args)


def _parser() -> tuple[argparse.ArgumentParser, dict[str, Callable[[argparse.Namespace], int]]]:
    parser = argparse.ArgumentParser(
        prog="mcp-gateway",
        description="One MCP endpoint in front of many servers.",
        epilog="Exit codes: 0 fine, 1 a finding, 2 could not tell. COMMAND --help says more.",
    )
    parser.add_argument("--version", action="version", version=f"mcp-gateway {__version__}")
    add_common(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    runners: dict[str, Callable[[argparse.Namespace], int]] = {}
    for command in COMMANDS:
        command.register(subparsers)
        for name in subparsers.choices:
            runners.setdefault(name, command.run)
    _describe(subparsers)
    return parser, runners


def _describe(subparsers: Subparsers) -> None:
    """Have each command's own help begin with the sentence that stands for it in the list."""
    for shown in subparsers._choices_actions:
        parser = subparsers.choices[shown.dest]
        parser.description = f"{(shown.help or '')[:1].upper()}{(shown.help or '')[1:]}."
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                _describe(action)


def _unknown(words: Sequence[str], known: list[str]) -> str:
    """Return what to say about a command that does not exist, before argparse lists them all."""
    rest = iter(words)
    for word in rest:
        if word in ("-c", "--config"):
            next(rest, None)
        elif not word.startswith("-"):
            if word in known:
                return ""
            close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
            hint = f"did you mean '{close[0]}'?" if close else "commands: " + ", ".join(known)
            return f"mcp-gateway: there is no command '{word[:64]}' ({hint})"
    return ""


def _run(runner: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    try:
        code = runner(args)
        sys.stdout.flush()
    except ConfigError as error:
        return _config_error(error, args)
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.UNKNOWN
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code


def _config_error(error: ConfigError, args: argparse.Namespace) -> int:
    """Report a config that a command other than ``check`` could not use."""
    output = Output.errors()
    for problem in error.problems:
        output.line(str(problem))
    if isinstance(error, Unreadable) and not hasattr(args, "config") and not Path("gateway.yaml").exists():
        output.line("name the config with -c FILE, or run the command where gateway.yaml is")
    if wants_json(args):
        Output.standard().value({"ok": False, "problems": check.problem_values(error.problems)})
    return Exit.UNKNOWN


if __name__ == "__main__":
    sys.exit(main())
