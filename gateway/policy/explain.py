"""Why somebody sees or may call something, in lines a person can read: for the operator alone."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.policy.conditions import Facts
from gateway.policy.decision import Approval, Question
from gateway.policy.engine import Engine
from gateway.policy.rules import CompiledPolicy, Rule


def explain(engine: Engine, question: Question) -> list[str]:
    """Return every policy that is about the principal with each of its rules that covers the target, then the end.

    The rules are told as they stand for the question's arguments.
    """
    principal, target, view = question.principal, question.target, question.view
    name = f"{target.kind}:{target.server}/{target.name}"
    facts = Facts(principal, target, question.args, view, question.now)
    lines = [f"{name} for {principal.id}"]
    if not engine.in_view(view, target):
        lines.append(f"view {view} does not include it")
    if not engine.default_deny:
        lines.append("no policy is in force: everything is allowed")
    about = engine.about(principal)
    if engine.policies and not about:
        lines.append("no policy is about this principal")
    for policy in about:
        lines.extend(_policy(policy, facts))
    visible = engine.visible(principal, target, view, question.now)
    decision = engine.decide(question)
    rule = f" by {decision.policy} {decision.rule}" if decision.policy else ""
    lines.append("visible" if visible else "hidden")
    lines.append(f"{'allowed' if decision.allowed else 'refused'}{rule} ({decision.reason})")
    lines.extend(f"limit of {limit.policy}: {limit.text} per {', '.join(limit.per)}" for limit in decision.limits)
    lines.extend(f"needs a person's yes: {each.policy} {each.rule}{_whose(each)}" for each in decision.approvals)
    lines.extend(
        f"the same call again within {each.window:g} s: {each.action} ({each.policy})" for each in decision.repeats
    )
    lines.extend(f"with policies in shadow in force, {each} would decide otherwise" for each in decision.shadow)
    return lines


def _whose(approval: Approval) -> str:
    return f" (of {', '.join(sorted(approval.by))})" if approval.by else ""


def _policy(policy: CompiledPolicy, facts: Facts) -> Iterator[str]:
    title = f"policy {policy.name}" + (" (shadow)" if policy.shadow else "")
    rules = [(kind, rule) for kind, rules in (("deny", policy.deny), ("allow", policy.allow)) for rule in rules]
    covering = [(kind, rule) for kind, rule in rules if rule.covers(facts.target)]
    if not covering:
        yield f"{title}: no rule covers it"
        return
    yield f"{title}:"
    for kind, rule in covering:
        yield f"  {rule.id} {rule.selector.text}: {_effect(kind, rule, policy, facts)}"


def _effect(kind: str, rule: Rule, policy: CompiledPolicy, facts: Facts) -> str:
    truth = rule.truth(facts)
    if kind == "deny":
        why = {True: "", False: ": its condition does not hold", None: ": its condition cannot be evaluated"}
        return ("does not deny" if truth is False else "denies") + why[truth]
    if not policy.hours.hold(facts.now):
        return "does not allow: outside the hours of the policy"
    if truth is not True:
        return "does not allow: its condition " + ("does not hold" if truth is False else "cannot be evaluated")
    lacking = sorted(rule.scopes - facts.principal.scopes)
    return f"does not allow: lacks scope {' '.join(lacking)}" if lacking else "allows"
