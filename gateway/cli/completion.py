"""``completion SHELL``: a script that completes commands and options, made from the parsers themselves.

The script is whole: completing starts no Python and reads no config.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.cli.commands import CLIENTS
from gateway.cli.output import Exit, Output, add_common, wants_json

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

PROGRAM: Final = "mcp-gateway"
_FILES: Final = ("FILE", "DIR")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings, whether it takes a value and if that is a file, and its help."""

    names: tuple[str, ...]
    valued: bool
    file: bool
    words: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Node:
    """One command as far as it is written: what may follow. ``path`` is ``/pins/show``, "" for nothing yet."""

    path: str
    options: tuple[Option, ...]
    words: tuple[tuple[str, str], ...] = field(default=())
    files: bool = False


def run(args: argparse.Namespace) -> int:
    """Print the script of one shell."""
    script = WRITERS[args.shell](tuple(nodes(args.tree)))
    if wants_json(args):
        Output.standard().value({"shell": args.shell, "script": script})
    else:
        Output.standard().stream.write(script)
    return Exit.FINE


def nodes(subparsers: Subparsers) -> Iterator[Node]:
    """Yield every command, the empty one first."""
    top = argparse.ArgumentParser(prog=PROGRAM)
    top.add_argument("--version", action="version", help="show the version and exit")
    add_common(top)
    yield Node("", _options(top), _commands(subparsers))
    for name, parser in subparsers.choices.items():
        yield from _below(f"/{name}", parser)


def _below(path: str, parser: argparse.ArgumentParser) -> Iterator[Node]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    words = [pair for group in groups for pair in _commands(group)]
    files = False
    for action in parser._actions:
        if not action.option_strings and action not in groups:
            words += [(word, "") for word in _words(path, action)]
            files = files or _takes_file(action)
    yield Node(path, _options(parser), tuple(words), files)
    for group in groups:
        for name, child in group.choices.items():
            yield from _below(f"{path}/{name}", child)


def _commands(group: Subparsers) -> tuple[tuple[str, str], ...]:
    helps = {shown.dest: shown.help or "" for shown in group._choices_actions}
    return tuple((name, helps.get(name, "")) for name in group.choices)


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(
            tuple(action.option_strings),
            action.nargs != 0,
            _takes_file(action),
            tuple(map(str, action.choices or ())),
            _plain(action.help or ""),
        )
        for action in parser._actions
        if action.option_strings
    )


def _words(path: str, action: argparse.Action) -> Sequence[str]:
    if (path, action.dest) == ("/snippet", "client"):
        return tuple(CLIENTS)
    return tuple(map(str, action.choices or ()))


def _takes_file(action: argparse.Action) -> bool:
    return action.type is Path or action.metavar in _FILES


def _plain(text: str) -> str:
    return text.replace("%%", "%")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _patterns(found: Sequence[Node], test: Callable[[Option], bool]) -> str:
    """Write ``PATH OPTION`` of all options that pass, as one pattern of a ``case``."""
    pairs = [
        f"'{node.path} {name}'"
        for node in found
        for option in node.options
        if option.valued and test(option)
        for name in option.names
    ]
    return "|".join(pairs)


def _walk(found: Sequence[Node]) -> list[str]:
    """Write the loop body that both shells share: it follows the words typed so far to the command they name."""
    paths = "|".join(f"'{node.path}'" for node in found if node.path)
    return [
        '        if [[ -n "$skip" ]]; then [[ "$word" == "=" ]] || skip=""; continue; fi',
        f'        case "$at $word" in {_patterns(found, lambda _: True)}) skip=1; continue ;; esac',
        f'        case "$at/$word" in {paths}) at="$at/$word" ;; esac',
    ]


def _bash(found: Sequence[Node]) -> str:
    lines = [
        f'# bash completion of {PROGRAM}: eval "$({PROGRAM} completion bash)"',
        "_mcp_gateway() {",
        '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" at="" skip="" word IFS=$\' \\n\'',
        '    if [[ "$cur" == "=" ]]; then cur=""',
        '    elif [[ "$prev" == "=" ]]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi',
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        *_walk(found),
        "    done",
        "    COMPREPLY=()",
        '    case "$at $prev" in',
        f"        {_patterns(found, lambda option: option.file)})",
        "            IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;",
    ]
    for node in found:
        for option in node.options:
            if option.words:
                pattern = "|".join(f"'{node.path} {name}'" for name in option.names)
                words = " ".join(option.words)
                lines.append(f'        {pattern}) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return ;;')
    lines += [f"        {_patterns(found, lambda option: not option.file and not option.words)}) return ;;", "    esac"]
    lines.append('    case "$at" in')
    for node in found:
        options = " ".join(name for option in node.options for name in option.names)
        words = " ".join(word for word, _ in node.words)
        lines.append(f"        '{node.path}')")
        lines.append(f'            if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "{options}" -- "$cur"))')
        if node.files:
            lines.append(
                "            else IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))"
            )
        else:
            lines.append(f'            else COMPREPLY=($(compgen -W "{words}" -- "$cur"))')
        lines.append("            fi ;;")
    return "\n".join([*lines, "    esac", "}", f"complete -F _mcp_gateway {PROGRAM}", ""])


def _zsh(found: Sequence[Node]) -> str:
    lines = [
        f"#compdef {PROGRAM}",
        f"# zsh completion of {PROGRAM}: a file _{PROGRAM} in a directory of fpath, or source it after compinit.",
        "_mcp_gateway() {",
        '    local cur="${words[CURRENT]}" prev="${words[CURRENT-1]}" at="" skip="" word',
        "    local -a items",
        '    for word in "${(@)words[2,CURRENT-1]}"; do',
        *_walk(found),
        "    done",
        '    case "$at $prev" in',
        f"        {_patterns(found, lambda option: option.file)}) _files; return ;;",
    ]
    for node in found:
        for option in node.options:
            if option.words:
                pattern = "|".join(f"'{node.path} {name}'" for name in option.names)
                lines.append(f"        {pattern}) items=({' '.join(option.words)}); _describe value items; return ;;")
    lines += [f"        {_patterns(found, lambda option: not option.file and not option.words)}) return ;;", "    esac"]
    lines.append('    case "$at" in')
    for node in found:
        options = " ".join(
            _quoted(f"{name}:{option.help.replace(':', ' ')}") for option in node.options for name in option.names
        )
        words = " ".join(_quoted(f"{word}:{text.replace(':', ' ')}") for word, text in node.words)
        lines.append(f"        '{node.path}')")
        lines.append(f'            if [[ "$cur" == -* ]]; then items=({options}); _describe option items')
        lines.append(f"            else {'_files' if node.files else f'items=({words}); _describe word items'}")
        lines.append("            fi ;;")
    ending = [
        'if [ "$funcstack[1]" = "_mcp_gateway" ]; then _mcp_gateway "$@"',
        f"else compdef _mcp_gateway {PROGRAM}; fi",
    ]
    return "\n".join([*lines, "    esac", "}", *ending, ""])


def _fish(found: Sequence[Node]) -> str:
    lines = [
        f"# fish completion of {PROGRAM}: {PROGRAM} completion fish | source",
        "function __mcp_gateway_at",
        '    set -l at ""',
        "    set -l skip 0",
        "    for word in (commandline -opc)[2..-1]",
        "        if test $skip = 1; set skip 0; continue; end",
        '        switch "$at $word"',
        f"            case {_patterns(found, lambda _: True).replace('|', ' ')}",
        "                set skip 1",
        "                continue",
        "        end",
        '        switch "$at/$word"',
        f"            case {' '.join(_quoted(node.path) for node in found if node.path)}",
        '                set at "$at/$word"',
        "        end",
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        f"complete -c {PROGRAM} -f",
    ]
    for node in found:
        condition = _quoted(f"__mcp_gateway_at '{node.path}'")
        for option in node.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = " -r" if option.valued else ""
            value += " -F" if option.file else f" -a {_quoted(' '.join(option.words))}" if option.words else ""
            lines.append(f"complete -c {PROGRAM} -n {condition} {names}{value} -d {_quoted(option.help)}")
        for word, text in node.words:
            lines.append(f"complete -c {PROGRAM} -n {condition} -a {_quoted(word)} -d {_quoted(text)}")
        if node.files:
            lines.append(f"complete -c {PROGRAM} -n {condition} -F")
    return "\n".join([*lines, ""])


WRITERS: Final[dict[str, Callable[[Sequence[Node]], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
