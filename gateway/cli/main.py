"""``mcp-gateway``: finds the command, runs it, turns what it raises into a text and an exit code. No logic of its own.

A command is declared in ``commands``; the module named there has ``run(args)``, which returns the exit code.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gateway import __version__
from gateway.cli.commands import COMMANDS
from gateway.cli.output import Exit, Output, add_common, problem_values, wants_json
from gateway.config.reading import Unreadable
from gateway.errors import ConfigError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fine, 1 a finding, 2 could not tell."""
    words = list(sys.argv[1:] if argv is None else argv)
    wrong = _unknown(words, list(COMMANDS))
    if wrong:
        Output.errors().line(wrong)
        return Exit.UNKNOWN
    try:
        parser = _parser()
        args = parser.parse_args(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.UNKNOWN
    if args.command is None:
        parser.print_help(sys.stderr)
        return Exit.UNKNOWN
    return _run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcp-gateway",
        description="One MCP endpoint in front of many servers.",
        epilog="Exit codes: 0 fine, 1 a finding, 2 could not tell. COMMAND --help says more.",
    )
    parser.add_argument("--version", action="version", version=f"mcp-gateway {__version__}")
    add_common(parser)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS.values():
        command.declare(subparsers)
    _describe(subparsers)
    return parser


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


def _run(args: argparse.Namespace) -> int:
    try:
        code = _runner(args)(args)
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


def _runner(args: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Load what runs a command, and nothing that only others need: that is most of the time a short command takes."""
    name = COMMANDS[args.command].runner(args)
    # Almost nothing of what is loaded is ever garbage, and looking for some takes a tenth of the time.
    gc.disable()
    try:
        run: Callable[[argparse.Namespace], int] = import_module(f"gateway.cli.{name}").run
    finally:
        gc.enable()
    return run


def _config_error(error: ConfigError, args: argparse.Namespace) -> int:
    """Report a config that a command other than ``check`` could not use."""
    output = Output.errors()
    for problem in error.problems:
        output.line(str(problem))
    if isinstance(error, Unreadable) and not hasattr(args, "config") and not Path("gateway.yaml").exists():
        output.line("name the config with -c FILE, or run the command where gateway.yaml is")
    if wants_json(args):
        Output.standard().value({"ok": False, "problems": problem_values(error.problems)})
    return Exit.UNKNOWN


if __name__ == "__main__":
    sys.exit(main())
