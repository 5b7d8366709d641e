"""An operator can read why somebody sees or may call something (G075)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from gateway.config.policies import Approval, Duplicates, Entry, Limit, Policy
from gateway.config.root import Config, LoadedConfig, View
from gateway.config.types import Rate
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.policy.engine import Engine, Question
from gateway.policy.explain import explain
from gateway.protocol.rawjson import Object

SUNDAY = datetime(2026, 11, 29, 9, tzinfo=UTC)
BOT = Principal("key:ci-bot", "key", "ci-bot")


def lines(*policies: Policy, args: Object | None = None, view: str | None = None) -> list[str]:
    config = Config(policies=list(policies), views={"v": View(include=["wiki/*"])})
    engine = Engine.build(LoadedConfig(config=config, path=Path("x"), digest="00"))
    return explain(engine, Question(BOT, Target(Kind.TOOL, "crm", "export"), args or {}, view, SUNDAY))


def test_every_covering_rule_is_told_with_its_effect() -> None:
    assert lines(
        Policy(name="deny", clients=["*"], deny=["wiki/*", "crm/export", Entry(tools="crm/*", when="args.x == 1")]),
        Policy(name="none", clients=["*"], allow=["wiki/*"]),
        Policy(name="other", clients=["ann"], allow=["crm/*"]),
        Policy(
            name="allow",
            clients=["ci-bot"],
            allow=["crm/*", Entry(tools="crm/*", when="args.x == 2"), Entry(tools="*/export", scopes=["b", "a"])],
        ),
        Policy(name="week", clients=["*"], allow=["crm/*"], hours="Mon-Fri 08:00-18:00"),
        args={"x": 3},
    ) == [
        "tool:crm/export for key:ci-bot",
        "policy deny:",
        "  deny[1] crm/export: denies",
        "  deny[2] crm/*: does not deny: its condition does not hold",
        "policy none: no rule covers it",
        "policy allow:",
        "  allow[0] crm/*: allows",
        "  allow[1] crm/*: does not allow: its condition does not hold",
        "  allow[2] */export: does not allow: lacks scope a b",
        "policy week:",
        "  allow[0] crm/*: does not allow: outside the hours of the policy",
        "hidden",
        "refused by deny deny[1] (deny_rule)",
    ]


def test_errors_of_conditions_are_told() -> None:
    told = lines(
        Policy(
            name="p",
            clients=["*"],
            allow=[Entry(tools="crm/*", when="args.x == 1")],
            deny=[Entry(tools="crm/*", when="args.y == 1")],
        )
    )
    assert "  deny[0] crm/*: denies: its condition cannot be evaluated" in told
    assert "  allow[0] crm/*: does not allow: its condition cannot be evaluated" in told
    assert told[-2:] == ["visible", "refused by p deny[0] (deny_rule)"]


def test_limits_and_shadow_policies_are_told() -> None:
    told = lines(
        Policy(name="p", clients=["*"], allow=["crm/*"], limits=[Limit(rate=Rate(5, 60.0), per=["principal", "tool"])]),
        Policy(name="s", clients=["*"], deny=["crm/*"], mode="shadow"),
    )
    assert "policy s (shadow):" in told
    assert told[-4:] == [
        "visible",
        "allowed by p allow[0] (allow_rule)",
        "limit of p: 5/minute per principal, tool",
        "with policies in shadow in force, s:deny[0] would decide otherwise",
    ]


def test_what_no_policy_says_is_told_too() -> None:
    assert lines()[1:] == ["no policy is in force: everything is allowed", "visible", "allowed (no_policy)"]
    assert "no policy is about this principal" in lines(Policy(name="p", clients=["ann"], allow=["crm/*"]))
    assert lines(view="v")[1] == "view v does not include it"
    assert lines(view="v")[-1] == "refused (not_in_view)"


def test_what_needs_a_persons_yes_is_told() -> None:
    told = lines(
        Policy(
            name="p",
            clients=["*"],
            allow=["any:*/**"],
            approve=[Approval(tools="any:*/**", by=["bob", "alice"]), Approval(tools="any:*/**")],
        )
    )
    assert [line for line in told if "yes" in line] == [
        "needs a person's yes: p approve[0] (of alice, bob)",
        "needs a person's yes: p approve[1]",
    ]


def test_what_is_done_about_the_same_call_again_is_told() -> None:
    told = lines(Policy(name="p", clients=["*"], allow=["crm/*"], duplicates=Duplicates(window=30.0, action="refuse")))
    assert told[-1] == "the same call again within 30 s: refuse (p)"
