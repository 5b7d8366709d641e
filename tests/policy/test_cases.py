"""Cases say what the policies decide, and where that is not what their author expected."""

from __future__ import annotations

import pytest

from gateway.config.access import Client
from gateway.config.cases import Case
from gateway.policy.cases import CaseError, judge_case
from gateway.policy.engine import Engine
from tests.kit.configs import loaded

CLIENTS = {"ann": Client(groups=["analysts"])}
ENGINE = Engine.build(
    loaded(
        {
            "policies": [
                {
                    "name": "p",
                    "clients": ["group:analysts"],
                    "allow": [
                        "a/*",
                        {"tools": "b/q", "when": "args.n < 5 && principal.claims.dept == 'x'"},
                        "prompt:a/*",
                    ],
                    "deny": ["a/drop", {"tools": "a/*", "when": "tool.annotations.destructiveHint == true"}],
                    "hours": "Mon 08:00-18:00 UTC",
                },
            ],
            "views": {"small": {"include": ["a/one"]}},
        }
    )
)


def case(**members: object) -> Case:
    return Case.model_validate({"who": "ann", "expect": "allow", **members})


@pytest.mark.parametrize(
    ("made", "got"),
    [
        (case(call="a/x", annotations={"destructiveHint": False}), "allow"),
        (case(call="a/x"), "hidden"),
        (case(call="prompt:a/x"), "allow"),
        (case(call="a/drop", annotations={"destructiveHint": False}), "hidden"),
        (case(call="b/q", args={"n": 1}, who={"groups": ["analysts"], "claims": {"dept": "x"}}), "allow"),
        (case(call="b/q", args={"n": 9}, who={"groups": ["analysts"], "claims": {"dept": "x"}}), "deny"),
        (case(call="b/q", args={"n": 1}, who={"id": "ann", "claims": {"dept": "x"}}), "allow"),
        (case(call="prompt:a/x", who={"groups": ["others"]}), "hidden"),
        (case(call="prompt:a/x", who="anonymous"), "hidden"),
        (case(call="prompt:a/x", at="2026-01-05T07:59:59Z"), "deny"),
        (case(call="prompt:a/x", view="small"), "hidden"),
        (case(call="a/one", view="small", annotations={"destructiveHint": False}), "allow"),
    ],
)
def test_a_case_is_decided_like_a_call(made: Case, got: str) -> None:
    verdict = judge_case(ENGINE, made, CLIENTS)
    assert verdict.got == got
    assert verdict.ok is (got == "allow")


def test_deny_holds_for_what_is_hidden_too_and_hidden_only_for_that() -> None:
    hidden, refused = {"call": "a/drop"}, {"call": "prompt:a/x", "at": "2026-01-06T12:00:00Z"}
    assert judge_case(ENGINE, case(**hidden, expect="deny"), CLIENTS).ok
    assert judge_case(ENGINE, case(**hidden, expect="hidden"), CLIENTS).ok
    assert judge_case(ENGINE, case(**refused, expect="deny"), CLIENTS).ok
    assert judge_case(ENGINE, case(**refused, expect="hidden"), CLIENTS).wrong == ("expected hidden",)


def test_a_case_may_say_which_rule_decides_and_why() -> None:
    right = case(call="a/drop", expect="hidden", policy="p", rule="deny[0]", reason="deny_rule")
    assert judge_case(ENGINE, right, CLIENTS).ok
    wrong = case(call="a/drop", expect="hidden", policy="q", rule="deny[1]", reason="hours")
    assert judge_case(ENGINE, wrong, CLIENTS).wrong == (
        "expected policy q",
        "expected rule deny[1]",
        "expected reason hours",
    )


def test_what_waits_for_a_person_is_not_allowed_at_once() -> None:
    approve = [{"tools": "a/x", "by": ["alice"]}]
    policy = {"name": "p", "clients": ["*"], "allow": ["a/*"], "approve": approve}
    engine = Engine.build(loaded({"policies": [policy], "admin": {"users": {"alice": {"token_sha256": "0" * 64}}}}))
    assert judge_case(engine, case(call="a/x", expect="approve"), None).ok
    assert judge_case(engine, case(call="a/x"), None).got == "approve"
    assert judge_case(engine, case(call="a/y"), None).ok


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (case(call="a/x", who="nobody"), 'who: no client "nobody" is configured'),
        (case(call="a/x", who="group:x"), "who: "),
        (case(call="x"), "call: needs a server"),
        (case(call="any:a/x"), "call: starts with"),
        (case(call="a/x", view="none"), "view: no view is called 'none'"),
    ],
)
def test_a_case_about_nobody_or_nothing_is_an_error(made: Case, why: str) -> None:
    with pytest.raises(CaseError, match=why):
        judge_case(ENGINE, made, CLIENTS)
