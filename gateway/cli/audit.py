"""``audit …``: the log from its files, without a running gateway."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from gateway.audit import events, notes
from gateway.audit.keys import KEY_FILE, AuditKey, load_key
from gateway.audit.log import stamp
from gateway.audit.sidecars import Sidecars
from gateway.audit.tail import Tail
from gateway.audit.verify import CannotTell, Evidence, Verdict, read_anchors, verify
from gateway.cli import audit_payloads, audit_query
from gateway.cli.audit_lines import describe_line, wait
from gateway.cli.output import Exit, add_common, config_path, count, wants_json
from gateway.config.loader import Unreadable, load
from gateway.config.root import Config
from gateway.errors import ConfigError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object
from gateway.telemetry.text import printable

LAST: Final = 20
_POLL_SECONDS: Final = 0.5
_WIDEST: Final = 256


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command group to the program's parser."""
    group = subparsers.add_parser("audit", help="read and check the audit log")
    commands = group.add_subparsers(dest="audit_command", required=True, metavar="COMMAND")
    check = commands.add_parser("verify", help="check that the log is whole, unchanged and signed")
    check.add_argument(
        "--key", metavar="FILE", type=Path, help="trust this public key instead of the one beside the log"
    )
    check.add_argument("--anchor", metavar="FILE", type=Path, help="records kept elsewhere, which must be in the log")
    last = commands.add_parser("tail", help=f"show the last {LAST} records")
    last.add_argument("-f", "--follow", action="store_true", help="go on with new ones until interrupted")
    readers = (check, last, *audit_query.register(commands))
    for parser in readers:
        parser.add_argument("dir", nargs="?", metavar="DIR", help="the log's directory (default: audit.dir)")
    for parser in (*readers, *audit_payloads.register(commands)):
        add_common(parser)
        parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run ``audit COMMAND``; returns 0 fine, 1 a finding, 2 could not tell."""
    try:
        return _run(args)
    except (ConfigError, Unreadable, CannotTell, ValueError) as error:
        print(printable(str(error), 4096), file=sys.stderr)
    except BrokenPipeError:
        # Whoever read along has seen enough; the program's border knows what to do.
        raise
    except FileExistsError as error:
        print(f"{error.filename} exists", file=sys.stderr)
    except OSError as error:
        place = printable(str(error.filename or "the audit log"), 4096)
        print(f"{place} cannot be read: {error.strerror}", file=sys.stderr)
    return Exit.UNKNOWN


def _run(args: argparse.Namespace) -> int:
    match args.audit_command:
        case "verify":
            evidence = Evidence(
                args.key.read_bytes() if args.key else None, read_anchors(args.anchor) if args.anchor else {}
            )
            return _verify(args, evidence)
        case "tail":
            return _tail(_directory(args), as_json=wants_json(args), follow=args.follow)
        case "query":
            return audit_query.query(args, _directory(args), audit_query.wanted_by(args, _key(args)))
        case "export":
            code = audit_query.export(args, _directory(args), audit_query.wanted_by(args, _key(args)))
            if not args.dir:
                _tell(_state(args), "export", {"format": args.format})
            return code
        case _:
            return _beside(args)


def _beside(args: argparse.Namespace) -> int:
    """Run a command that needs the config: keys are in ``state.dir``."""
    config = _config(args)
    directory, state = Path(config.audit.dir), Path(config.state.dir)
    match args.audit_command:
        case "show":
            _tell(state, "show", {"call_id": args.call})
            return audit_payloads.show(args.call, directory, state, as_json=wants_json(args))
        case "erase":
            _tell(state, "erase", {"principal": Sidecars.name_of(args.principal)})
            return audit_payloads.erase(args.principal, directory, state, as_json=wants_json(args))
        case _:
            code = audit_payloads.rotate_key(state, args)
            _tell(state, "rotate_key", {})
            return code


def _tell(state: Path, act: str, facts: Object) -> None:
    """Have the gateway write down who did what with the log."""
    notes.leave(state, events.admin(f"audit_{act}", _user(), facts) | stamp())


def _user() -> str:
    return f"uid {os.getuid()}"


def _state(args: argparse.Namespace) -> Path:
    return Path(_config(args).state.dir)


def _directory(args: argparse.Namespace) -> Path:
    return Path(args.dir) if args.dir else Path(_config(args).audit.dir)


def _config(args: argparse.Namespace) -> Config:
    return load(config_path(args), os.environ).config


def _key(args: argparse.Namespace) -> AuditKey | None:
    """Return the log's key where a subject is asked for by name and the key is here; a copied log has none."""
    if args.dir or not (args.principal or "").startswith("sub:"):
        return None
    state = Path(_config(args).state.dir)
    return load_key(state) if (state / KEY_FILE).exists() else None


def _verify(args: argparse.Namespace, evidence: Evidence) -> int:
    directory = _directory(args)
    progress = audit_query.Progress.of(sum(path.stat().st_size for path in directory.glob("*.jsonl")))
    verdict = verify(directory, evidence, progress.read)
    progress.clear()
    print(rawjson.encode(_facts(verdict)).decode() if wants_json(args) else _sentence(verdict))
    if not args.dir:
        facts: Object = {"ok": verdict.ok, "records": verdict.records, "fault": str(verdict.fault or "")}
        notes.leave(_state(args), events.gateway_event("audit.verified", {**facts, "user": _user()}) | stamp())
    return Exit.FINE if verdict.ok else Exit.FINDING


def _facts(verdict: Verdict) -> Object:
    fault = verdict.fault
    return {
        "ok": verdict.ok,
        "records": verdict.records,
        "first": verdict.first,
        "segments": verdict.segments,
        "checkpoints": verdict.checkpoints,
        "unanchored": verdict.unanchored,
        "keys": [*verdict.keys],
        "chain": None if verdict.head is None else verdict.head.chain,
        "head": None if verdict.head is None else verdict.head.hash,
        "unfinished_bytes": verdict.unfinished,
        "notes": [*verdict.notes],
        "fault": None
        if fault is None
        else {"segment": fault.segment, "line": fault.line, "seq": fault.seq, "reason": fault.reason},
    }


def _sentence(verdict: Verdict) -> str:
    if verdict.fault is not None:
        return printable(f"FAIL {verdict.fault} ({verdict.records} records before it are good)", _WIDEST)
    parts = [f"OK {count(verdict.records, 'record')} in {count(verdict.segments, 'segment')}"]
    if verdict.first > 1:
        parts.append(f"those before {verdict.first} deleted by retention")
    if verdict.keys:
        parts.append(f"{count(verdict.checkpoints, 'checkpoint')} signed by {', '.join(verdict.keys)}")
        parts.append(f"{verdict.unanchored} unanchored")
    else:
        parts.append("not signed")
    if verdict.unfinished:
        parts.append(f"and {verdict.unfinished} bytes of a record that was never finished")
    return ", ".join([*parts, *verdict.notes])


def _tail(directory: Path, *, as_json: bool, follow: bool) -> int:
    tail = Tail(directory)
    lines = tail.last(LAST)
    try:
        while True:
            for line in lines:
                print(_as_json(line) if as_json else describe_line(line))
            if not follow:
                return Exit.FINE
            sys.stdout.flush()
            wait(_POLL_SECONDS)
            lines = tail.more()
    except KeyboardInterrupt:
        return Exit.FINE


def _as_json(line: bytes) -> str:
    """Pass a record on as it is; a line that is none must not reach a JSON reader or a terminal raw."""
    try:
        return rawjson.encode(rawjson.decode_value(line)).decode()
    except JsonError:
        return rawjson.encode({"unreadable": printable(line.decode(errors="replace"), _WIDEST)}).decode()
