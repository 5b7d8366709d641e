"""Which rules can match nothing: a rule that never matches is worse than none, for its author believes in it (G074)."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from gateway.errors import Problem
from gateway.model.call import Beyond, Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.policy.engine import Engine
from gateway.policy.selectors import Selector


def dead_rules(engine: Engine, targets: Collection[Target], unlisted: Collection[str]) -> list[Problem]:
    """Return the rules that match nothing the servers offer, each with the nearest name that is offered.

    A rule that covers one of the ``unlisted`` servers, whose lists are not known, is not judged.
    """
    problems: list[Problem] = []
    for path, selector in _selectors(engine):
        if _may_match(selector, targets, unlisted):
            continue
        problems.append(Problem(f"{selector.text} matches nothing", path=path, hint=_nearest(selector, targets)))
    return problems


def sees_nothing(engine: Engine, principal: Principal, targets: Collection[Target]) -> bool:
    """Whether a principal would be shown empty lists although something is offered (G075)."""
    return bool(targets) and not any(engine.visible(principal, target, None) for target in targets)


def _selectors(engine: Engine) -> Iterator[tuple[str, Selector]]:
    for policy in engine.policies:
        for rule in (*policy.allow, *policy.deny):
            yield f"policies[{policy.name}].{rule.id}", rule.selector
        for wanted in policy.approve:
            yield f"policies[{policy.name}].{wanted.approval.rule}.tools", wanted.selector
        for limit in policy.limits:
            for index, selector in enumerate(limit.selectors):
                yield f"policies[{policy.name}].limits[{limit.limit.index}].tools[{index}]", selector
    for view, selectors in engine.views.items():
        for index, selector in enumerate(selectors):
            yield f"views.{view}.include[{index}]", selector


def _may_match(selector: Selector, targets: Collection[Target], unlisted: Collection[str]) -> bool:
    if any(selector.server(server) for server in unlisted):
        return True
    for target in targets:
        if selector.matches(target):
            return True
        # What methods an extension has is not known, what a template expands to only when it is read.
        if target.kind is Beyond.METHOD and target.kind in selector.kinds and selector.server(target.server):
            return True
        if target.kind is Kind.TEMPLATE and Kind.RESOURCE in selector.kinds and selector.server(target.server):
            return True
    return False


def _nearest(selector: Selector, targets: Collection[Target]) -> str:
    # No server's name has a colon.
    head, slash, name = selector.text.partition("/")
    wanted = head.rpartition(":")[2] + slash + name
    known = {f"{target.server}/{target.name}" for target in targets if target.kind in selector.kinds and target.name}
    close = difflib.get_close_matches(wanted, known, n=1)
    return f"did you mean {close[0]}?" if close else ""
