"""``pins show|check|approve|reject [SERVER[/TOOL]]``: what differs from what was approved, and the decision about it.

An approval is of exactly what this command has printed: the gateway refuses it when the server has changed since.
"""

from __future__ import annotations

import argparse
from typing import Final

from gateway.cli.output import Exit, Output, count, wants_json
from gateway.cli.remote import Question, inquire
from gateway.pinning.diff import MORE
from gateway.protocol.rawjson import Object, Value
from gateway.telemetry.text import ELLIPSIS

_HEADINGS: Final = ("server", "state", "mode", "approved", "definitions", "differences")
_SHORT: Final = 12


def run(args: argparse.Namespace) -> int:
    """Ask the gateway and print its answer."""
    command = f"pins {args.action}"
    found = inquire(command, args, Question("/pins", {"target": args.target}))
    if found is None:
        return Exit.UNKNOWN
    if args.action in ("approve", "reject"):
        return _decide(args, found)
    servers = _object(found.get("servers"))
    if wants_json(args):
        Output.standard().value(found)
    else:
        show(servers, Output.standard(), facts=bool(args.target) and args.action == "show")
    return _verdict(servers) if args.action == "check" else Exit.FINE


def _verdict(servers: Object) -> int:
    rows = [_object(server) for server in servers.values()]
    if any(row.get("differences") or row.get("state") in ("changed", "quarantined") for row in rows):
        return Exit.FINDING
    return Exit.UNKNOWN if any(row.get("state") == "unknown" for row in rows) else Exit.FINE


def _decide(args: argparse.Namespace, found: Object) -> int:
    output = Output.standard()
    [(server, state)] = _object(found.get("servers")).items()
    differences = _rows(_object(state).get("differences"))
    if not differences:
        if wants_json(args):
            output.value({"server": server, "items": [], "state": _object(state).get("state")})
        else:
            output.line(f"{server}: nothing differs")
        return Exit.FINE
    digests: Object = {_text(row, "item"): _text(row, "after") for row in differences}
    if args.digest:
        if len(digests) != 1:
            Output.errors().line("--digest is about one item: name it as SERVER/TOOL")
            return Exit.UNKNOWN
        whole = next(iter(digests.values()))
        # Twelve digits and more are what people copy; the gateway compares the whole.
        named = whole if len(args.digest) >= _SHORT and str(whole).startswith(args.digest) else args.digest
        digests = dict.fromkeys(digests, named)
    if not wants_json(args):
        _differences(server, differences, output)
    body: Object = {"target": args.target, "digests": digests}
    done = inquire(f"pins {args.action}", args, Question(f"/pins/{args.action}", body=body))
    if done is None:
        return Exit.UNKNOWN
    if wants_json(args):
        output.value(done)
    else:
        items = done.get("items")
        verb = "approved" if args.action == "approve" else "rejected"
        number = len(items) if isinstance(items, list) else 0
        output.line(f"{server}: {verb} {count(number, 'difference')}; now {done.get('state')}")
    return Exit.FINE


def show(servers: Object, output: Output, *, facts: bool) -> None:
    """Print pins for people: a table, then each difference with what changed in it."""
    output.table(_HEADINGS, [_row(name, _object(server)) for name, server in servers.items()])
    for name, server in servers.items():
        row = _object(server)
        if facts:
            for fact, value in _object(row.get("facts")).items():
                output.line(f"  {fact} = {value}")
        if row.get("reason"):
            output.line(f"{name}: {row.get('reason')}")
        _differences(name, _rows(row.get("differences")), output)


def _row(name: str, server: Object) -> list[str]:
    differences = _rows(server.get("differences"))
    return [
        name,
        _text(server, "state"),
        _text(server, "mode"),
        _text(server, "approved_at"),
        _text(server, "definitions"),
        str(len(differences)),
    ]


def _differences(server: str, differences: list[Object], output: Output) -> None:
    for row in differences:
        what = "rejected" if row.get("rejected") is True else "held back" if row.get("held") is True else ""
        what = what or {"quarantine": "quarantines the server"}.get(_text(row, "effect"), "reported")
        before, after = _text(row, "before")[:_SHORT] or "nothing", _text(row, "after")[:_SHORT] or "nothing"
        aspect = _text(row, "aspect").replace("_", " ")
        output.line(f"{server}/{_text(row, 'shown')}: {aspect}, {what}: {before} -> {after}")
        for line in _rows(row.get("diff")):
            output.line(f"  {_text(line, 'pointer') or '/'}")
            if line.get("before") is not None:
                output.line(f"  - {_text(line, 'before')}")
            if line.get("after") is not None:
                output.line(f"  + {_text(line, 'after')}")
        if "before_text" not in row and any(map(_cut, _rows(row.get("diff")))):
            output.line(f"  (cut; whole, as approved and as it is now: pins show {server}/{_text(row, 'item')} --json)")


def _cut(line: Object) -> bool:
    """Whether a line shows a piece of what it is about, or says that there are more of them."""
    texts = _text(line, "before"), _text(line, "after")
    return any(text == MORE or text.startswith(ELLIPSIS) or text.endswith(ELLIPSIS) for text in texts)


def _rows(value: Value) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(value: Value) -> Object:
    return value if isinstance(value, dict) else {}


def _text(row: Object, key: str) -> str:
    value = row.get(key)
    return "" if value is None else str(value)
