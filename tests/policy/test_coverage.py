"""Rules that match nothing and principals that see nothing are found before anybody wonders (G074, G075)."""

from __future__ import annotations

from pathlib import Path

from gateway.config.policies import Approval, Entry, Limit, Policy
from gateway.config.root import Config, LoadedConfig, View
from gateway.model.call import Beyond, Target
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS, Principal
from gateway.policy.coverage import dead_rules, sees_nothing
from gateway.policy.engine import Engine

OFFERED = [
    Target(Kind.TOOL, "wiki", "search"),
    Target(Kind.TOOL, "wiki", "read_page"),
    Target(Kind.PROMPT, "wiki", "summarise"),
    Target(Kind.TEMPLATE, "files", "file:///docs/{path}"),
]


def engine(*policies: Policy, views: dict[str, View] | None = None) -> Engine:
    config = Config(policies=list(policies), views=views or {})
    return Engine.build(LoadedConfig(config=config, path=Path("x"), digest="00"))


def test_rules_that_match_nothing_are_told_with_the_nearest_name() -> None:
    rules = engine(
        Policy(
            name="p",
            clients=["*"],
            allow=["wiki/search", "wiki/serach", Entry(tools="prompt:wiki/summarize", when="view == ''"), "wiki/r*"],
            deny=["*/delete_*"],
            limits=[Limit(concurrency=1, tools=["wiki/search", "crm/*"])],
        ),
        views={"v": View(include=["any:wiki/*", "resource:wiki/**"])},
    )
    assert [(problem.path, problem.hint) for problem in dead_rules(rules, OFFERED, [])] == [
        ("policies[p].allow[1]", "did you mean wiki/search?"),
        ("policies[p].allow[2]", "did you mean wiki/summarise?"),
        ("policies[p].deny[0]", ""),
        ("policies[p].limits[0].tools[1]", ""),
        ("views.v.include[1]", ""),
    ]


def test_what_needs_a_yes_and_what_is_no_tool_is_judged_too() -> None:
    """G074."""
    wanted = [Approval(tools="wiki/serach"), Approval(tools="wiki/read_*")]
    listed = [*OFFERED, Target(Kind.RESOURCE, "files", "file:///srv/a.md")]
    names: list[str | Entry] = ["resource:files/file:///srv/b.md", "any:wiki/summarize", "prompt:files/*"]
    rules = engine(Policy(name="p", clients=["*"], allow=names, approve=wanted))
    without_templates = [target for target in listed if target.kind is not Kind.TEMPLATE]
    assert [(problem.path, problem.hint) for problem in dead_rules(rules, without_templates, [])] == [
        ("policies[p].allow[0]", "did you mean files/file:///srv/a.md?"),
        ("policies[p].allow[1]", "did you mean wiki/summarise?"),
        ("policies[p].allow[2]", ""),
        ("policies[p].approve[0].tools", "did you mean wiki/search?"),
    ]


def test_a_rule_about_a_server_that_was_never_listed_is_not_judged() -> None:
    rules = engine(Policy(name="p", clients=["*"], allow=["crm/x"], deny=["*/delete_*"]))
    assert dead_rules(rules, OFFERED, ["crm"]) == []


def test_a_rule_about_what_a_template_may_expand_to_is_alive() -> None:
    rules = engine(Policy(name="p", clients=["*"], allow=["resource:files/file:///docs/public/*"]))
    assert dead_rules(rules, OFFERED, []) == []


def test_a_rule_about_methods_of_a_server_that_may_have_some_is_alive() -> None:
    rules = engine(Policy(name="p", clients=["*"], allow=["any:wiki/search/run", "any:other/x/y", "wiki/x/y"]))
    found = dead_rules(rules, [*OFFERED, Target(Beyond.METHOD, "wiki", "")], [])
    assert [problem.path for problem in found] == ["policies[p].allow[1]", "policies[p].allow[2]"]


def test_a_principal_that_sees_nothing_is_noticed() -> None:
    rules = engine(Policy(name="p", clients=["ci-bot"], allow=["wiki/*"]))
    assert not sees_nothing(rules, Principal("key:ci-bot", "key", "ci-bot"), OFFERED)
    assert sees_nothing(rules, ANONYMOUS, OFFERED)
    assert not sees_nothing(rules, ANONYMOUS, [])
