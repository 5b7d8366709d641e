"""The command line as it is written: every command with its options, and the module that does what it says.

Declared apart from the modules, which are loaded only for the command that was given: reading all of them takes a
second. Imports nothing but what parsers need.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.cli.output import add_common

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

LAST: Final = 20
"""Records that ``audit tail`` begins with."""
FORMATS: Final = ("jsonl", "ocsf", "cef")
"""What ``audit export`` writes."""
SHELLS: Final = ("bash", "zsh", "fish")
"""What ``completion`` writes for."""
CLIENTS: Final = (
    "claude-code",
    "claude-desktop",
    "vscode",
    "cursor",
    "windsurf",
    "codex",
    "gemini-cli",
    "zed",
    "jetbrains",
)
"""What ``snippet`` knows."""
_PINS: Final = {
    "show": "show what is pinned and what differs from it",
    "check": "tell by the exit code whether anything differs: 0 no, 1 yes, 2 could not tell",
    "approve": "approve what differs of a server, or one tool of it",
    "reject": "keep it held back, and remember that",
}


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("must not be negative")
    return number


def _serve(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("serve", help="run the gateway")
    add_common(parser)
    parser.add_argument(
        "--no-watch",
        dest="watch",
        action="store_false",
        help="reload on SIGHUP and on request only, not when files of the config change",
    )


def _check(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("check", help="say everything that is wrong with a config")
    parser.add_argument("--live", action="store_true", help="start and list every server first")
    add_common(parser)


def _status(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("status", help="show how the gateway and its servers are")
    add_common(parser)


def _health(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("health", help="ask whether the gateway lives, or takes calls")
    add_common(parser)
    parser.add_argument("--ready", action="store_true", help="ask whether it takes calls, not only whether it lives")


def _tools(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("tools", help="show what a client sees, and why the rest is hidden")
    parser.add_argument(
        "--as", dest="principal", metavar="PRINCIPAL", default="anonymous", help="a client's name, or anonymous"
    )
    parser.add_argument("--view", metavar="NAME", help="through which view (default: the whole endpoint)")
    add_common(parser)


def _call(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("call", help="call a tool through every check, as some client")
    parser.add_argument("target", metavar="SERVER/TOOL", help="with the names the server itself uses")
    parser.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="the arguments (default: {})")
    parser.add_argument(
        "--as", dest="principal", metavar="PRINCIPAL", default="anonymous", help="a client's name, or anonymous"
    )
    add_common(parser)


def _pins(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("pins", help="show, check, approve and reject what servers have changed")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in _PINS.items():
        action = actions.add_parser(name, help=text)
        decides = name in ("approve", "reject")
        action.add_argument(
            "target",
            metavar="SERVER[/TOOL]",
            nargs=None if decides else "?",
            default=None if decides else "",
            help="a server, or SERVER/TOOL, SERVER/prompt:NAME, SERVER/template:TEXT, SERVER/instructions",
        )
        if decides:
            action.add_argument("--digest", default="", help="of the one item: what pins show had printed for it")
        add_common(action)
    add_common(parser)


def _approvals(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("approvals", help="list, approve and deny the calls that wait for a person")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="list what waits, and what was decided and not called yet")
    approve = actions.add_parser("approve", help="approve one call: it passes once, within 15 minutes")
    deny = actions.add_parser("deny", help="deny one call, also one that was approved and not called yet")
    deny.add_argument("--reason", default="", help="told to the client; at most 200 characters")
    for action in (approve, deny):
        action.add_argument("id", metavar="ID", help="of the approval, as the list and the refusal say it")
    for action in (listed, approve, deny):
        add_common(action)
    add_common(parser)


def _keys(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("keys", help="make keys for clients")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="make a key and print it once, with the entry to paste")
    new.add_argument("name", metavar="NAME", help="the client's name")
    new.add_argument("--group", action="append", default=[], metavar="G", help="a group the client is in; repeatable")
    new.add_argument("--expires", type=date.fromisoformat, metavar="DATE", help="last day (UTC) it works: 2027-01-31")
    add_common(parser)
    add_common(new)


def _audit(subparsers: Subparsers) -> None:
    group = subparsers.add_parser("audit", help="read and check the audit log")
    commands = group.add_subparsers(dest="audit_command", required=True, metavar="COMMAND")
    check = commands.add_parser("verify", help="check that the log is whole, unchanged and signed")
    check.add_argument(
        "--key", metavar="FILE", type=Path, help="trust this public key instead of the one beside the log"
    )
    check.add_argument("--anchor", metavar="FILE", type=Path, help="records kept elsewhere, which must be in the log")
    last = commands.add_parser("tail", help=f"show the last {LAST} records")
    last.add_argument("-f", "--follow", action="store_true", help="go on with new ones until interrupted")
    joining = _audit_query(commands)
    for parser in (check, last):
        parser.add_argument("dir", nargs="?", metavar="DIR", help="the log's directory (default: audit.dir)")
    for parser in joining:
        parser.add_argument("dir", nargs="*", metavar="DIR", help="one log or several (default: audit.dir)")
    for parser in (check, last, *joining, *_audit_payloads(commands)):
        add_common(parser)


def _policy(subparsers: Subparsers) -> None:
    group = subparsers.add_parser("policy", help="try policies without a gateway")
    commands = group.add_subparsers(dest="policy_command", required=True, metavar="COMMAND")
    test = commands.add_parser("test", help="run the cases that lie beside policies")
    test.add_argument("files", nargs="*", metavar="FILE", help="NAME.cases.yaml, or the NAME.yaml it lies beside")
    why = commands.add_parser("explain", help="say why a call is allowed or not, rule by rule")
    why.add_argument("principal", metavar="PRINCIPAL", help="a client's name, anonymous, or a full principal id")
    why.add_argument("target", metavar="TARGET", help="SERVER/TOOL, or with prompt:, resource: or template: in front")
    why.add_argument("args", nargs="?", metavar="ARGS-JSON", default="{}", help="the arguments of the call")
    why.add_argument("--at", metavar="TIME", help="when, with zone, as 2026-08-24T10:00:00Z (default: now)")
    why.add_argument("--view", metavar="NAME", help="through which view")
    why.add_argument("--groups", metavar="A,B", default="", help="groups the caller is in besides its own")
    why.add_argument("--scopes", metavar="A,B", default="", help="scopes of the caller's token")
    why.add_argument("--claims", metavar="JSON", default="{}", help="claims of the caller's token")
    for parser in (test, why, _replay(commands)):
        add_common(parser)


def _schema(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("schema", help="print the JSON Schema of the config")
    parser.add_argument("--policies", action="store_true", help="the schema of a policy file instead")
    add_common(parser)


def _import(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("import", help="turn the server list of Claude, VS Code or Cursor into servers")
    parser.add_argument("file", metavar="FILE", type=Path, help="claude_desktop_config.json, .mcp.json, mcp.json, …")
    parser.add_argument("--write", action="store_true", help="add what is new to the config (-c), or make one")
    add_common(parser)


def _snippet(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("snippet", help="print what to put into a client")
    parser.add_argument("client", metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--view", metavar="NAME", help="connect to this view (default: the whole endpoint)")
    add_common(parser)


def _connect(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("connect", help="be a stdio server for a client that speaks no HTTP")
    parser.add_argument("url", metavar="URL", help="the endpoint, such as http://127.0.0.1:8080/mcp")
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--key-env", metavar="NAME", help="variable that holds the key")
    key.add_argument("--key-file", metavar="FILE", type=Path, help="file that holds the key; others must not read it")
    key.add_argument("--no-sign-in", action="store_true", help="never open a page to sign in (OAuth)")
    parser.add_argument("--client-id", metavar="ID", help="OAuth client to sign in as (default: registers itself)")
    parser.add_argument("--ca", metavar="FILE", type=Path, help="PEM file of the authorities to trust instead")
    parser.add_argument("--allow-http", action="store_true", help="send a credential over http to another machine too")
    add_common(parser)


def _completion(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("completion", help="print a script that completes commands in a shell")
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    add_common(parser)
    parser.set_defaults(tree=subparsers)


def _audit_query(commands: Subparsers) -> tuple[argparse.ArgumentParser, ...]:
    query = commands.add_parser("query", help="show the records that match")
    query.add_argument("-f", "--follow", action="store_true", help="go on with new ones until interrupted")
    export = commands.add_parser("export", help="write the records that match for other systems")
    export.add_argument("--format", choices=FORMATS, default="jsonl", help="default: jsonl, the records themselves")
    export.add_argument("-o", "--output", metavar="FILE", type=Path, help="write to a file instead of standard output")
    for parser in (query, export):
        parser.add_argument("--principal", metavar="WHO", help="key:NAME, sub:ISSUER/SUB, a client's label or a digest")
        parser.add_argument("--server", metavar="NAME", default="")
        parser.add_argument("--tool", metavar="NAME", default="", help="a tool's own or exposed name")
        parser.add_argument("--event", metavar="GLOB", default="", help="such as call.denied or 'security.*'")
        parser.add_argument("--outcome", metavar="STATUS", default="", help="such as ok, denied, timeout")
        parser.add_argument("--call", metavar="ID", default="", help="the records of one call")
        parser.add_argument("--since", metavar="WHEN", help="a time (2026-08-23T10:00Z), a day, or how long ago (2h)")
        parser.add_argument("--until", metavar="WHEN", help="likewise, not included")
        parser.add_argument("--limit", metavar="N", type=_count, help="the last N of them")
    return query, export


def _audit_payloads(commands: Subparsers) -> tuple[argparse.ArgumentParser, ...]:
    show = commands.add_parser("show", help="show one call, with what was kept of its arguments and result")
    show.add_argument("call", metavar="CALL_ID")
    erase = commands.add_parser(
        "erase", help="make everything kept of a principal's full payloads unreadable, for ever"
    )
    erase.add_argument("principal", metavar="PRINCIPAL", help="such as key:NAME or sub:ISSUER/SUB")
    rotate = commands.add_parser("rotate-key", help="make the key that signs the log from the next start on")
    return show, erase, rotate


def _replay(commands: Subparsers) -> argparse.ArgumentParser:
    added = commands.add_parser("replay", help="ask other policies about the calls that were recorded")
    added.add_argument("dir", nargs="?", metavar="DIR", help="the log's directory (default: audit.dir of the config)")
    added.add_argument(
        "--candidate",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="the policy files to ask (default: the policies of the config that -c names)",
    )
    added.add_argument("--since", metavar="WHEN", help="leave out calls before a time, a day, or so long ago (2h)")
    added.add_argument("--until", metavar="WHEN", help="leave out calls from then on")
    return added


@dataclass(frozen=True, slots=True)
class Command:
    """One command: how it is written, and which module of this package runs it.

    ``unless`` says where another module runs it: for an argument and its value.
    """

    declare: Callable[[Subparsers], None]
    module: str
    unless: tuple[str, object, str] | None = None

    def runner(self, args: argparse.Namespace) -> str:
        """Return the module that runs what was asked for."""
        if self.unless is not None:
            argument, value, module = self.unless
            if getattr(args, argument) == value:
                return module
        return self.module


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(_serve, "serve"),
    "check": Command(_check, "check", ("live", True, "check_live")),
    "status": Command(_status, "status"),
    "health": Command(_health, "health"),
    "tools": Command(_tools, "tools"),
    "call": Command(_call, "call"),
    "pins": Command(_pins, "pins"),
    "approvals": Command(_approvals, "approvals"),
    "keys": Command(_keys, "keys"),
    "audit": Command(_audit, "audit", ("audit_command", "tail", "audit_tail")),
    "policy": Command(_policy, "policy"),
    "schema": Command(_schema, "schema"),
    "import": Command(_import, "importing"),
    "snippet": Command(_snippet, "snippet"),
    "connect": Command(_connect, "connect"),
    "completion": Command(_completion, "completion"),
}
"""The commands, in the order of the help text."""
