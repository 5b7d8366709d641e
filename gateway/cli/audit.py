"""``audit verify`` and ``audit tail``: the log from its files, without a running gateway."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path
from typing import Final

from gateway.audit.tail import Tail
from gateway.audit.verify import CannotTell, Verdict, verify
from gateway.cli.output import Exit, add_common, config_path, count, wants_json
from gateway.config.loader import Unreadable, load
from gateway.errors import ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.telemetry.text import printable

LAST: Final = 20
_POLL_SECONDS: Final = 0.5
_WIDEST: Final = 256
_DIGEST: Final = 12
"""Characters that are enough to tell digests apart by eye."""
_BY_RULE: Final = frozenset({"allow_rule", "deny_rule"})
"""Reasons that say no more than that the rule beside them matched."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command group to the program's parser."""
    group = subparsers.add_parser("audit", help="read and check the audit log")
    commands = group.add_subparsers(dest="audit_command", required=True, metavar="COMMAND")
    check = commands.add_parser("verify", help="check that the log is whole and unchanged")
    last = commands.add_parser("tail", help=f"show the last {LAST} records")
    last.add_argument("-f", "--follow", action="store_true", help="go on with new ones until interrupted")
    for parser in (check, last):
        parser.add_argument("dir", nargs="?", metavar="DIR", help="the log's directory (default: audit.dir)")
        add_common(parser)
        parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run ``audit COMMAND``; returns 0 fine, 1 a finding, 2 could not tell."""
    try:
        directory = Path(args.dir) if args.dir else _configured(config_path(args))
        if args.audit_command == "verify":
            return _verify(directory, as_json=wants_json(args))
        return _tail(directory, as_json=wants_json(args), follow=args.follow)
    except (ConfigError, Unreadable, CannotTell) as error:
        print(printable(str(error), 4096), file=sys.stderr)
    except BrokenPipeError:
        # Whoever read along has seen enough; the program's border knows what to do.
        raise
    except OSError as error:
        print(f"the audit log cannot be read: {error.strerror}", file=sys.stderr)
    return Exit.UNKNOWN


def _configured(path: Path) -> Path:
    return Path(load(path, os.environ).config.audit.dir)


def _verify(directory: Path, *, as_json: bool) -> int:
    verdict = verify(directory)
    print(rawjson.encode(_facts(verdict)).decode() if as_json else _sentence(verdict))
    return Exit.FINE if verdict.ok else Exit.FINDING


def _facts(verdict: Verdict) -> Object:
    fault = verdict.fault
    return {
        "ok": verdict.ok,
        "records": verdict.records,
        "segments": verdict.segments,
        "chain": None if verdict.head is None else verdict.head.chain,
        "head": None if verdict.head is None else verdict.head.hash,
        "unfinished_bytes": verdict.unfinished,
        "fault": None
        if fault is None
        else {"segment": fault.segment, "line": fault.line, "seq": fault.seq, "reason": fault.reason},
    }


def _sentence(verdict: Verdict) -> str:
    if verdict.fault is not None:
        return printable(f"FAIL {verdict.fault} ({verdict.records} records before it are good)", _WIDEST)
    tail = f", and {verdict.unfinished} bytes of a record that was never finished" if verdict.unfinished else ""
    return f"OK {count(verdict.records, 'record')} in {count(verdict.segments, 'segment')}{tail}"


def _tail(directory: Path, *, as_json: bool, follow: bool) -> int:
    tail = Tail(directory)
    lines = tail.last(LAST)
    try:
        while True:
            for line in lines:
                print(_as_json(line) if as_json else describe(line))
            if not follow:
                return Exit.FINE
            sys.stdout.flush()
            wait(_POLL_SECONDS)
            lines = tail.more()
    except KeyboardInterrupt:
        return Exit.FINE


def wait(seconds: float) -> None:
    """Wait, interruptibly: files are polled, since a follower may look at a copy on another machine."""
    threading.Event().wait(seconds)


def _as_json(line: bytes) -> str:
    """Pass a record on as it is; a line that is none must not reach a JSON reader or a terminal raw."""
    try:
        return rawjson.encode(rawjson.decode_value(line)).decode()
    except JsonError:
        return rawjson.encode({"unreadable": printable(line.decode(errors="replace"), _WIDEST)}).decode()


def describe(line: bytes) -> str:
    """Return one line for a person: time, event, principal, server and name, decision or outcome, duration."""
    try:
        record = rawjson.decode_value(line)
    except JsonError:
        record = None
    if not isinstance(record, dict):
        return "? unreadable line: " + printable(line.decode(errors="replace"), 80)
    principal, tool, outcome = _part(record, "principal"), _part(record, "tool"), _part(record, "outcome")
    words = [
        _text(record.get("ts")),
        _text(record.get("event")),
        _who(principal) or _text(_part(record, "admin").get("user")),
        "/".join(
            part for part in (_text(record.get("server")), _text(tool.get("name") or tool.get("exposed"))) if part
        ),
        *_verdict(_text(record.get("event")), _part(record, "decision"), outcome),
        _duration(outcome.get("dur_us")),
        _facts_of(record),
    ]
    return "  ".join(word for word in words if word)


def _who(principal: Object) -> str:
    known = principal.get("id") or principal.get("sub_h")
    client = _text(principal.get("client"))
    return _text(known) if principal.get("id") else f"{client} {_text(known)}".strip()


def _verdict(event: str, decision: Object, outcome: Object) -> tuple[str, str]:
    """Say what was decided and how it ended, but not what the event's own name says already."""
    status, detail = _text(outcome.get("status")), _text(outcome.get("detail"))
    allowed = decision.get("action") == "allow"
    decided = "" if allowed and event != "call.start" else _decision(decision)
    ended = "" if decided and status == "denied" else status
    return decided, f"{ended} ({detail})" if ended and detail else ended


def _decision(decision: Object) -> str:
    rule = "/".join(part for part in (_text(decision.get("policy")), _text(decision.get("rule"))) if part)
    reason = _text(decision.get("reason"))
    detail = " ".join(part for part in (rule, "" if rule and reason in _BY_RULE else reason) if part)
    action = _text(decision.get("action"))
    return f"{action} ({detail})" if action and detail else action


def _duration(micros: Value) -> str:
    return f"{micros / 1000:.1f}ms" if isinstance(micros, int) else ""


def _facts_of(record: Object) -> str:
    """Show what an event that is no call says, such as ``config.loaded``."""
    event = record.get("event")
    group, _, kind = event.partition(".") if isinstance(event, str) else ("", "", "")
    facts = _part(record, group) or _part(record, kind)
    times = record.get("count")
    shown = [
        f"{_text(name)}={_text(value)[: _DIGEST if name.endswith('sha256') else _WIDEST]}"
        for name, value in facts.items()
        if name != "user" and not isinstance(value, (dict, list))
    ]
    return " ".join([*shown, f"x{times}"] if isinstance(times, int) and times > 1 else shown)


def _part(record: Object, name: str) -> Object:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _text(value: Value) -> str:
    return "" if value is None else printable(str(value), _WIDEST)
