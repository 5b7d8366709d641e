"""``check``: everything that is wrong with a config, without a gateway and without touching a server.

Errors and servers that are off are findings; what merely is not in force, or nobody can use, is a note.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from gateway.cli.output import Exit, Output, config_path, count, problem_values, wants_json
from gateway.compiling import compiled
from gateway.config.foreign import SWITCHED_OFF
from gateway.config.loader import Unreadable, load, start_problems
from gateway.config.policies import Policy
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError, Problem
from gateway.judgement import Findings, against_kept


@dataclass(frozen=True, slots=True)
class Reach:
    """Which policies are about a caller."""

    caller: str
    groups: tuple[str, ...]
    policies: tuple[Policy, ...]


def run(args: argparse.Namespace) -> int:
    """Check the config and print what was found."""
    return checked(args, against_kept)


def checked(args: argparse.Namespace, against: Callable[[LoadedConfig], Findings]) -> int:
    """Check the config, judge it against some lists, and print what was found."""
    path = config_path(args)
    try:
        loaded = load(path, os.environ)
    except Unreadable:
        raise
    except ConfigError as error:
        return _report_broken(error.problems, args)
    today = datetime.now(UTC).date()
    judgement = judge(loaded, today)
    found = against(loaded)
    judgement.problems += found.problems
    judgement.notes += found.notes
    return _report(loaded, judgement, args)


def judge(loaded: LoadedConfig, today: date) -> Findings:
    """Judge a config that loads: start rules, servers that are off, who sees nothing."""
    notes = [*loaded.notes, *_expiries(loaded, today)]
    for reach in reaches(loaded):
        allowed = any(policy.allow for policy in reach.policies if policy.mode == "enforce")
        if loaded.enforcing and not allowed:
            notes += [f"{reach.caller}: no policy allows it anything, it sees nothing"]
    if not loaded.config.servers and not loaded.off:
        notes.append("no servers are configured")
    if loaded.anonymous:
        what = "what policies allow anonymous" if loaded.enforcing else "everything"
        notes.append(f"callers need no credentials and may call {what}")
    return Findings([*start_problems(loaded), *_uncompiled(loaded)], notes)


def _uncompiled(loaded: LoadedConfig) -> list[Problem]:
    """Return what is wrong inside conditions, hours and selectors, where it is written."""
    try:
        compiled(loaded)
    except ConfigError as error:
        return error.problems
    return []


def _expiries(loaded: LoadedConfig, today: date) -> list[str]:
    clients = loaded.config.clients.items()
    return [f"client {name}: its keys expired on {c.expires}" for name, c in clients if c.expires and c.expires < today]


def reaches(loaded: LoadedConfig) -> list[Reach]:
    """Return for each caller that is known from the config which policies are about it (contract §3)."""
    policies = loaded.config.policies
    if loaded.anonymous:
        about = tuple(policy for policy in policies if "anonymous" in policy.clients)
        return [Reach("anonymous", (), about)]
    found = []
    for name, client in loaded.config.clients.items():
        names = {name, f"key:{name}", "*", *(f"group:{group}" for group in client.groups)}
        about = tuple(policy for policy in policies if names & set(policy.clients))
        found.append(Reach(name, tuple(client.groups), about))
    return found


def _report_broken(problems: list[Problem], args: argparse.Namespace) -> int:
    output = Output.standard()
    if wants_json(args):
        output.value({"ok": False, "problems": problem_values(problems), "notes": [], "off": {}})
        return Exit.FINDING
    for problem in problems:
        output.line(str(problem))
    output.line(count(len(problems), "problem"))
    return Exit.FINDING


def _report(loaded: LoadedConfig, judgement: Findings, args: argparse.Namespace) -> int:
    output = Output.standard()
    missing = {name: reason for name, reason in loaded.off.items() if reason != SWITCHED_OFF}
    fine = not judgement.problems and not missing
    code = Exit.FINE if fine else Exit.FINDING
    if wants_json(args):
        output.value(
            {
                "ok": fine,
                "problems": problem_values(judgement.problems),
                "notes": judgement.notes,
                "off": loaded.off,
                "servers": {name: server.kind for name, server in loaded.config.servers.items()},
                "clients": {reach.caller: [policy.name for policy in reach.policies] for reach in reaches(loaded)},
                "digest": loaded.digest,
            }
        )
        return code
    for problem in judgement.problems:
        output.line(str(problem))
    for name, reason in loaded.off.items():
        output.line(f"{'' if name in missing else 'note: '}server {name} is off: {reason}")
    for note in judgement.notes:
        output.line(f"note: {note}")
    output.table(("caller", "groups", "policies"), [_row(reach, loaded) for reach in reaches(loaded)])
    if fine:
        output.line(f"{loaded.path.name} is fine: {_summary(loaded)}")
    else:
        output.line(count(len(judgement.problems) + len(missing), "problem"))
    return code


def _row(reach: Reach, loaded: LoadedConfig) -> tuple[str, str, str]:
    if not reach.policies:
        return reach.caller, ", ".join(reach.groups), "none" if loaded.enforcing else "none: may call everything"
    names = [policy.name if policy.mode == "enforce" else f"{policy.name} (shadow)" for policy in reach.policies]
    return reach.caller, ", ".join(reach.groups), ", ".join(names)


def _summary(loaded: LoadedConfig) -> str:
    config = loaded.config
    return ", ".join(
        (
            count(len(config.servers), "server"),
            count(len(config.clients), "client"),
            count(len(config.policies), "policy", "policies"),
        )
    )
