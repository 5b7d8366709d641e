"""``approvals list|approve|deny``: the calls that wait for a person, exactly as they were asked for, and the answer.

What is printed before a decision is what the gateway hashed: arguments never change under an id.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.cli.output import Exit, Output, wants_json
from gateway.cli.remote import Question, inquire
from gateway.protocol.rawjson import Object, Value

_HEADINGS: Final = ("id", "state", "client", "tool", "since", "until", "waits for", "rule")


def run(args: argparse.Namespace) -> int:
    """Ask the gateway and print its answer."""
    command = f"approvals {args.action}"
    found = inquire(command, args, Question("/approvals"))
    if found is None:
        return Exit.UNKNOWN
    rows = _rows(found.get("approvals"))
    output = Output.standard()
    if args.action == "list":
        if wants_json(args):
            output.value(found)
        else:
            show(rows, output, datetime.now(UTC))
        return Exit.FINE
    mine = [row for row in rows if row.get("id") == args.id]
    if mine and not wants_json(args):
        _detail(mine[0], output)
    body: Object = {"id": args.id}
    if args.action == "deny":
        body["reason"] = args.reason
    done = inquire(command, args, Question(f"/approvals/{args.action}", body=body))
    if done is None:
        return Exit.UNKNOWN
    if wants_json(args):
        output.value(done)
    else:
        output.line(_said(done))
    return Exit.FINE


def show(rows: list[Object], output: Output, now: datetime) -> None:
    """Print a table, then each call's arguments."""
    if not rows:
        output.line("nothing waits for approval")
        return
    output.table(_HEADINGS, [_row(row, now) for row in rows])
    for row in rows:
        output.line(f"{_text(row, 'id')}: {_text(row, 'shown')}")


def _row(row: Object, now: datetime) -> list[str]:
    needs = _rows(row.get("needs"))
    waits = [_people(need) for need in needs if need.get("open") is True]
    return [
        _text(row, "id"),
        _text(row, "state"),
        _text(row, "client"),
        f"{_text(row, 'server')}/{_text(row, 'name')}",
        _minutes(now - _time(row, "asked_at")),
        _minutes(_time(row, "ends_at") - now),
        "; ".join(dict.fromkeys(waits)) or "-",
        ", ".join(f"{_text(need, 'policy')}/{_text(need, 'rule')}" for need in needs),
    ]


def _detail(row: Object, output: Output) -> None:
    """Print one call as it is about to be decided."""
    output.line(f"{_text(row, 'method')} {_text(row, 'server')}/{_text(row, 'name')} by {_text(row, 'principal')}")
    output.line(f"  asked {_text(row, 'asked_at')}, open until {_text(row, 'ends_at')}, {_text(row, 'state')}")
    for need in _rows(row.get("needs")):
        output.line(f"  {_text(need, 'policy')}/{_text(need, 'rule')}: {_people(need)}")
    output.line(f"  {_text(row, 'shown')}")


def _said(done: Object) -> str:
    name = f"{_text(done, 'id')}: {_text(done, 'server')}/{_text(done, 'name')}"
    if done.get("state") == "pending":
        waits = [_people(need) for need in _rows(done.get("needs")) if need.get("open") is True]
        return f"{name} is approved by you, and still waits for {'; '.join(dict.fromkeys(waits))}"
    if done.get("state") == "granted":
        return f"{name} is approved: the call passes once, until {_text(done, 'ends_at')}"
    return f"{name} is denied until {_text(done, 'ends_at')}"


def _people(need: Object) -> str:
    by = need.get("by")
    names = [str(name) for name in by] if isinstance(by, list) else []
    return " or ".join(names) or "anyone with the role approve"


def _minutes(span: timedelta) -> str:
    seconds = max(int(span.total_seconds()), 0)
    return f"{seconds // 60}m{seconds % 60:02d}s"


def _time(row: Object, key: str) -> datetime:
    return datetime.fromisoformat(_text(row, key))


def _rows(value: Value) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(row: Object, key: str) -> str:
    value = row.get(key)
    return "" if value is None else str(value)
