"""CEL only ever says true, false or nothing, whatever the data (parts of it are a stranger's)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.policy import conditions
from gateway.policy.conditions import MAX_DEPTH, MAX_SOURCE, ConditionError, Facts, compile_condition, measure
from gateway.protocol.rawjson import Object, Value

NOW = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
ALICE = Principal(
    "sub:https://idp/alice",
    "jwt",
    "idp",
    groups=frozenset({"analysts"}),
    scopes=frozenset({"crm.read"}),
    claims={"team": "red", "level": 3},
)
QUERY = Target(Kind.TOOL, "warehouse", "query", {"readOnlyHint": True})


def facts(args: Object | None = None, *, view: str | None = None, target: Target = QUERY, now: datetime = NOW) -> Facts:
    return Facts(ALICE, target, args, view, now)


def nested(levels: int) -> Value:
    value: Value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("args.limit <= 1000", True),
        ("args.limit > 1000", False),
        ("args.ratio < 1.0 && args.limit == 5.0", True),
        ("!args.sql.contains(';')", True),
        (r"args.sql.matches('(?i)^\\s*select\\b')", True),
        ("args.sql.lowerAscii().startsWith('select')", True),
        ("args.path.split('/')[1] == 'srv'", True),
        ("args.path.replace('/', '') == 'srvdocs'", True),
        ("args.nothing == null", True),
        ("args.tags.exists(t, t == 'b') && args.tags.all(t, size(t) == 1)", True),
        ("has(args.limit) && !has(args.missing)", True),
        ("'limit' in args", True),
        ("tool.server == 'warehouse' && tool.name == 'query'", True),
        ("tool.annotations.readOnlyHint", True),
        ("has(tool.annotations.destructiveHint)", False),
        ("principal.id == 'sub:https://idp/alice'", True),
        ("'analysts' in principal.groups && 'crm.read' in principal.scopes", True),
        ("principal.claims.team == 'red' && principal.claims['level'] >= 3", True),
        ("view == ''", True),
        ("now.getHours() == 9 && now.getHours('Europe/Berlin') == 10", True),
        ("now > timestamp('2026-01-01T00:00:00Z')", True),
        ("true", True),
    ],
)
def test_a_condition_asks_about_the_call(text: str, expected: bool) -> None:
    args: Object = {
        "limit": 5,
        "ratio": 0.5,
        "sql": "SELECT 1",
        "path": "/srv/docs",
        "nothing": None,
        "tags": ["a", "b"],
    }
    assert compile_condition(text).truth(facts(args)) is expected


@pytest.mark.parametrize(
    "text",
    [
        "args.role == 'admin'",
        "args.limit < 5",
        "args.text > 5",
        "args.text.size() / 0 == 1",
        "args.text",
        "args.list[7] == 1",
        "args.deep.er.than.it.is == 1",
        "principal.claims.role == 'admin'",
        "tool.annotations.readOnlyHint == 'x' || args.missing",
        "args.text.matches(args.bad)",
        "args.many.all(x, x >= 0)",
    ],
)
def test_an_error_is_neither_true_nor_false(text: str) -> None:
    """The library returns errors as values whose text looks true."""
    args: Object = {"text": "x", "list": [1], "bad": "(", "many": list(range(20_000)), "limit": "five"}
    condition = compile_condition(text)
    assert condition.truth(facts(args)) is None


def test_without_arguments_a_condition_about_them_says_nothing() -> None:
    condition = compile_condition("args.limit == 1")
    assert condition.truth(facts(None)) is None
    assert condition.truth(facts({})) is None


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("args.limit == 1", True),
        ("[1].exists(x, x == args.limit)", True),
        ("has(args.x)", True),
        ("view == 'args'", False),
        ("tool.annotations.args == 1", False),
        ("principal.claims.args == 'args.x'", False),
        ("[1].exists(args, args == 1)", False),
        ("now.getHours() > 3", False),
    ],
)
def test_it_is_known_whether_a_condition_needs_arguments(text: str, mentions: bool) -> None:
    assert compile_condition(text).mentions_args is mentions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no CEL condition: 1:1: Syntax error"),
        ("args.x =", "Syntax error"),
        ("arsg.x == 1", "undeclared reference to 'arsg.x'"),
        ("tool.nmae == 'x'", "undeclared reference to 'tool.nmae'"),
        ("principal.role == 'x'", "undeclared reference to 'principal.role'"),
        ("principal.groups == 'x'", "no matching overload"),
        ("1 + 1", "must be true or false"),
        ("'true'", "must be true or false"),
        ("has(principal.groups)", "must be true or false"),
        ("(" * 200 + "true" + ")" * 200, "is no CEL condition"),
        ("true" + " " * MAX_SOURCE, "longer than"),
        ("view == '\ud800'", "is no CEL condition"),
    ],
)
def test_what_is_no_condition_is_found_when_it_is_compiled(text: str, message: str) -> None:
    """G074: also a field that does not exist."""
    with pytest.raises(ConditionError) as caught:
        compile_condition(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_data_that_is_too_deep_never_reaches_cel() -> None:
    """Deep data crashes the process; at most 64 levels are converted."""
    condition = compile_condition("size(args.deep) == 1")
    assert condition.truth(facts({"deep": nested(MAX_DEPTH - 1)})) is True
    assert condition.truth(facts({"deep": nested(MAX_DEPTH + 1)})) is None
    assert condition.truth(facts({"deep": nested(50_000)})) is None
    assert compile_condition("view == ''").truth(facts({"deep": nested(50_000)})) is True


def test_deep_annotations_of_a_server_are_no_annotations() -> None:
    deep = Target(Kind.TOOL, "evil", "t", {"readOnlyHint": True, "deep": nested(50_000)})
    assert compile_condition("tool.annotations.readOnlyHint").truth(facts({}, target=deep)) is None


@pytest.mark.parametrize("value", ["\ud800", 10**400, -(10**400), float("1e308"), {"\udfff": 1}])
def test_odd_values_say_nothing_or_something_but_never_raise(value: Value) -> None:
    odd = facts({"x": value})
    assert compile_condition("args.x == 'never'").truth(odd) in (False, None)
    assert compile_condition("view == ''").truth(odd) is True


@pytest.mark.timeout(10)
def test_a_loop_over_much_text_is_an_error_and_not_a_stall() -> None:
    args: Object = {"items": ["x"] * 9_000, "text": "a" * 1_000_000}
    slow = compile_condition("args.items.all(x, args.text.matches('^(a+)+$'))")
    assert slow.truth(facts(args)) is None
    split = compile_condition("args.text.split('a').all(x, args.text.contains(x))")
    assert split.truth(facts({"text": "a" * 1_000_000})) is None
    few = compile_condition("['x', 'y'].all(x, !args.text.contains(x))")
    assert few.truth(facts(args | {"items": []})) is True
    assert compile_condition("!args.text.contains('b')").truth(facts(args)) is True


def test_values_are_converted_once_for_all_conditions() -> None:
    call = facts({"limit": 1})
    assert compile_condition("args.limit == 1").truth(call) is True
    first = call.activation
    assert compile_condition("args.limit == 2").truth(call) is False
    assert call.activation is first


def test_now_may_come_from_any_zone() -> None:
    tokyo = NOW.astimezone(timezone(timedelta(hours=9)))
    assert compile_condition("now.getHours() == 9").truth(facts({}, now=tokyo)) is True


def test_the_weight_of_a_value_counts_items_and_text() -> None:
    size = measure({"ab": ["cde", 1, {"f": None}], "g": "hi"})
    assert (size.items, size.text, size.unfit) == (6, 2 + 3 + 1 + 1 + 2, False)
    assert measure({}) == conditions.Size()


VALUES: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)
ROLE = compile_condition("args.role == 'admin'")
LIMIT = compile_condition("args.limit <= 1000")


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_only_the_right_value_makes_a_condition_true(value: Value) -> None:
    assert (ROLE.truth(facts({"role": value})) is True) == (value == "admin")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number:
        assert LIMIT.truth(facts({"limit": value})) is None


@pytest.mark.parametrize("text", ["/srv/docs/a\0.md", "ok\0", "\0"])
def test_a_text_that_cel_would_end_early_is_an_error_and_not_its_beginning(text: str) -> None:
    """S67: what is behind a NUL would reach the server and no condition."""
    for expression in ("args.x.startsWith('')", "args.x.size() < 100", "args.y == 1"):
        condition = compile_condition(expression)
        assert condition.truth(facts({"x": text, "y": 1})) is None
        assert condition.truth(facts({"x": "fine", "y": 1, "z": [{text: 1}]})) is None
    odd = Target(Kind.RESOURCE, "files", text)
    assert compile_condition("tool.name.startsWith('')").truth(facts({}, target=odd)) is None
    assert compile_condition("tool.server == 'files'").truth(facts({}, target=odd)) is True
    with pytest.raises(ConditionError, match="NUL"):
        compile_condition("true\0 && false")
