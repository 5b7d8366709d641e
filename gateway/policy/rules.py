"""Policies compiled: every text of an operator read once, every fault of it found at load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from gateway.config.policies import Entry, Limit, PayloadMode, Policy
from gateway.errors import Problem
from gateway.model.call import Target
from gateway.policy.conditions import Condition, ConditionError, Facts, compile_condition
from gateway.policy.decision import Approval, Repeat
from gateway.policy.hours import Hours, HoursError, parse_hours
from gateway.policy.limits import AppliedLimit
from gateway.policy.match import ClientError, Who, parse_clients
from gateway.policy.selectors import Selector, SelectorError, any_matches, parse_selector
from gateway.state.gcra import Allowance

S = TypeVar("S")
T = TypeVar("T")

# Least revealing first.
PAYLOAD_ORDER: Final[tuple[PayloadMode, ...]] = ("none", "shape", "shape+hmac", "conditions", "redacted", "full")


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``allow`` or ``deny``; ``id`` is its place, such as ``allow[0]``."""

    id: str
    selector: Selector
    condition: Condition | None = None
    scopes: frozenset[str] = frozenset()

    def covers(self, target: Target) -> bool:
        """Whether the rule is about a target at all."""
        return self.selector.matches(target)

    def truth(self, facts: Facts) -> bool | None:
        """What its condition says: true without one, None for an error."""
        return True if self.condition is None else self.condition.truth(facts)

    @property
    def needs_args(self) -> bool:
        """Whether only a call's arguments can tell."""
        return self.condition is not None and self.condition.mentions_args


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """What needs a person's yes."""

    selector: Selector
    approval: Approval

    def covers(self, target: Target) -> bool:
        """Whether a call of a target needs it."""
        return self.selector.matches(target)


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A limit and what it is for; without selectors, everything."""

    selectors: tuple[Selector, ...]
    limit: AppliedLimit

    def covers(self, target: Target) -> bool:
        """Whether calls of a target are charged."""
        return not self.selectors or any_matches(self.selectors, target)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """One policy, ready to be asked."""

    name: str
    who: Who
    allow: tuple[Rule, ...]
    deny: tuple[Rule, ...]
    limits: tuple[LimitRule, ...]
    hours: Hours
    payload: PayloadMode | None
    redact: tuple[str, ...]
    shadow: bool
    repeat: Repeat | None = None
    approve: tuple[ApprovalRule, ...] = ()

    @property
    def claims(self) -> tuple[str, ...]:
        """The caller's claims that conditions of this policy look at, as far as their names are written out."""
        rules = (*self.allow, *self.deny)
        paths = (path for rule in rules if rule.condition is not None for path in rule.condition.claims)
        return tuple(dict.fromkeys(path[0] for path in paths if path))


def compile_policy(policy: Policy, problems: list[Problem]) -> CompiledPolicy | None:
    """Compile a policy; what is wrong with it is appended to ``problems``, and then there is none."""
    before = len(problems)
    path = f"policies[{policy.name}]"
    who = _read(parse_clients, list(policy.clients), f"{path}.clients", problems)
    hours = _read(parse_hours, policy.hours, f"{path}.hours", problems)
    allow = _rules("allow", policy.allow, path, problems)
    deny = _rules("deny", policy.deny, path, problems)
    groups = who.groups if who is not None else frozenset()
    limits = [_limit(policy.name, index, limit, groups, problems) for index, limit in enumerate(policy.limits)]
    repeat = policy.duplicates
    approve = _approvals(policy, path, problems)
    if who is None or hours is None or len(problems) > before:
        return None
    return CompiledPolicy(
        name=policy.name,
        who=who,
        allow=allow,
        deny=deny,
        limits=_told_apart(limits),
        hours=hours,
        payload=policy.audit.payload,
        redact=tuple(policy.audit.redact),
        shadow=policy.mode == "shadow",
        repeat=Repeat(policy.name, repeat.window, repeat.action) if repeat is not None else None,
        approve=approve,
    )


_FAULTS: Final = (ClientError, ConditionError, HoursError, SelectorError)


def _read(parse: Callable[[S], T], text: S, path: str, problems: list[Problem]) -> T | None:
    try:
        return parse(text)
    except _FAULTS as fault:
        problems.append(Problem(str(fault), path=path))
        return None


def _rules(kind: str, entries: Sequence[str | Entry], path: str, problems: list[Problem]) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for index, entry in enumerate(entries):
        place = f"{kind}[{index}]"
        if isinstance(entry, str):
            selector = _read(parse_selector, entry, f"{path}.{place}", problems)
            condition, scopes = None, frozenset[str]()
        else:
            selector = _read(parse_selector, entry.tools, f"{path}.{place}.tools", problems)
            condition = _read(compile_condition, entry.when, f"{path}.{place}.when", problems) if entry.when else None
            scopes = frozenset(entry.scopes)
        if selector is not None:
            rules.append(Rule(place, selector, condition, scopes))
    return tuple(rules)


def _approvals(policy: Policy, path: str, problems: list[Problem]) -> tuple[ApprovalRule, ...]:
    rules: list[ApprovalRule] = []
    for index, entry in enumerate(policy.approve):
        place = f"approve[{index}]"
        selector = _read(parse_selector, entry.tools, f"{path}.{place}.tools", problems)
        if selector is not None:
            approval = Approval(policy.name, place, frozenset(entry.by or ()), entry.hold, entry.timeout)
            rules.append(ApprovalRule(selector, approval))
    return tuple(rules)


def _limit(policy: str, index: int, limit: Limit, groups: frozenset[str], problems: list[Problem]) -> LimitRule:
    path = f"policies[{policy}].limits[{index}].tools"
    read = [_read(parse_selector, text, f"{path}[{at}]", problems) for at, text in enumerate(limit.tools)]
    selectors = tuple(selector for selector in read if selector is not None)
    allowance = None
    text = f"{limit.concurrency} at once"
    if limit.rate is not None:
        allowance = Allowance(limit.rate.count, limit.rate.seconds, limit.burst or limit.rate.count)
        text = str(limit.rate) + (f", burst {limit.burst}" if limit.burst else "")
    applied = AppliedLimit(
        policy, index, text, tuple(limit.per), allowance, limit.concurrency, groups, tuple(limit.tools)
    )
    return LimitRule(selectors, applied)


def _told_apart(rules: Iterable[LimitRule]) -> tuple[LimitRule, ...]:
    """Number those that say the same of the same tools: each of them counts."""
    seen: Counter[tuple[str, tuple[str, ...], tuple[str, ...]]] = Counter()
    found: list[LimitRule] = []
    for rule in rules:
        says = (rule.limit.text, rule.limit.per, rule.limit.tools)
        found.append(replace(rule, limit=replace(rule.limit, twin=seen[says])))
        seen[says] += 1
    return tuple(found)
