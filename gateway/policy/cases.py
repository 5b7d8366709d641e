"""Judges cases: asks the engine what it would decide and compares that with what the author of a case expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC

from gateway.config.access import Client
from gateway.config.cases import Case
from gateway.model.principal import Principal
from gateway.policy.decision import Decision, Question
from gateway.policy.engine import Engine
from gateway.policy.match import ClientError, principal_named
from gateway.policy.selectors import SelectorError, parse_target
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object


class CaseError(ValueError):
    """A case that cannot be judged; the message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case: ``got`` is what the policies say, ``wrong`` what of it was not expected."""

    case: Case
    got: str
    decision: Decision
    wrong: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.wrong


def judge_case(engine: Engine, case: Case, clients: Mapping[str, Client] | None) -> Verdict:
    """Judge one case. ``clients`` are the configured ones, None where only policies are known.

    Raises:
        CaseError: a caller, target or view that does not exist.
    """
    question = question_of(engine, case, clients)
    decision = engine.decide(question)
    visible = engine.visible(question.principal, question.target, question.view, question.now)
    allowed = "approve" if decision.approvals else "allow"
    got = allowed if decision.allowed else "deny" if visible else "hidden"
    wrong = [] if got == case.expect or (case.expect, got) == ("deny", "hidden") else [f"expected {case.expect}"]
    for name, expected, found in (
        ("policy", case.policy, decision.policy),
        ("rule", case.rule, decision.rule),
        ("reason", case.reason, decision.reason),
    ):
        if expected and expected != found:
            wrong.append(f"expected {name} {expected}")
    return Verdict(case, got, decision, tuple(wrong))


def question_of(engine: Engine, case: Case, clients: Mapping[str, Client] | None) -> Question:
    """Return what a case asks.

    Raises:
        CaseError: a caller, target or view that does not exist.
    """
    try:
        principal, target = _principal(case, clients), parse_target(case.call)
    except (ClientError, SelectorError) as error:
        raise CaseError(f"{'who' if isinstance(error, ClientError) else 'call'}: {error}") from None
    if case.view and case.view not in engine.views:
        raise CaseError(f"view: no view is called {case.view!r}")
    target = replace(target, annotations=_plain(case.annotations))
    return Question(principal, target, _plain(case.args), case.view or None, case.at.astimezone(UTC))


def _principal(case: Case, clients: Mapping[str, Client] | None) -> Principal:
    if isinstance(case.who, str):
        return principal_named(case.who, clients)
    # Somebody who is described may be made up.
    known = clients if clients is not None and case.who.id.removeprefix("key:") in clients else None
    principal = principal_named(case.who.id, known)
    return replace(
        principal,
        groups=principal.groups | frozenset(case.who.groups),
        scopes=frozenset(case.who.scopes),
        claims=_plain(case.who.claims),
    )


def _plain(value: dict[str, object]) -> Object:
    """Read what a file says as if a client had sent it."""
    plain = rawjson.decode_value(rawjson.encode(value))
    return plain if isinstance(plain, dict) else {}
