"""JSON vectors (S21 to S25, G065, G078, G093), round trips, canonical form (S133). Only ``JsonError`` may come out."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from contextlib import suppress
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Value
from tests.kit.json_vectors import BAD, POSITIONS

MAX_INT = 2**63 - 1

TEXTS = st.text(st.characters(codec="utf-8"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=12)


def reason_of(decode: Callable[[bytes], object], data: bytes) -> str:
    with pytest.raises(JsonError) as caught:
        decode(data)
    return caught.value.reason


@pytest.mark.parametrize("place", POSITIONS)
@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:24]) if isinstance(text, bytes) else None)
def test_a_text_with_two_readings_or_none_is_refused_wherever_it_stands(text: bytes, place: str) -> None:
    assert reason_of(rawjson.decode_strict, POSITIONS[place] % text) == BAD[text]


def test_there_are_at_least_a_hundred_and_fifty_vectors() -> None:
    assert len(BAD) * len(POSITIONS) >= 150


BODY = '{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BODY.encode("utf-8-sig"), "byte_order_mark"),
        (b"\xff\xfe" + BODY.encode("utf-16-le"), "byte_order_mark"),
        (b"\xfe\xff" + BODY.encode("utf-16-be"), "byte_order_mark"),
        (b"\xff\xfe\x00\x00" + BODY.encode("utf-32-le"), "byte_order_mark"),
        (b"\x00\x00\xfe\xff" + BODY.encode("utf-32-be"), "not_utf8"),
        (BODY.encode("utf-16-le"), "syntax"),
        (BODY.encode("utf-16-be"), "syntax"),
        (BODY.encode("utf-32-le"), "syntax"),
        (b"", "syntax"),
        (b" \t\r\n", "syntax"),
        (BODY.encode() * 2, "syntax"),
        (BODY.encode() + b"\n" + BODY.encode(), "syntax"),
    ],
)
def test_only_one_utf8_text_without_a_mark_is_a_body(body: bytes, reason: str) -> None:
    assert reason_of(rawjson.decode_strict, body) == reason


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b" \t\r\n1 \n", 1),
        (b"9223372036854775807", MAX_INT),
        (b"-9223372036854775807", -MAX_INT),
        (b"9007199254740993", 9007199254740993),
        (b"-0", 0),
        (b"1E2", 100.0),
        (b"1e-999", 0.0),
        (b"0.1000000000000000055", 0.1),
        (b"1.0", 1.0),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\uD83D\\uDE00 and \\u00e9"', "\U0001f600 and \u00e9"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'"\\u0000\\u007f\\u2028"', "\x00\x7f\u2028"),
        (b'"\\/\\b\\f\\n\\r\\t\\"\\\\"', '/\b\f\n\r\t"\\'),
        ('"\u2028\u2029\x85\x7f"'.encode(), "\u2028\u2029\x85\x7f"),
        (b'{"":{"":[]}}', {"": {"": []}}),
        (b'{"a":1,"A":2,"a ":3}', {"a": 1, "A": 2, "a ": 3}),
        (b'"[[[[{{{{,,,,"', "[[[[{{{{,,,,"),
        (b'["\\"[",{"\\\\":"]"}]', ['"[', {"\\": "]"}]),
    ],
)
def test_what_has_one_reading_is_read(text: bytes, value: Value) -> None:
    decoded = rawjson.decode_strict(text)
    assert decoded == value
    assert type(decoded) is type(value)
    assert rawjson.decode_exact(text) == value


def test_an_integer_beyond_2_to_53_leaves_as_it_came() -> None:
    """G093 and S23: digit for digit."""
    body = b'{"a":9007199254740993,"b":1.0,"c":-9223372036854775807}'
    assert rawjson.encode(rawjson.decode_strict(body)) == body


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 64 + b"]" * 64,
        b'{"a":' * 64 + b"1" + b"}" * 64,
        b"[" + b",".join([b"[]"] * 49_999) + b"]",
        b"[" + b"0," * 99_998 + b"0]",
        b"{%s}" % b",".join(b'"%d":0' % i for i in range(10_000)),
        b"9" * 18,
        b"0." + b"1" * 62,
    ],
    ids=["depth", "object depth", "arrays", "nodes", "keys", "digits", "decimals"],
)
def test_a_text_at_a_limit_passes(text: bytes) -> None:
    assert rawjson.decode_strict(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        b'"' + b'\\"' * 2_097_152,
        b'"' + b"\\\\" * 2_097_152,
        b'""' * 2_097_152,
        b"]" * 4_194_304,
        b"[]" * 2_097_152,
        b'{"' * 2_097_152,
        b'"\\' * 2_097_152,
        b"[[" + b"],[" * 33_000,
    ],
    ids=["escaped quotes", "backslashes", "strings", "closing", "pairs", "open objects", "alternating", "reopened"],
)
def test_four_mebibytes_of_the_worst_are_judged_in_a_few_passes(text: bytes) -> None:
    """S25. With time that grows as the square of the bytes these would outlast any timeout by days."""
    assert reason_of(rawjson.decode_strict, text) in ("syntax", "too_many_nodes")


def test_strings_are_free_of_the_limits_of_structure() -> None:
    """A document in a string is one node, however many brackets and quotes it has."""
    inner = json.dumps([[['"'] * 1000] * 100] * 2)
    assert rawjson.decode_strict(json.dumps({"text": inner}).encode()) == {"text": inner}


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_what_is_written_is_read_back(value: Value) -> None:
    assert rawjson.decode_strict(rawjson.encode(value)) == value
    assert rawjson.decode_exact(rawjson.encode(value)) == value
    assert rawjson.decode_value(rawjson.encode(value)) == value


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_both_parsers_agree_on_what_the_strict_one_accepts(value: Value) -> None:
    text = json.dumps(value, indent=1).encode()
    assert rawjson.decode_strict(text) == rawjson.decode_value(text)


FRAGMENTS = st.lists(
    st.sampled_from(
        [*b'{}[],:"\\', b'"a":', b"1e9", b"-0", b"\\u", b"d800", b"\xff", b"\xc3\xa9", b"null", b"NaN", b" ", b"\n"]
    ).map(lambda part: bytes([part]) if isinstance(part, int) else part),
    max_size=40,
).map(b"".join)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | FRAGMENTS)
def test_any_bytes_are_either_read_or_refused_with_the_documented_error(data: bytes) -> None:
    for decode in (
        rawjson.decode_strict,
        rawjson.decode_exact,
        rawjson.decode_value,
        rawjson.decode_members,
        rawjson.decode_items,
    ):
        with suppress(JsonError):
            decode(data)


@settings(max_examples=100, deadline=None)
@given(FRAGMENTS)
def test_the_strict_reading_never_accepts_what_a_lenient_parser_refuses(data: bytes) -> None:
    try:
        value = rawjson.decode_strict(data)
    except JsonError:
        return
    assert json.loads(data) == value


def test_definitions_may_name_integers_of_any_size() -> None:
    text = b'{"maximum":18446744073709551615,"minimum":-170141183460469231731687303715884105728}'
    assert rawjson.decode_exact(text) == {"maximum": 2**64 - 1, "minimum": -(2**127)}
    assert reason_of(rawjson.decode_exact, b"9" * 65) == "number_too_long"
    assert reason_of(rawjson.decode_exact, b'{"a":{"b":1,"b":1}}') == "duplicate_key"


def test_members_keep_their_bytes() -> None:
    """G087 and G088: spelling, order and unknown fields survive one level of splitting."""
    text = b'{"a": [1.50, 1E2 ] , "b":{"z":1,"a":{"$ref":"#"}},"c":  null,"d":"\\u0041"}'
    members = rawjson.decode_members(text)
    assert {key: rawjson.raw_bytes(item) for key, item in members.items()} == {
        "a": b"[1.50, 1E2 ]",
        "b": b'{"z":1,"a":{"$ref":"#"}}',
        "c": b"null",
        "d": b'"\\u0041"',
    }
    assert rawjson.encode(members) == b'{"a":[1.50, 1E2 ],"b":{"z":1,"a":{"$ref":"#"}},"c":null,"d":"\\u0041"}'


def test_members_of_a_member_can_be_split_too() -> None:
    outer = rawjson.decode_members(b'{"result":{"x":[1, 2]}}')
    inner = rawjson.decode_members(outer["result"])
    assert [rawjson.raw_bytes(item) for item in rawjson.decode_items(inner["x"])] == [b"1", b"2"]
    assert rawjson.decode_value(inner["x"]) == [1, 2]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "not_an_object"),
        (b"null", "not_an_object"),
        (b'"a"', "not_an_object"),
        (b"", "not_an_object"),
        (b'{"a":1} x', "not_an_object"),
        (b'{"a":"b\nc"}', "not_an_object"),
        (b'{"a":[1,]}', "not_an_object"),
        (b'{"a":"\\ud800"}', "lone_surrogate"),
        (b'{"a":["x\\uDFFF"],"b":1}', "lone_surrogate"),
        (b'{"a":"\\ud83d\\ude00\\ud83d"}', "lone_surrogate"),
        (b'{"a":"\\ud83d\\ude00",}', "not_an_object"),
        (b'{"a":%s}' % (b"[" * 100_000), "not_an_object"),
        (b'{"a":"\xc3("}', "not_utf8"),
        (b'{"a\xff":1}', "not_utf8"),
    ],
)
def test_a_line_that_is_no_object_is_refused(data: bytes, reason: str) -> None:
    """G010 and G078 on the server's side; bytes inside skipped members count too."""
    assert reason_of(rawjson.decode_members, data) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{}", "not_an_array"),
        (b"[1,]", "not_an_array"),
        (b"[" * 100_000, "not_an_array"),
        (b'["\xff"]', "not_utf8"),
    ],
)
def test_a_text_that_is_no_array_is_refused(data: bytes, reason: str) -> None:
    assert reason_of(rawjson.decode_items, data) == reason


@pytest.mark.parametrize("data", [b"", b"nul", b'"\xff"', b"1e999", b"9" * 5000, b"NaN", b"[" * 100_000, b'"\\ud800"'])
def test_a_value_that_cannot_be_read_is_refused(data: bytes) -> None:
    assert reason_of(rawjson.decode_value, data) == "syntax"


@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        (b'"a\xffb"', '"a\ufffdb"'.encode()),
        (b'"\\ud800"', b'"\\ufffd"'),
        (b'"\\udc00\\uD800x"', b'"\\ufffd\\ufffdx"'),
        (b'"\\ud83d\\ude00 \\u00e9"', b'"\\ud83d\\ude00 \\u00e9"'),
        (b'"\\\\ud800"', b'"\\\\ufffd"'),
    ],
)
def test_repairing_touches_nothing_but_what_is_broken(broken: bytes, repaired: bytes) -> None:
    assert rawjson.repaired(broken) == repaired
    rawjson.decode_strict(repaired)


def test_a_member_that_cannot_be_used_counts_as_null() -> None:
    members = rawjson.decode_members(b'{"a":5,"b":1e999,"c":null,"d":%s}' % (b"9" * 5000))
    assert [rawjson.peek(members.get(key)) for key in "abcde"] == [5, None, None, None, None]


def test_a_result_keeps_any_integer() -> None:
    assert rawjson.decode_value(b"1180591620717411303424") == 2**70
    assert rawjson.encode(2**70) == b"1180591620717411303424"


def nested(depth: int) -> Value:
    value: Value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("write", [rawjson.encode, rawjson.raw, rawjson.canonical, rawjson.canonical_plain])
def test_what_cannot_be_written_is_an_error_of_ours(write: Callable[[object], object]) -> None:
    for value, reason in (
        ("\ud800", "lone_surrogate"),
        ({"\udc00": 1}, "lone_surrogate"),
        (nested(100_000), "too_deep"),
    ):
        with pytest.raises(JsonError) as caught:
            write(value)
        assert caught.value.reason == reason


def test_raw_members_are_copied() -> None:
    assert (
        rawjson.encode({"a": rawjson.Raw(b"[1, 2]"), "b": rawjson.raw({"c": None})}) == b'{"a":[1, 2],"b":{"c":null}}'
    )


def test_a_member_is_compared_as_it_is_spelled() -> None:
    members = rawjson.decode_members(b'{"a": true ,"b":"true","c":trux}'.replace(b"trux", b"null"))
    assert rawjson.is_text(members["a"], b"true")
    assert not rawjson.is_text(members["b"], b"true")
    assert not rawjson.is_text(members["c"], b"true")


def test_what_people_read_keeps_its_order_and_its_letters() -> None:
    assert rawjson.pretty({"b": rawjson.Raw(b'["\\u00e9"]'), "a": ()}) == '{\n  "b": [\n    "é"\n  ],\n  "a": []\n}'


GOLDEN = [
    ({"b": 1, "a": 2, "B": 3, "": 4}, '{"":4,"B":3,"a":2,"b":1}'),
    ({"\U0001f600": 1, "\uffff": 2, "\u00e9": 3}, '{"\u00e9":3,"\uffff":2,"\U0001f600":1}'),
    ([1, 1.0, -0.0, 1e16, 1e-7, 1.5e300, 0.1, 123456789.0], "[1,1.0,-0.0,1e+16,1e-07,1.5e+300,0.1,123456789.0]"),
    ([2**53 + 1, 2**64, -(2**70)], "[9007199254740993,18446744073709551616,-1180591620717411303424]"),
    ('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\u00e9', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028\u00e9"'),
    ([True, False, None, [], {}], "[true,false,null,[],{}]"),
    ((1, (2,)), "[1,[2]]"),
    (MappingProxyType({"b": rawjson.Raw(b'{"z": 1, "y": [ ]}'), "a": 1}), '{"a":1,"b":{"y":[],"z":1}}'),
]


@pytest.mark.parametrize(("value", "text"), GOLDEN)
def test_the_canonical_form_never_changes(value: object, text: str) -> None:
    """S133. Pins and audit chains of earlier releases depend on every byte of it."""
    assert rawjson.canonical(value) == text.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_the_canonical_form_has_no_word_for_what_json_cannot_say(value: object) -> None:
    with pytest.raises(JsonError) as caught:
        rawjson.canonical(value)
    assert caught.value.reason == "number_out_of_range"


def test_the_canonical_form_of_a_broken_member_is_refused() -> None:
    with pytest.raises(JsonError) as caught:
        rawjson.canonical({"a": rawjson.Raw(b"[")})
    assert caught.value.reason == "syntax"


@settings(max_examples=100, deadline=None)
@given(VALUES, st.randoms(use_true_random=False))
def test_the_canonical_form_is_blind_to_order_and_white_space_alone(value: Value, dice: object) -> None:
    written = rawjson.canonical(value)
    assert rawjson.canonical(rawjson.decode_value(json.dumps(_reversed(value), indent=2).encode())) == written
    assert rawjson.canonical(rawjson.decode_value(written)) == written


def _reversed(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(list(value))}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(VALUES, VALUES)
def test_different_values_have_different_canonical_forms(one: Value, other: Value) -> None:
    assert (rawjson.canonical(one) == rawjson.canonical(other)) == (repr(_sorted(one)) == repr(_sorted(other)))


def _sorted(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


WHOLE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.text(string.printable),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(WHOLE)
def test_the_fast_canonical_form_is_the_same_without_floats(value: Value) -> None:
    assert rawjson.canonical_plain(value) == rawjson.canonical(value)


@settings(max_examples=50, deadline=None)
@given(st.recursive(WHOLE | st.floats(allow_nan=False, allow_infinity=False), st.lists, max_leaves=8))
def test_the_canonical_form_of_decoded_values_is_the_same_with_and_without_floats(value: Value) -> None:
    assert rawjson.canonical_decoded(value) == rawjson.canonical(value)


@pytest.mark.parametrize(
    "value", [{"a": "1.5e3"}, {"a": 1e16}, {"a": 2**70}, {"1.5": -0.0}, {"a": '\\"1.5', "b": 100.0}]
)
def test_neither_numbers_in_strings_nor_odd_numbers_confuse_the_canonical_form(value: Value) -> None:
    assert rawjson.canonical_decoded(value) == rawjson.canonical(value)
