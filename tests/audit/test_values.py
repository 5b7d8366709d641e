"""Which values a record may hold, and that conditions say the same of them as of the arguments themselves."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from gateway.audit import values
from gateway.audit.values import picked, redacted
from gateway.model.call import Target
from gateway.model.catalog import Kind
from gateway.model.principal import Principal
from gateway.policy.conditions import Facts, compile_condition
from gateway.protocol.rawjson import Object

NOW = datetime(2026, 8, 23, tzinfo=UTC)
EVERYBODY = Principal("anonymous", "anonymous", "anonymous")
ARGUMENTS: tuple[Object, ...] = (
    {},
    {"a": 1, "other": "secret"},
    {"a": {"b": 2.5, "c": "secret"}, "list": [{"x": 1}, {"x": 2}]},
    {"a": {"b": {"d": "deep"}}, "big": 2**62},
    {"a": "text", "list": "no list"},
    {"a": {}, "list": [], "big": -1, "odd key": True},
    {"a": [1, 2, 3]},
    {"a": None},
)
EXPRESSIONS = (
    "args.a == 1",
    "has(args.a)",
    "has(args.a.b)",
    "args.a.b > 2.0",
    "args.a.b.d == 'deep'",
    "has(args.a) && has(args.a.b) && args.a.b == 2.5",
    "args.list.exists(i, i.x == 2)",
    "size(args.list) == 0",
    "args.big > 4611686018427387000",
    "args['odd key']",
    "size(args) > 1",
    "!has(args.other) || args.other != 'secret'",
    "args.a[1] == 2",
    "'b' in args.a",
)


def truth(expression: str, arguments: Object) -> bool | None:
    target = Target(Kind.TOOL, "s", "t", {})
    return compile_condition(expression).truth(Facts(EVERYBODY, target, arguments, None, NOW))


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_every_condition_says_the_same_of_what_was_kept(arguments: Object) -> None:
    for expression in EXPRESSIONS:
        kept = picked(arguments, compile_condition(expression).reads, ())
        assert kept.missing == ()
        assert truth(expression, json.loads(kept.text)) == truth(expression, arguments), (expression, kept.text)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_reads_of_many_conditions_stand_side_by_side(arguments: Object) -> None:
    chosen = [each for each in EXPRESSIONS if not each.startswith("size(args)")]
    paths = dict.fromkeys(path for each in chosen for path in compile_condition(each).reads)
    kept = picked(arguments, paths, ())
    for expression in chosen:
        assert truth(expression, json.loads(kept.text)) == truth(expression, arguments), (expression, kept.text)


def test_nothing_that_no_condition_reads_is_kept() -> None:
    kept = picked({"a": {"b": 1, "c": "secret"}, "other": "secret"}, [("a", "b")], ())
    assert kept.text == '{"a":{"b":1}}'


def test_what_is_too_long_or_hidden_is_missing() -> None:
    arguments: Object = {"long": "x" * 5000, "a": {"b": "secret"}, "c": 1}

    assert picked(arguments, [("long",), ("c",)], ()) == values.Picked('{"c":1}', (("long",),))
    assert picked(arguments, [("a", "b"), ("c",)], ("/a",)).missing == (("a", "b"),)
    assert picked(arguments, [("a",), ("c",)], ("/a/b",)).missing == (("a",),)
    assert picked({"a": [{"b": 1}]}, [("a",)], ("/a/*/b",)).missing == (("a",),)
    assert picked(arguments, [()], ()).missing == ((),)
    assert picked(arguments, [("a",)], ("/c",)).missing == ()


def test_the_sum_of_what_is_kept_is_bounded() -> None:
    arguments: Object = {f"k{number}": "x" * 1000 for number in range(10)}
    kept = picked(arguments, [(name,) for name in arguments], ())

    assert len(kept.text) <= values.MAX_KEPT
    assert len(kept.missing) == 6


def test_secrets_go_by_name_by_pointer_and_by_form() -> None:
    """S148."""
    value: Object = {
        "otp": 123456,
        "nested": {"clientSecret": {"a": 1}, "note": "see https://bob:s3cr3tpass@host/"},
        "items": [{"ssn": "1"}, "AKIA" + "A" * 16],
        "free": "x" * 300,
    }
    shown = json.loads(redacted(value, values.pointers(("/items/1",))) or "")

    assert shown["otp"] == "[R:6]"
    assert shown["nested"]["clientSecret"] == "[R:7]"
    assert "s3cr3tpass" not in shown["nested"]["note"]
    assert shown["items"] == [{"ssn": "[R:1]"}, "[R:20]"]
    assert shown["free"] == "x" * 256 + "…"


def test_deep_values_are_summed_up() -> None:
    deep: Object = {"end": "secret"}
    for _ in range(40):
        deep = {"d": deep}
    assert "secret" not in (redacted(deep, ()) or "")


def test_masking_changes_only_what_pointers_name() -> None:
    value: Object = {"a": [1.5, {"b": "x"}], "c": "y" * 1000}
    assert values.masked(value, ()) is value
    assert values.masked(value, values.pointers(("/a/1/b",))) == {"a": [1.5, {"b": "[R:1]"}], "c": "y" * 1000}
