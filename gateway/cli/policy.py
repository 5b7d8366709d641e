"""``policy test``, ``explain`` and ``replay``: what policies decide, decided, or would have; without a gateway."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway.cli import replays
from gateway.cli.output import Exit, Output, config_path, count, wants_json
from gateway.compiling import compiled
from gateway.config.cases import PlacedCase, cases_of, load_cases, parse_time, policy_file_of
from gateway.config.loader import load
from gateway.config.policy_set import load_policies
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError, Problem
from gateway.judgement import kept_listings
from gateway.model.call import Target
from gateway.model.catalog import Listing
from gateway.model.principal import Principal
from gateway.policy.cases import CaseError, Verdict, judge_case
from gateway.policy.decision import Question
from gateway.policy.explain import explain
from gateway.policy.match import ClientError, principal_named
from gateway.policy.selectors import SelectorError, parse_target
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object

NEVER_LISTED: Final = "it is not in the last known list of its server, so its annotations are not known"


def run(args: argparse.Namespace) -> int:
    """Run ``policy COMMAND``; returns 0 fine, 1 a finding, 2 could not tell."""
    return _COMMANDS[args.policy_command](args)


@dataclass(frozen=True, slots=True)
class _Suite:
    """A file of cases and the policies they are about."""

    path: Path
    loaded: LoadedConfig
    alone: bool


def test(args: argparse.Namespace) -> int:
    """Run cases and print what came of each."""
    suites = _suites(args)
    if not suites:
        Output.errors().line("no cases: NAME.cases.yaml beside a policy file NAME.yaml holds some (docs/policies.md)")
        return Exit.UNKNOWN
    verdicts: list[tuple[PlacedCase, Verdict]] = []
    for suite in suites:
        verdicts += _judged(suite)
    failed = sum(not verdict.ok for _, verdict in verdicts)
    output = Output.standard()
    if wants_json(args):
        output.value({"ok": not failed, "cases": [_case_value(*each) for each in verdicts]})
    else:
        for placed, verdict in verdicts:
            output.line(_case_line(placed, verdict))
        output.line(
            f"{count(len(verdicts), 'case')}, {failed} failed" if failed else count(len(verdicts), "case") + " passed"
        )
    return Exit.FINDING if failed else Exit.FINE


def _suites(args: argparse.Namespace) -> list[_Suite]:
    """Return what to run: the named files, about the config that was named or else about the file each lies beside."""
    named = hasattr(args, "config")
    if args.files:
        whole = load(config_path(args), os.environ) if named else None
        return [_suite(Path(name), whole) for name in args.files]
    loaded = load(config_path(args), os.environ)
    places = (loaded.positions.get(f"policies[{policy.name}]") for policy in loaded.config.policies)
    files = dict.fromkeys(Path(place[0]) for place in places if place is not None)
    beside = {file: cases for file in files if (cases := cases_of(file)) is not None}
    return [_suite(cases, loaded if file.samefile(loaded.path) else None) for file, cases in beside.items()]


def _suite(path: Path, whole: LoadedConfig | None) -> _Suite:
    own = policy_file_of(path)
    cases = path
    if own is None and whole is None:
        found = cases_of(path)
        if found is None:
            raise ConfigError([Problem("no file of cases lies beside it", str(path), hint=f"{path.stem}.cases.yaml")])
        own, cases = path, found
    if whole is not None:
        return _Suite(cases, whole, alone=False)
    assert own is not None
    return _Suite(cases, load_policies([own], os.environ), alone=True)


def _judged(suite: _Suite) -> list[tuple[PlacedCase, Verdict]]:
    """Judge every case of a file.

    Raises:
        ConfigError: the policies or a case cannot be judged.
    """
    engine = compiled(suite.loaded)
    clients = None if suite.alone else suite.loaded.config.clients
    found: list[tuple[PlacedCase, Verdict]] = []
    problems: list[Problem] = []
    for index, placed in enumerate(load_cases(suite.path, os.environ)):
        try:
            found.append((placed, judge_case(engine, placed.case, clients)))
        except CaseError as error:
            problems.append(Problem(str(error), placed.file, placed.line, f"cases[{index}]"))
    if problems:
        raise ConfigError(problems)
    return found


def _case_line(placed: PlacedCase, verdict: Verdict) -> str:
    case, decision = verdict.case, verdict.decision
    who = case.who if isinstance(case.who, str) else case.who.id
    what = case.name or f"{who} {case.call}"
    rule = f" {decision.policy} {decision.rule}" if decision.policy else ""
    wrong = f": {', '.join(verdict.wrong)}, got" if verdict.wrong else ":"
    place = f"{placed.file}:{placed.line}"
    return f"{'ok  ' if verdict.ok else 'FAIL'} {place} {what}{wrong} {verdict.got} ({decision.reason}{rule})"


def _case_value(placed: PlacedCase, verdict: Verdict) -> Object:
    decision = verdict.decision
    return {
        "ok": verdict.ok,
        "file": placed.file,
        "line": placed.line,
        "name": verdict.case.name,
        "call": verdict.case.call,
        "expect": verdict.case.expect,
        "got": verdict.got,
        "policy": decision.policy,
        "rule": decision.rule,
        "reason": decision.reason,
        "wrong": [*verdict.wrong],
    }


def why(args: argparse.Namespace) -> int:
    """Explain one call; 0 where it is allowed, 1 where it is not."""
    loaded = load(config_path(args), os.environ)
    engine = compiled(loaded)
    try:
        asked = _asked(args, loaded)
    except (ClientError, SelectorError, JsonError, ValueError) as error:
        Output.errors().line(f"policy explain: {error}")
        return Exit.UNKNOWN
    if asked.view is not None and asked.view not in engine.views:
        Output.errors().line(f"policy explain: no view is called '{asked.view}'")
        return Exit.UNKNOWN
    target, known = _known(asked.target, kept_listings(loaded))
    asked = replace(asked, target=target)
    decision = engine.decide(asked)
    lines = explain(engine, asked)
    if not known:
        lines.append(f"note: {NEVER_LISTED}")
    if wants_json(args):
        Output.standard().value(
            {
                "allowed": decision.allowed,
                "visible": engine.visible(asked.principal, target, asked.view, asked.now),
                "policy": decision.policy,
                "rule": decision.rule,
                "reason": decision.reason,
                "listed": known,
                "lines": lines,
            }
        )
    else:
        for line in lines:
            Output.standard().line(line)
    return Exit.FINE if decision.allowed else Exit.FINDING


def _asked(args: argparse.Namespace, loaded: LoadedConfig) -> Question:
    principal = _principal(args, loaded)
    now = parse_time(args.at) if args.at else datetime.now(UTC)
    return Question(principal, parse_target(args.target), _object(args.args, "ARGS-JSON"), args.view, now)


def _principal(args: argparse.Namespace, loaded: LoadedConfig) -> Principal:
    principal = principal_named(args.principal, loaded.config.clients)
    return replace(
        principal,
        groups=principal.groups | _names(args.groups),
        scopes=_names(args.scopes),
        claims=_object(args.claims, "--claims"),
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name for name in text.replace(",", " ").split() if name)


def _object(text: str, what: str) -> Object:
    try:
        value = rawjson.decode_value(text.encode())
    except JsonError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a JSON object")
    return value


def _known(target: Target, listings: dict[str, Listing]) -> tuple[Target, bool]:
    """Return a target with the annotations it was last listed with, and whether it was listed."""
    listing = listings.get(target.server)
    for definition in listing.definitions if listing is not None else ():
        if (definition.kind, definition.name) == (target.kind, target.name):
            return replace(target, annotations=definition.annotations), True
    return target, False


_COMMANDS: Final = {"test": test, "explain": why, "replay": replays.run}
