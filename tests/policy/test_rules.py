"""Every fault of a policy is found when it is compiled, with the place it stands at."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway.config.policies import Approval, Duplicates, Entry, Limit, Policy, PolicyAudit
from gateway.config.types import Rate
from gateway.errors import Problem
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS
from gateway.policy import decision
from gateway.policy.conditions import Facts
from gateway.policy.decision import Repeat
from gateway.policy.rules import CompiledPolicy, compile_policy
from gateway.state.gcra import Allowance

QUERY = Target(Kind.TOOL, "warehouse", "query")


def compiled(policy: Policy) -> CompiledPolicy:
    problems: list[Problem] = []
    result = compile_policy(policy, problems)
    assert problems == []
    assert result is not None
    return result


def test_a_policy_keeps_its_rules_with_their_places() -> None:
    policy = compiled(
        Policy(
            name="p",
            clients=["group:analysts", "ci-bot"],
            allow=["wiki/*", Entry(tools="warehouse/query", when="args.limit <= 10", scopes=["crm.write"])],
            deny=["*/delete_*"],
            hours="Mon-Fri 08:00-18:00 Europe/Berlin",
            audit=PolicyAudit(payload="redacted", redact=["/password"]),
            mode="shadow",
        )
    )
    assert [rule.id for rule in (*policy.allow, *policy.deny)] == ["allow[0]", "allow[1]", "deny[0]"]
    assert [rule.covers(QUERY) for rule in policy.allow] == [False, True]
    assert [rule.needs_args for rule in policy.allow] == [False, True]
    assert policy.allow[1].scopes == {"crm.write"}
    assert policy.who.groups == {"analysts"}
    assert (policy.payload, policy.redact, policy.shadow) == ("redacted", ("/password",), True)


def test_a_rule_without_a_condition_is_true() -> None:
    policy = compiled(Policy(name="p", clients=["*"], allow=["a/*", Entry(tools="a/*", when="args.x == 1")]))
    now = datetime(2026, 11, 30, tzinfo=UTC)
    facts = Facts(ANONYMOUS, QUERY, {"x": 2}, None, now)
    assert [rule.truth(facts) for rule in policy.allow] == [True, False]


def test_limits_are_read_with_their_defaults() -> None:
    policy = compiled(
        Policy(
            name="p",
            clients=["group:a", "group:b"],
            limits=[
                Limit(rate=Rate(60, 60.0), burst=20),
                Limit(rate=Rate(5, 60.0), tools=["warehouse/query"], per=["principal", "tool"]),
                Limit(concurrency=4),
            ],
        )
    )
    first, second, third = policy.limits
    assert first.limit.allowance == Allowance(60, 60.0, 20)
    assert first.limit.text == "60/minute, burst 20"
    assert first.limit.per == ("principal",)
    assert first.limit.groups == {"a", "b"}
    assert second.limit.allowance == Allowance(5, 60.0, 5)
    assert (second.limit.text, second.limit.index, second.limit.tools) == ("5/minute", 1, ("warehouse/query",))
    assert (third.limit.concurrency, third.limit.allowance, third.limit.text) == (4, None, "4 at once")
    other = Target(Kind.TOOL, "wiki", "query")
    assert [rule.covers(QUERY) for rule in policy.limits] == [True, True, True]
    assert [rule.covers(other) for rule in policy.limits] == [True, False, True]


def test_a_limit_says_where_it_stands_and_equal_ones_are_told_apart() -> None:
    slow, wiki = Limit(rate=Rate(5, 60.0)), Limit(rate=Rate(5, 60.0), tools=["wiki/*"])
    made = compiled(Policy(name="p", clients=["*"], limits=[slow, wiki, slow, Limit(concurrency=4)])).limits
    assert [(rule.limit.index, rule.limit.twin) for rule in made] == [(0, 0), (1, 0), (2, 1), (3, 0)]


def test_all_faults_are_told_with_their_places() -> None:
    problems: list[Problem] = []
    policy = Policy(
        name="bad",
        clients=["group:"],
        allow=["wiki", Entry(tools="wiki/x", when="args.x =")],
        deny=[Entry(tools="tool:wiki/x", when="tool.nmae == 'x'")],
        limits=[Limit(concurrency=1, tools=["wiki/*", "x"])],
        hours="sometimes",
    )
    assert compile_policy(policy, problems) is None
    assert [problem.path for problem in problems] == [
        "policies[bad].clients",
        "policies[bad].hours",
        "policies[bad].allow[0]",
        "policies[bad].allow[1].when",
        "policies[bad].deny[0].tools",
        "policies[bad].deny[0].when",
        "policies[bad].limits[0].tools[1]",
    ]
    assert all(problem.message for problem in problems)


def test_one_bad_limit_is_enough_to_refuse_a_policy() -> None:
    problems: list[Problem] = []
    policy = Policy(name="bad", clients=["*"], limits=[Limit(concurrency=1, tools=["x"])])
    assert compile_policy(policy, problems) is None
    assert len(problems) == 1


def test_claims_of_conditions_and_what_is_done_about_repeats_are_known_of_a_policy() -> None:
    when = "principal.claims.dept == 'x' && has(principal.claims.level.max)"
    made = Policy(
        name="p",
        clients=["*"],
        allow=[Entry(tools="a/*", when=when)],
        deny=[Entry(tools="a/x", when="principal.claims.dept != 'y'"), "a/y"],
        duplicates=Duplicates(window=5.0, action="refuse"),
    )
    policy = compiled(made)
    assert policy.claims == ("dept", "level")
    assert policy.repeat == Repeat("p", 5.0, "refuse")


def test_what_needs_a_yes_keeps_its_place_and_its_people() -> None:
    policy = compiled(
        Policy(
            name="p",
            clients=["*"],
            approve=[
                Approval(tools="warehouse/*", by=["alice", "bob"], hold=5.0, timeout=60.0),
                Approval(tools="any:crm/**"),
            ],
        )
    )
    first, second = policy.approve
    assert first.approval == decision.Approval("p", "approve[0]", frozenset({"alice", "bob"}), 5.0, 60.0)
    assert second.approval == decision.Approval("p", "approve[1]")
    assert (first.covers(QUERY), second.covers(QUERY)) == (True, False)


def test_a_selector_that_cannot_be_read_is_found_in_approve_too() -> None:
    problems: list[Problem] = []
    assert compile_policy(Policy(name="p", clients=["*"], approve=[Approval(tools="nothing")]), problems) is None
    assert [problem.path for problem in problems] == ["policies[p].approve[0].tools"]
