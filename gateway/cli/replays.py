"""``policy replay``: which recorded decisions a candidate would change."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path

from gateway.audit.query import moment
from gateway.audit.recorded import Stand
from gateway.cli.audit_query import Progress
from gateway.cli.output import Exit, Output, config_path, count, wants_json
from gateway.compiling import compiled
from gateway.config.loader import load, load_sections
from gateway.config.policy_set import load_policies
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError
from gateway.model.catalog import Kind
from gateway.protocol.rawjson import Object
from gateway.replay import Change, Log, Replay, Tally


def run(args: argparse.Namespace) -> int:
    """Ask a candidate about a log; 0 nothing changes, 1 something does, 2 nothing does as far as it can be told."""
    # What follows --candidate takes the directory in.
    files = [Path(name) for name in args.candidate if not Path(name).is_dir()]
    directories = [name for name in (args.dir, *args.candidate) if name and Path(name).is_dir()]
    config = _config(args, needed=not files or not (args.dir or directories))
    if files:
        candidate = load_policies(files, os.environ)
    else:
        assert config is not None
        candidate = config
    directory = directories[0] if directories else args.dir or (config.config.audit.dir if config is not None else "")
    state = Path(config.config.state.dir) if config is not None else None
    try:
        since, until = _moment(args.since), _moment(args.until)
        progress = Progress.over([Path(directory)])
        log = Log(Path(directory), state, since, until)
        found = Replay(compiled(candidate), log, knows_views=not files)
        return _replayed(found, args, progress)
    except ValueError as error:
        Output.errors().line(f"policy replay: {error}")
    except OSError as error:
        Output.errors().line(f"policy replay: the audit log cannot be read: {error.strerror}")
    return Exit.UNKNOWN


def _config(args: argparse.Namespace, *, needed: bool) -> LoadedConfig | None:
    """Load the config; where only its directories would help, one that cannot be loaded is none."""
    if needed:
        return load(config_path(args), os.environ)
    try:
        return load_sections(config_path(args), os.environ, ("audit", "state"))
    except ConfigError:
        if hasattr(args, "config"):
            raise
        return None


def _moment(text: str | None) -> datetime | None:
    """Read a time as the commands that read the log do."""
    return datetime.fromisoformat(moment(text, datetime.now(UTC))) if text else None


def _replayed(found: Replay, args: argparse.Namespace, progress: Progress) -> int:
    output, tally = Output.standard(), found.tally
    changes: list[Object] = []
    for change in found.run(progress.read):
        if wants_json(args):
            changes.append(_change_value(change))
        else:
            progress.clear()
            output.line(_change_line(change))
    progress.clear()
    if wants_json(args):
        output.value(
            {
                "judged": tally.judged,
                "changed": tally.changed,
                "changes": changes,
                "undecidable": tally.undecidable,
                "reasons": dict(tally.reasons.most_common()),
                "unknown_names": tally.unknown_names,
                "unreadable": tally.unreadable,
            }
        )
    else:
        _sum_up(tally, output)
    if tally.changed:
        return Exit.FINDING
    return Exit.UNKNOWN if tally.undecidable or tally.unreadable or not tally.judged else Exit.FINE


def _sum_up(tally: Tally, output: Output) -> None:
    for reason, times in tally.reasons.most_common():
        output.line(f"undecidable: {reason} ({count(times, 'call')})")
    parts = [f"{count(tally.judged, 'call')} judged", f"{tally.changed} changed", f"{tally.undecidable} undecidable"]
    if tally.unknown_names:
        parts.append(f"{tally.unknown_names} records of names nobody offers left out")
    if tally.unreadable:
        parts.append(f"{count(tally.unreadable, 'unreadable line')}")
    output.line(", ".join(parts))


def _change_line(change: Change) -> str:
    call, target = change.call, change.call.target
    prefix = "" if target.kind is Kind.TOOL else f"{target.kind}:"
    what = f"{prefix}{target.server}/{target.name}"
    when = call.at.isoformat().replace("+00:00", "Z")
    return f"{when}  {call.who}  {what}  {_stand(call.stand)} -> {_stand(change.after)}"


def _stand(stand: Stand) -> str:
    rule = " ".join(part for part in (stand.policy, stand.rule) if part)
    return f"{stand.action} ({rule or stand.reason})"


def _change_value(change: Change) -> Object:
    call = change.call
    return {
        "seq": call.seq,
        "call_id": call.call_id or None,
        "ts": call.at.isoformat(),
        "principal": call.who,
        "kind": call.target.kind.value,
        "server": call.target.server,
        "name": call.target.name,
        "view": call.view,
        "before": _stand_value(call.stand),
        "after": _stand_value(change.after),
    }


def _stand_value(stand: Stand) -> Object:
    return {"action": stand.action, "policy": stand.policy, "rule": stand.rule, "reason": stand.reason}
