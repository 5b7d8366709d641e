"""``tools --as PRINCIPAL``: what somebody sees, and why the rest is hidden."""

from __future__ import annotations

import argparse

from gateway.cli.output import Exit, Output, count, wants_json
from gateway.cli.remote import Question, inquire
from gateway.protocol.rawjson import Object, Value


def run(args: argparse.Namespace) -> int:
    """Print the tools of a principal; a principal that sees nothing is a finding."""
    view = {"view": args.view} if args.view is not None else {}
    seen = inquire("tools", args, Question("/tools", {"as": args.principal, **view}))
    if seen is None:
        return Exit.UNKNOWN
    if wants_json(args):
        Output.standard().value(seen)
    else:
        show(seen, Output.standard())
    return Exit.FINE if seen.get("tools") else Exit.FINDING


def show(seen: Object, output: Output) -> None:
    """Print what is seen and what is hidden, for people."""
    tools, hidden = _rows(seen.get("tools")), _rows(seen.get("hidden"))
    through = f" through view {seen.get('view')}" if seen.get("view") else ""
    size = f"{count(len(tools), 'tool')} (about {seen.get('approx_tokens')} tokens)"
    output.line(f"{seen.get('principal')} sees {size}{through}")
    if seen.get("mode") == "search":
        output.line("the view lists three tools to search, describe and call them")
    servers = seen.get("servers")
    if isinstance(servers, dict) and len(servers) > 1:
        for name, each in servers.items():
            output.line(f"of {name}: {_text(each, 'tools')} (about {_text(each, 'approx_tokens')} tokens)")
    output.table(("exposed name", "tool"), [(_text(row, "exposed"), _text(row, "tool")) for row in tools])
    if hidden:
        output.line(f"hidden: {len(hidden)}")
        output.table(("tool", "why"), [(_text(row, "tool"), _text(row, "why")) for row in hidden])
    off = seen.get("off")
    for name, reason in off.items() if isinstance(off, dict) else ():
        output.line(f"off: {name}: {reason}")


def _rows(value: Value) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(row: Value, key: str) -> str:
    return str(row.get(key, "")) if isinstance(row, dict) else ""
