"""``audit …``: the log from its files, without a running gateway."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from gateway.audit import events, notes
from gateway.audit.keys import KEY_FILE, AuditKey, load_key
from gateway.audit.log import stamp
from gateway.audit.sidecars import Sidecars
from gateway.audit.verify import CannotTell, Evidence, Verdict, read_anchors, verify
from gateway.cli import audit_payloads, audit_query
from gateway.cli.audit_place import config_of, directories_of, directory_of, told
from gateway.cli.output import Exit, count, wants_json
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object
from gateway.telemetry.text import printable

_WIDEST: Final = 256


def run(args: argparse.Namespace) -> int:
    """Run ``audit COMMAND``, but for ``tail``; returns 0 fine, 1 a finding, 2 could not tell."""
    return told(_run, args)


def _run(args: argparse.Namespace) -> int:
    match args.audit_command:
        case "verify":
            return _verified(args)
        case "query":
            return audit_query.query(args, directories_of(args), audit_query.wanted_by(args, _key(args)))
        case "export":
            code = audit_query.export(args, directories_of(args), audit_query.wanted_by(args, _key(args)))
            if not args.dir:
                _tell(_state(args), "export", {"format": args.format})
            return code
        case _:
            return _beside(args)


def _verified(args: argparse.Namespace) -> int:
    try:
        evidence = Evidence(
            args.key.read_bytes() if args.key else None, read_anchors(args.anchor) if args.anchor else {}
        )
        return _verify(args, evidence)
    except CannotTell as error:
        raise ValueError(str(error)) from None


def _beside(args: argparse.Namespace) -> int:
    """Run a command that needs the config: keys are in ``state.dir``."""
    config = config_of(args)
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
    return Path(config_of(args).state.dir)


def _key(args: argparse.Namespace) -> AuditKey | None:
    """Return the log's key where a subject is asked for by name and the key is here; a copied log has none."""
    if args.dir or not (args.principal or "").startswith("sub:"):
        return None
    state = Path(config_of(args).state.dir)
    return load_key(state) if (state / KEY_FILE).exists() else None


def _verify(args: argparse.Namespace, evidence: Evidence) -> int:
    directory = directory_of(args)
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
