"""The algorithm of the contract: deny wins, no allow means deny, and what is listed is what can be called."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.access import Client
from gateway.config.policies import Approval, Entry, Limit, PayloadMode, Policy, PolicyAudit
from gateway.config.root import Audit, Config, LoadedConfig, View
from gateway.config.types import Rate
from gateway.errors import ConfigError
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import ANONYMOUS, Principal
from gateway.policy import decision
from gateway.policy.engine import Decision, Engine, Question
from gateway.protocol.rawjson import Object

MONDAY = datetime(2026, 11, 30, 9, tzinfo=UTC)
SUNDAY = datetime(2026, 11, 29, 9, tzinfo=UTC)
BOT = Principal("key:ci-bot", "key", "ci-bot", groups=frozenset({"automation"}))
ANALYST = Principal("key:ann", "key", "ann", groups=frozenset({"analysts"}))


def load(*policies: Policy, views: dict[str, View] | None = None, payload: PayloadMode = "shape+hmac") -> LoadedConfig:
    config = Config(
        clients={"ci-bot": Client(), "ann": Client()},
        policies=list(policies),
        views=views or {},
        audit=Audit(payload=payload),
    )
    return LoadedConfig(config=config, path=Path("gateway.yaml"), digest="00")


def engine(*policies: Policy, views: dict[str, View] | None = None, payload: PayloadMode = "shape+hmac") -> Engine:
    return Engine.build(load(*policies, views=views, payload=payload), lambda: MONDAY)


def tool(name: str, annotations: Object | None = None) -> Target:
    server, _, own = name.partition("/")
    return Target(Kind.TOOL, server, own, annotations or {})


def ask(
    rules: Engine,
    target: str | Target,
    who: Principal = BOT,
    args: Object | None = None,
    *,
    view: str | None = None,
    now: datetime = MONDAY,
) -> Decision:
    meant = tool(target) if isinstance(target, str) else target
    return rules.decide(Question(who, meant, args or {}, view, now))


def verdict(decision: Decision) -> tuple[bool, str, str, str]:
    return decision.allowed, decision.policy, decision.rule, decision.reason


def sees(rules: Engine, name: str, who: Principal = BOT) -> bool:
    return rules.visible(who, tool(name), None)


def test_without_a_policy_in_force_everybody_authenticated_may_call_everything() -> None:
    assert verdict(ask(engine(), "wiki/search")) == (True, "", "", "no_policy")
    assert sees(engine(), "wiki/search")
    shadow = Policy(name="p", clients=["ci-bot"], deny=["wiki/*"], mode="shadow")
    assert ask(engine(shadow), "wiki/search").allowed
    assert sees(engine(shadow), "wiki/search")


def test_any_policy_in_force_makes_deny_the_default_for_everything() -> None:
    """S57, also for those the policy is not about."""
    rules = engine(Policy(name="p", clients=["ann"], allow=["wiki/search"]))
    assert verdict(ask(rules, "wiki/search", ANALYST)) == (True, "p", "allow[0]", "allow_rule")
    assert verdict(ask(rules, "wiki/search", BOT)) == (False, "", "", "default_deny")
    for kind in Kind:
        other = Target(kind, "wiki", "other")
        assert not rules.visible(ANALYST, other, None)
        assert ask(rules, other, ANALYST).reason == "default_deny"


def test_a_policy_of_denies_alone_allows_nothing() -> None:
    """G073: documented, and tested both ways."""
    rules = engine(Policy(name="p", clients=["*"], deny=["wiki/delete"]))
    assert not ask(rules, "wiki/search").allowed
    both = engine(
        Policy(name="p", clients=["*"], deny=["wiki/delete"]), Policy(name="all", clients=["*"], allow=["any:*/*"])
    )
    assert ask(both, "wiki/search").allowed
    assert verdict(ask(both, "wiki/delete")) == (False, "p", "deny[0]", "deny_rule")


def test_deny_wins_over_any_allow_in_any_order() -> None:
    """S58."""
    allow = Policy(name="a", clients=["ci-bot"], allow=["a/*", "a/drop"])
    deny = Policy(name="d", clients=["group:automation"], deny=["a/drop"])
    for rules in (engine(allow, deny), engine(deny, allow)):
        assert ask(rules, "a/read").allowed
        assert verdict(ask(rules, "a/drop")) == (False, "d", "deny[0]", "deny_rule")
        assert not sees(rules, "a/drop")


def test_anonymous_must_be_named() -> None:
    everybody = Policy(name="p", clients=["*"], allow=["wiki/*"])
    assert not ask(engine(everybody), "wiki/search", ANONYMOUS).allowed
    assert ask(engine(everybody), "wiki/search", BOT).allowed
    named = Policy(name="q", clients=["anonymous"], allow=["wiki/search"])
    assert ask(engine(everybody, named), "wiki/search", ANONYMOUS).allowed
    assert not ask(engine(everybody, named), "wiki/other", ANONYMOUS).allowed


def test_conditions_on_arguments_leave_a_tool_listed_and_decide_the_call() -> None:
    rules = engine(
        Policy(
            name="p",
            clients=["*"],
            allow=[Entry(tools="warehouse/query", when="args.limit <= 1000"), "files/*"],
            deny=[Entry(tools="files/*", when="args.path.startsWith('/etc')")],
        )
    )
    assert sees(rules, "warehouse/query")
    assert ask(rules, "warehouse/query", args={"limit": 10}).allowed
    assert verdict(ask(rules, "warehouse/query", args={"limit": 5000})) == (False, "p", "allow[0]", "condition")
    assert sees(rules, "files/read")
    assert ask(rules, "files/read", args={"path": "/srv/x"}).allowed
    assert verdict(ask(rules, "files/read", args={"path": "/etc/passwd"})) == (False, "p", "deny[0]", "deny_rule")


@pytest.mark.parametrize("args", [{}, {"limit": "1"}, {"limit": None}, {"limit": [1]}])
def test_an_error_in_a_condition_keeps_an_allow_from_matching_and_makes_a_deny_match(args: Object) -> None:
    allow = engine(Policy(name="p", clients=["*"], allow=[Entry(tools="a/x", when="args.limit <= 1000")]))
    assert not ask(allow, "a/x", args=args).allowed
    deny = engine(Policy(name="p", clients=["*"], allow=["a/*"], deny=[Entry(tools="a/x", when="args.limit > 1000")]))
    assert verdict(ask(deny, "a/x", args=args)) == (False, "p", "deny[0]", "deny_rule")


def test_conditions_without_arguments_decide_what_is_listed() -> None:
    rules = engine(
        Policy(
            name="p",
            clients=["*"],
            allow=[
                Entry(tools="crm/*", when="'analysts' in principal.groups"),
                Entry(tools="wiki/*", when="view == ''"),
            ],
            deny=[
                Entry(tools="crm/export", when="now.getHours() >= 9"),
                Entry(tools="crm/e", when="principal.claims.x == 1"),
            ],
        )
    )
    assert sees(rules, "crm/read", ANALYST)
    assert not sees(rules, "crm/read", BOT)
    assert not sees(rules, "crm/export", ANALYST)
    assert rules.visible(ANALYST, tool("crm/export"), None, datetime(2026, 11, 30, 8, tzinfo=UTC))
    assert not sees(rules, "crm/e", ANALYST)


def test_annotations_narrow_and_never_widen() -> None:
    """S73: a server's own claim cannot lift a deny."""
    rules = engine(
        Policy(
            name="p",
            clients=["*"],
            allow=[Entry(tools="db/*", when="tool.annotations.readOnlyHint")],
            deny=["*/write_*"],
        )
    )
    assert ask(rules, tool("db/read", {"readOnlyHint": True})).allowed
    assert not ask(rules, tool("db/read", {"readOnlyHint": False})).allowed
    assert not ask(rules, tool("db/read", {"readOnlyHint": "true"})).allowed
    assert not ask(rules, tool("db/read")).allowed
    assert not ask(rules, tool("db/write_x", {"readOnlyHint": True})).allowed


def test_hours_leave_a_tool_listed_and_never_lift_a_deny() -> None:
    rules = engine(
        Policy(
            name="p", clients=["*"], allow=["wiki/*"], deny=["wiki/delete"], hours="Mon-Fri 08:00-18:00 Europe/Berlin"
        )
    )
    assert ask(rules, "wiki/search").allowed
    assert verdict(ask(rules, "wiki/search", now=SUNDAY)) == (False, "p", "allow[0]", "hours")
    assert rules.visible(BOT, tool("wiki/search"), None, SUNDAY)
    assert ask(rules, "wiki/delete", now=SUNDAY).reason == "deny_rule"
    assert not rules.visible(BOT, tool("wiki/delete"), None, SUNDAY)


def test_a_missing_scope_leaves_a_tool_listed_and_is_told_in_full() -> None:
    rules = engine(Policy(name="p", clients=["*"], allow=[Entry(tools="crm/*", scopes=["crm.read", "crm.write"])]))
    reader = Principal("sub:https://idp/r", "jwt", "idp", scopes=frozenset({"crm.read"}))
    writer = Principal("sub:https://idp/w", "jwt", "idp", scopes=frozenset({"crm.read", "crm.write"}))
    refused = ask(rules, "crm/edit", reader)
    assert (refused.allowed, refused.reason, refused.scopes) == (
        False,
        "insufficient_scope",
        frozenset({"crm.read", "crm.write"}),
    )
    assert sees(rules, "crm/edit", reader)
    assert ask(rules, "crm/edit", writer).allowed


def test_the_refusal_that_can_be_helped_is_told_first() -> None:
    rules = engine(
        Policy(
            name="p",
            clients=["*"],
            allow=[
                Entry(tools="crm/edit", when="args.x == 1"),
                Entry(tools="crm/*", when="false"),
                Entry(tools="crm/*", scopes=["crm.write"]),
            ],
        )
    )
    assert ask(rules, "crm/edit").reason == "insufficient_scope"
    assert ask(rules, "crm/edit", args={"x": 1}).allowed


def test_a_view_narrows_what_policies_allow() -> None:
    rules = engine(
        Policy(name="p", clients=["*"], allow=["*/*"], deny=["warehouse/drop"]),
        views={"analysts": View(include=["warehouse/*", "wiki/search"])},
    )
    assert ask(rules, "wiki/search", view="analysts").allowed
    assert verdict(ask(rules, "wiki/edit", view="analysts")) == (False, "", "", "not_in_view")
    assert not rules.visible(BOT, tool("wiki/edit"), "analysts")
    assert rules.visible(BOT, tool("wiki/edit"), None)
    assert not rules.visible(BOT, tool("warehouse/drop"), "analysts")
    assert not rules.visible(BOT, tool("wiki/search"), "unknown-view")
    assert not ask(engine(views={"v": View(include=["a/*"])}), "b/x", view="v").allowed


def test_limits_of_all_matching_policies_are_collected_for_an_allowed_call() -> None:
    rules = engine(
        Policy(name="a", clients=["*"], allow=["*/*"], limits=[Limit(rate=Rate(60, 60.0)), Limit(concurrency=4)]),
        Policy(name="b", clients=["ci-bot"], limits=[Limit(rate=Rate(5, 60.0), tools=["warehouse/*"])]),
        Policy(name="c", clients=["ann"], limits=[Limit(concurrency=1)]),
        Policy(name="s", clients=["*"], limits=[Limit(concurrency=1)], mode="shadow"),
    )
    assert [(limit.policy, limit.index) for limit in ask(rules, "warehouse/query").limits] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert [limit.policy for limit in ask(rules, "wiki/x").limits] == ["a", "a"]
    denied = engine(Policy(name="a", clients=["*"], deny=["*/*"], limits=[Limit(concurrency=1)]))
    assert ask(denied, "wiki/x").limits == ()


def test_the_arguments_that_rules_read_are_named_where_the_log_keeps_them() -> None:
    """Those of shadow policies too, and of no rule about other targets or other callers."""
    policies = [
        Policy(
            name="a", clients=["*"], allow=[Entry(tools="wiki/*", when="args.page.number < 3 && args.lang == 'en'")]
        ),
        Policy(name="b", clients=["*"], deny=[Entry(tools="wiki/x", when="args.page.secret")], mode="shadow"),
        Policy(name="c", clients=["*"], deny=[Entry(tools="files/*", when="args.path == '/'"), "wiki/y"]),
        Policy(name="d", clients=["ann"], deny=[Entry(tools="wiki/*", when="size(args) > 9")]),
    ]
    reads = ask(engine(*policies, payload="conditions"), "wiki/x").reads
    assert set(reads) == {("page", "number"), ("lang",), ("page", "secret")}
    assert ask(engine(*policies), "wiki/x").reads == ()


def test_the_least_revealing_payload_wins_and_redactions_add_up() -> None:
    rules = engine(
        Policy(name="a", clients=["*"], allow=["*/*"], audit=PolicyAudit(payload="full", redact=["/a", "/b"])),
        Policy(name="b", clients=["ci-bot"], audit=PolicyAudit(payload="redacted", redact=["/b", "/c"])),
        Policy(name="c", clients=["ann"], audit=PolicyAudit(payload="none")),
        Policy(name="d", clients=["*"], audit=PolicyAudit(payload="none"), mode="shadow"),
        Policy(name="e", clients=["*"], audit=PolicyAudit(redact=["/d"])),
    )
    decision = ask(rules, "wiki/x")
    assert (decision.payload, decision.redact) == ("redacted", ("/a", "/b", "/c", "/d"))
    assert ask(rules, "wiki/x", ANALYST).payload == "none"
    assert ask(engine(payload="shape"), "wiki/x").payload == "shape"


def test_shadow_policies_are_reported_and_change_nothing() -> None:
    allow = Policy(name="a", clients=["*"], allow=["wiki/*"])
    shadow = Policy(name="s", clients=["*"], deny=["wiki/delete"], allow=["crm/*"], mode="shadow")
    plain, shadowed = engine(allow), engine(allow, shadow)
    for name in ("wiki/search", "wiki/delete", "crm/read", "other/x"):
        assert verdict(ask(plain, name)) == verdict(ask(shadowed, name))
        assert sees(plain, name) == sees(shadowed, name)
    assert ask(shadowed, "wiki/search").shadow == ()
    assert ask(shadowed, "wiki/delete").shadow == ("s:deny[0]",)
    assert ask(shadowed, "crm/read").shadow == ("s:allow[0]",)
    alone = engine(shadow)
    assert ask(alone, "other/x").shadow == ("default_deny",)
    assert ask(alone, "crm/read").shadow == ()


def test_a_config_whose_policies_cannot_be_read_is_refused_with_all_its_faults() -> None:
    with pytest.raises(ConfigError) as caught:
        engine(
            Policy(name="one", clients=["*"], allow=[Entry(tools="a/*", when="arsg.x")]),
            Policy(name="two", clients=["*"], allow=["nothing"], hours="never"),
            views={"v": View(include=["nothing"])},
        )
    assert {problem.path for problem in caught.value.problems} == {
        "policies[one].allow[0].when",
        "policies[two].allow[0]",
        "policies[two].hours",
        "views.v.include[0]",
    }


def test_many_principals_cost_bounded_memory() -> None:
    rules = engine(Policy(name="p", clients=["*"], allow=["a/*"]))
    for number in range(5_000):
        assert ask(rules, "a/x", Principal(f"sub:i/{number}", "jwt", "i")).allowed
    assert len(rules._remembered) <= 1_024


def mutations(name: str) -> set[str]:
    """Return names that look, sound or normalise like a name but are others."""
    variants = {name.upper(), name.title(), name.swapcase(), name[::-1], name * 2, f" {name}", f"{name} ", f"{name}\n"}
    for index in range(len(name) + 1):
        for extra in (
            "\u200b",
            "\x00",
            "_",
            "/",
            "%20",
            "\ufeff",
            "*",
            "é",
            "\u202e",
            "0",
            " ",
            "\t",
            "-",
            ".",
            "\u00ad",
            "A",
            "z",
            "__",
            "\U000e0041",
        ):
            variants.add(name[:index] + extra + name[index:])
        variants.add(name[:index] + name[index + 1 :])
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in name)
    variants |= {
        wide,
        name.replace("e", "\u0435"),
        name.replace("a", "\u0430"),
        unicodedata.normalize("NFD", "é" + name),
    }
    return variants - {name}


def test_two_thousand_names_like_allowed_ones_admit_nothing() -> None:
    """S63, G072."""
    names = ["search", "read_page", "export-all", "list.items", "create_issue", "delete_everything", "get", "whoami"]
    rules = engine(Policy(name="p", clients=["*"], allow=[f"wiki/{name}" for name in names]))
    tried = {variant for name in names for variant in mutations(name)} - set(names)
    servers = mutations("wiki")
    assert len(tried) + len(servers) * len(names) >= 2_000
    admitted = [name for name in tried if ask(rules, Target(Kind.TOOL, "wiki", name)).allowed]
    admitted += [name for name in tried if rules.visible(BOT, Target(Kind.TOOL, "wiki", name), None)]
    admitted += [server for server in servers for name in names if ask(rules, Target(Kind.TOOL, server, name)).allowed]
    admitted += [
        name for name in names for kind in set(Kind) - {Kind.TOOL} if ask(rules, Target(kind, "wiki", name)).allowed
    ]
    assert admitted == []


SELECTORS = st.builds(
    "{}{}/{}".format,
    st.sampled_from(["", "", "prompt:", "resource:", "any:"]),
    st.sampled_from(["a", "b", "*", "a*"]),
    st.sampled_from(["x", "y", "*", "x*", "**", "*y"]),
)
CONDITIONS = st.sampled_from(
    [
        "",
        "",
        "true",
        "false",
        "view == ''",
        "tool.name == 'x'",
        "'g' in principal.groups",
        "principal.claims.missing == 1",
    ]
)
ENTRIES = st.builds(lambda tools, when: Entry(tools=tools, when=when), SELECTORS, CONDITIONS) | SELECTORS
CLIENTS = st.sampled_from(["*", "ci-bot", "ann", "group:g", "anonymous", "key:ann"])
POLICIES = st.lists(
    st.tuples(
        st.lists(CLIENTS, min_size=1, max_size=2),
        st.lists(ENTRIES, max_size=3),
        st.lists(ENTRIES, max_size=2),
        st.sampled_from(["enforce", "enforce", "shadow"]),
    ),
    max_size=4,
)
CALLERS = [BOT, ANALYST, ANONYMOUS, Principal("sub:i/s", "jwt", "i", groups=frozenset({"g"}))]
TARGETS = [
    Target(kind, server, name) for kind in Kind for server in ("a", "b", "ab") for name in ("x", "y", "xy", "x/y", "")
]


@settings(max_examples=200, deadline=None)
@given(POLICIES)
def test_what_is_listed_is_exactly_what_can_be_called(
    drawn: list[tuple[list[str], list[str | Entry], list[str | Entry], str]],
) -> None:
    """S59: for 200 random sets of policies without conditions on arguments or hours."""
    policies = [
        Policy.model_validate({"name": f"p{number}", "clients": clients, "allow": allow, "deny": deny, "mode": mode})
        for number, (clients, allow, deny, mode) in enumerate(drawn)
    ]
    rules = engine(*policies)
    for who in CALLERS:
        for target in TARGETS:
            decision = ask(rules, target, who)
            assert rules.visible(who, target, None) == decision.allowed
            assert not (decision.allowed and decision.reason == "deny_rule")


DOCS = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_example_of_the_documentation_does_what_it_says() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    whole = [yaml.safe_load(block)["policies"] for block in blocks if block.startswith("policies:")]
    policies = [Policy.model_validate(each) for entries in whole for each in entries]
    rules = engine(*policies)
    assert ask(rules, "wiki/search", args={}).allowed
    assert ask(rules, "warehouse/query", args={"limit": 10, "sql": "select 1"}).allowed
    assert not ask(rules, "warehouse/query", args={"limit": 10, "sql": "select 1; drop x"}).allowed
    assert not ask(rules, "wiki/delete_page").allowed
    assert not ask(rules, "wiki/search", now=SUNDAY).allowed
    assert len(ask(rules, "warehouse/query", args={"limit": 1, "sql": ""}).limits) == 3


def test_the_documentation_explains_every_reason() -> None:
    text = DOCS.read_text()
    reasons = [value for name, value in vars(decision).items() if name.isupper() and isinstance(value, str)]
    assert [reason for reason in reasons if f"| `{reason}` |" not in text] == []


def needs(answer: Decision) -> list[str]:
    return [f"{each.policy}/{each.rule}" for each in answer.approvals]


def test_approvals_add_to_an_allow_and_every_matching_one_counts() -> None:
    rules = engine(
        Policy(
            name="p", clients=["ci-bot"], allow=["wiki/*"], approve=[Approval(tools="wiki/*"), Approval(tools="*/x")]
        ),
        Policy(name="q", clients=["group:automation"], approve=[Approval(tools="wiki/write")], hours="Sun 00:00-00:01"),
        Policy(name="r", clients=["ann"], approve=[Approval(tools="wiki/*")]),
    )
    assert needs(ask(rules, "wiki/write")) == ["p/approve[0]", "q/approve[0]"]
    assert needs(ask(rules, "wiki/read")) == ["p/approve[0]"]
    refused = ask(rules, "crm/x")
    assert (refused.allowed, needs(refused)) == (False, [])


def test_an_approval_in_shadow_is_named_and_asks_nobody() -> None:
    rules = engine(
        Policy(name="p", clients=["*"], allow=["wiki/*"]),
        Policy(name="s", clients=["*"], approve=[Approval(tools="wiki/write")], mode="shadow"),
    )
    answer = ask(rules, "wiki/write")
    assert (answer.allowed, needs(answer), answer.shadow) == (True, [], ("s:approve[0]",))
    assert ask(rules, "wiki/read").shadow == ()
    assert ask(rules, "crm/x").shadow == ()
