"""The policies of one config: one object answers what may be seen and what may be called (contract, policies).

Deny wins over allow at any level; without an allow there is deny. Annotations and conditions can narrow a rule, never
widen it: an error keeps an allow from matching and makes a deny match (S57, S58, S73).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from gateway.config.policies import PayloadMode
from gateway.config.root import LoadedConfig
from gateway.errors import ConfigError, Problem
from gateway.model.call import Target
from gateway.model.principal import Principal
from gateway.policy.conditions import Facts
from gateway.policy.decision import (
    ALLOW_RULE,
    CONDITION,
    DEFAULT_DENY,
    DENY_RULE,
    HOURS,
    NO_POLICY,
    NO_TARGET,
    SCOPE,
    VIEW,
    Approval,
    Decision,
    Question,
    Verdict,
)
from gateway.policy.reads import Path
from gateway.policy.rules import PAYLOAD_ORDER, CompiledPolicy, Rule, compile_policy
from gateway.policy.selectors import Selector, SelectorError, any_matches, parse_selector

_MAX_REMEMBERED: Final = 1_024

__all__ = ["Decision", "Engine", "Question"]


def utc_now() -> datetime:
    """Return the wall clock."""
    return datetime.now(UTC)


class Engine:
    """Compiled policies and views. Pure but for a clock, which lists need where a condition asks for ``now``."""

    def __init__(
        self,
        policies: Iterable[CompiledPolicy],
        views: Mapping[str, tuple[Selector, ...]],
        payload: PayloadMode,
        wall_clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.policies = tuple(policies)
        self.default_deny = any(not policy.shadow for policy in self.policies)
        """Whether any policy is in force; without one everything is allowed."""
        self.views = views
        self._payload = payload
        self._wall_clock = wall_clock
        self._remembered: dict[tuple[str, frozenset[str], frozenset[str]], tuple[CompiledPolicy, ...]] = {}

    @classmethod
    def build(cls, loaded: LoadedConfig, wall_clock: Callable[[], datetime] = utc_now) -> Engine:
        """Compile the policies and views of a config.

        Raises:
            ConfigError: a selector, condition, client or hours cannot be read; it lists all of them.
        """
        problems: list[Problem] = []
        compiled = [compile_policy(policy, problems) for policy in loaded.config.policies]
        views = {name: _view(name, view.include, problems) for name, view in loaded.config.views.items()}
        if problems:
            raise ConfigError(problems)
        policies = [policy for policy in compiled if policy is not None]
        return cls(policies, views, loaded.config.audit.payload, wall_clock)

    def visible(self, principal: Principal, target: Target, view: str | None, now: datetime | None = None) -> bool:
        """Whether a target may be listed, and called unless arguments or hours speak against it.

        What is not visible is answered like what does not exist.
        """
        if not self.in_view(view, target):
            return False
        if not self.default_deny:
            return True
        facts = Facts(principal, target, None, view, now or self._wall_clock())
        mine = [policy for policy in self.about(principal) if not policy.shadow]
        for policy in mine:
            if any(
                rule.covers(target) and not rule.needs_args and rule.truth(facts) is not False for rule in policy.deny
            ):
                return False
        return any(
            rule.covers(target) and (rule.needs_args or rule.truth(facts) is True)
            for policy in mine
            for rule in policy.allow
        )

    def decide(self, question: Question) -> Decision:
        """Decide a call, with what to charge and what to keep of it."""
        target = question.target
        facts = Facts(question.principal, target, question.args, question.view, question.now)
        about = self.about(question.principal)
        mine = [policy for policy in about if not policy.shadow]
        if not target.server:
            verdict = Verdict(True, "", "", NO_TARGET)
        elif not self.in_view(question.view, target):
            verdict = Verdict(False, "", "", VIEW)
        else:
            verdict = judge(mine, facts) if self.default_deny else Verdict(True, "", "", NO_POLICY)
        limits = tuple(rule.limit for policy in mine for rule in policy.limits if rule.covers(target))
        payload = min(
            (policy.payload for policy in mine if policy.payload), key=PAYLOAD_ORDER.index, default=self._payload
        )
        return Decision(
            allowed=verdict.allowed,
            policy=verdict.policy,
            rule=verdict.rule,
            reason=verdict.reason,
            limits=limits if verdict.allowed else (),
            payload=payload,
            reads=_reads(about, target) if payload == "conditions" else (),
            redact=tuple(dict.fromkeys(pointer for policy in mine for pointer in policy.redact)),
            shadow=(*self._shadow(about, facts, verdict), *_shadow_approvals(about, target, verdict)),
            scopes=verdict.scopes,
            claims=tuple(dict.fromkeys(name for policy in about for name in policy.claims)),
            repeats=tuple(policy.repeat for policy in mine if policy.repeat) if verdict.allowed else (),
            approvals=_approvals(mine, target) if verdict.allowed else (),
        )

    def _shadow(self, about: tuple[CompiledPolicy, ...], facts: Facts, actual: Verdict) -> tuple[str, ...]:
        """Name what would decide otherwise if every policy in shadow were in force."""
        if actual.reason in (VIEW, NO_TARGET) or not any(policy.shadow for policy in self.policies):
            return ()
        other = judge(about, facts)
        if other.allowed == actual.allowed:
            return ()
        return (f"{other.policy}:{other.rule}",) if other.policy else (other.reason,)

    def about(self, principal: Principal) -> tuple[CompiledPolicy, ...]:
        """Return the policies that are about a principal, in the order they are written."""
        key = (principal.id, principal.groups, principal.scopes)
        found = self._remembered.get(key)
        if found is None:
            found = tuple(policy for policy in self.policies if policy.who.matches(principal))
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def in_view(self, view: str | None, target: Target) -> bool:
        """Whether a target is part of a view; everything is part of none, nothing of an unknown one."""
        return view is None or any_matches(self.views.get(view, ()), target)


def _approvals(policies: Iterable[CompiledPolicy], target: Target) -> tuple[Approval, ...]:
    """Return every yes that a call needs; ``hours`` lift none."""
    return tuple(rule.approval for policy in policies for rule in policy.approve if rule.covers(target))


def _shadow_approvals(about: Iterable[CompiledPolicy], target: Target, actual: Verdict) -> tuple[str, ...]:
    """Name the rules in shadow that would have a person asked."""
    found = _approvals((policy for policy in about if policy.shadow), target) if actual.allowed else ()
    return tuple(f"{each.policy}:{each.rule}" for each in found)


def judge(policies: Iterable[CompiledPolicy], facts: Facts) -> Verdict:
    """Apply steps 2 and 3 of the algorithm to policies that are about the caller."""
    policies = tuple(policies)
    for policy in policies:
        for rule in policy.deny:
            if rule.covers(facts.target) and rule.truth(facts) is not False:
                return Verdict(False, policy.name, rule.id, DENY_RULE)
    missed = Verdict(False, "", "", DEFAULT_DENY)
    for policy in policies:
        for rule in policy.allow:
            if not rule.covers(facts.target):
                continue
            verdict = _allow(policy, rule, facts)
            if verdict.allowed:
                return verdict
            missed = _nearer(missed, verdict)
    return missed


def _reads(policies: Iterable[CompiledPolicy], target: Target) -> tuple[Path, ...]:
    """Return the arguments that any rule about a target looks at, those of policies in shadow too, each once."""
    rules = (rule for policy in policies for rule in (*policy.deny, *policy.allow) if rule.covers(target))
    found = dict.fromkeys(path for rule in rules if rule.condition is not None for path in rule.condition.reads)
    return tuple(path for path in found if not any(path[:size] in found for size in range(len(path))))


def _allow(policy: CompiledPolicy, rule: Rule, facts: Facts) -> Verdict:
    """Say whether an allow rule that covers the target also matches, and if not, why."""
    if not rule.scopes <= facts.principal.scopes:
        return Verdict(False, policy.name, rule.id, SCOPE, rule.scopes)
    if not policy.hours.hold(facts.now):
        return Verdict(False, policy.name, rule.id, HOURS)
    if rule.truth(facts) is not True:
        return Verdict(False, policy.name, rule.id, CONDITION)
    return Verdict(True, policy.name, rule.id, ALLOW_RULE)


def _nearer(one: Verdict, other: Verdict) -> Verdict:
    """Keep the refusal that tells the caller most: first scopes, which can be asked for, then whatever came first."""
    if other.reason == SCOPE and one.reason != SCOPE:
        return other
    return other if one.reason == DEFAULT_DENY else one


def _view(name: str, include: Iterable[str], problems: list[Problem]) -> tuple[Selector, ...]:
    selectors: list[Selector] = []
    for index, text in enumerate(include):
        try:
            selectors.append(parse_selector(text))
        except SelectorError as fault:
            problems.append(Problem(str(fault), path=f"views.{name}.include[{index}]"))
    return tuple(selectors)
