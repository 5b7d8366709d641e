"""The header codec and ``x-mcp-header`` (S29, S129; 2026-07-28 streamable-http §Request Metadata)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.protocol import headers
from gateway.protocol.headers import HeaderError, ParamHeader
from gateway.protocol.rawjson import Value


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", ""),
        ("a b", "a b"),
        (" a", "=?base64?IGE=?="),
        ("a ", "=?base64?YSA=?="),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
        ("a\x00", "=?base64?YQA=?="),
        ("a\x7f", "=?base64?YX8=?="),
        ("é", "=?base64?w6k=?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?base64?", "=?base64?"),
        ("=?BASE64?x?=", "=?BASE64?x?="),
        ("file:///projects/myapp/config.json", "file:///projects/myapp/config.json"),
    ],
)
def test_values_are_encoded_as_the_specification_shows(text: str, encoded: str) -> None:
    """The first five are §Value Encoding's own examples; no line break ever reaches a header (S129)."""
    assert headers.encode_value(text) == encoded
    assert headers.decode_value(encoded) == text


@pytest.mark.parametrize(
    ("received", "text"),
    [
        ("  tools/call \t", "tools/call"),
        ("a\tb", "a\tb"),
        ("=?base64??=", ""),
        ("=?base64?=", "=?base64?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
        ("=?base64?SGVsbG8=?= x", "=?base64?SGVsbG8=?= x"),
        (" =?base64?SGVsbG8=?= ", "Hello"),
        ("=?base64?YQ0KWDogeQ==?=", "a\r\nX: y"),
    ],
)
def test_only_the_exact_sentinel_makes_a_value_base64(received: str, text: str) -> None:
    assert headers.decode_value(received) == text


@pytest.mark.parametrize(
    "received",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVsbG8= ?=",
        "=?base64? SGVsbG8=?=",
        "=?base64?SGVsbG8-_w==?=",
        "=?base64?SGVs\tbG8=?=",
        "=?base64?=?=",
        "=?base64?A?=",
        "=?base64?/w==?=",
        "=?base64?7aCA?=",
        "=?base64?w(==?=",
        "é",
        "a\x00b",
        "a\x1bb",
        "a\x7fb",
        "a\r\nb",
        "\udcff",
    ],
)
def test_a_value_that_can_be_read_two_ways_is_refused(received: str) -> None:
    """S29: wrong padding, other alphabets, bits nobody encodes, no UTF-8, characters no header may carry."""
    with pytest.raises(HeaderError):
        headers.decode_value(received)


def test_a_lone_surrogate_has_no_encoding() -> None:
    with pytest.raises(HeaderError):
        headers.encode_value("\ud800")


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from("=?base64 \t\r\n")))
def test_any_text_survives_a_header(text: str) -> None:
    encoded = headers.encode_value(text)
    assert headers.decode_value(encoded) == text
    assert encoded.isascii()
    assert encoded == encoded.strip()
    assert all(0x20 <= ord(char) < 0x7F for char in encoded)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30) | st.text(max_size=20).map(lambda inner: f"=?base64?{inner}?="))
def test_any_received_value_is_read_or_refused(received: str) -> None:
    try:
        text = headers.decode_value(received)
    except HeaderError:
        return
    # Nothing else decodes to the same text through the sentinel.
    assert text == received.strip(" \t") or headers.decode_value(headers.encode_value(text)) == text


def schema(**properties: Value) -> Value:
    return {"type": "object", "properties": properties}


def annotated(name: Value, kind: Value = "string") -> Value:
    return {"type": kind, "x-mcp-header": name}


def test_annotations_are_found_in_order_with_their_paths() -> None:
    nested = schema(region=annotated("Region"), plain={"type": "string"}, inner=schema(a=annotated("A-1", "integer")))
    assert headers.param_headers(nested) == (
        ParamHeader("Region", ("region",), "string"),
        ParamHeader("A-1", ("inner", "a"), "integer"),
    )


@pytest.mark.parametrize("name", ["Region", "a", "0", "!#$%&'*+-.^_`|~", "x-mcp-header", "A" * 200])
def test_a_header_name_is_a_token(name: str) -> None:
    assert headers.param_headers(schema(p=annotated(name))) == (ParamHeader(name, ("p",), "string"),)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            "My Region",
            "Region:Primary",
            "Région",
            "Region\t",
            "Region\n",
            "a\r\nX: y",
            "a/b",
            "(a)",
            '"a"',
            "a,b",
        ),
        *("a\x7f", "Ｒegion", None, 1, True, ["Region"], {"name": "Region"}),
    ],
)
def test_any_other_header_name_makes_the_definition_invalid(name: Value) -> None:
    """S129: the table of SEP-2243."""
    with pytest.raises(HeaderError):
        headers.param_headers(schema(p=annotated(name)))


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", "String", "", None, ["string", "null"], 1])
def test_only_three_types_can_be_mirrored(kind: Value) -> None:
    with pytest.raises(HeaderError, match="type"):
        headers.param_headers(schema(p=annotated("Region", kind)))


def test_an_annotation_without_a_type_is_invalid() -> None:
    with pytest.raises(HeaderError, match="type"):
        headers.param_headers(schema(p={"x-mcp-header": "Region"}))


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_each_primitive_type_can_be_mirrored(kind: str) -> None:
    assert headers.param_headers(schema(p=annotated("Region", kind))) == (ParamHeader("Region", ("p",), kind),)


@pytest.mark.parametrize("other", ["Region", "region", "REGION"])
def test_two_annotations_must_differ_by_more_than_case(other: str) -> None:
    with pytest.raises(HeaderError, match="twice"):
        headers.param_headers(schema(a=annotated("Region"), b=schema(c=annotated(other))))


@pytest.mark.parametrize(
    "unreachable",
    [
        {"type": "array", "items": annotated("X")},
        {"type": "array", "items": schema(p=annotated("X"))},
        {"prefixItems": [annotated("X")]},
        {"contains": annotated("X")},
        {"oneOf": [schema(p=annotated("X"))]},
        {"anyOf": [{"type": "null"}, annotated("X")]},
        {"allOf": [annotated("X")]},
        {"not": annotated("X")},
        {"if": schema(p=annotated("X"))},
        {"then": annotated("X")},
        {"else": annotated("X")},
        {"additionalProperties": annotated("X")},
        {"unevaluatedProperties": annotated("X")},
        {"patternProperties": {"^a": annotated("X")}},
        {"propertyNames": annotated("X")},
        {"dependentSchemas": {"a": annotated("X")}},
        {"$defs": {"a": annotated("X")}},
        {"definitions": {"a": schema(p=annotated("X"))}},
        {"x-vendor": {"deep": [annotated("X")]}},
        {"properties": [annotated("X")]},
    ],
)
def test_an_annotation_that_properties_alone_do_not_reach_is_invalid(unreachable: Value) -> None:
    with pytest.raises(HeaderError, match="reachable"):
        headers.param_headers(unreachable)
    with pytest.raises(HeaderError, match="reachable"):
        headers.param_headers(schema(outer=unreachable))


def test_the_schema_itself_cannot_be_annotated() -> None:
    with pytest.raises(HeaderError, match="schema itself"):
        headers.param_headers(annotated("X"))


@pytest.mark.parametrize(
    "harmless",
    [
        None,
        True,
        [],
        "x-mcp-header",
        {},
        {"type": "object"},
        {"default": annotated("a b")},
        {"const": annotated("a b")},
        {"enum": [annotated("a b")]},
        {"examples": [annotated("a b")]},
        {"properties": {"x-mcp-header": {"type": "string"}}},
        {"items": {"properties": {"x-mcp-header": {"type": "string"}}}},
        {"$defs": {"x-mcp-header": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x-mcp-header"}}},
        {"properties": {"a": True, "b": {"enum": ["x-mcp-header"]}}},
    ],
)
def test_data_and_names_are_no_annotations(harmless: Value) -> None:
    assert headers.param_headers(harmless) == ()


def test_depth_alone_makes_no_definition_invalid() -> None:
    deep: Value = annotated("X")
    for _ in range(5000):
        deep = schema(a=deep)
    assert headers.param_headers(deep)[0].path == ("a",) * 5000


HEADERS = headers.param_headers(
    schema(
        s=annotated("S"),
        i=annotated("I", "integer"),
        b=annotated("B", "boolean"),
        o=schema(n=annotated("N", "integer")),
    )
)


def test_a_call_is_rendered_with_one_header_for_each_value() -> None:
    arguments: Value = {"s": "a\r\nX: y", "i": -7, "b": False, "o": {"n": 42}, "unmarked": "z"}
    assert headers.render(arguments, HEADERS) == {
        "Mcp-Param-S": "=?base64?YQ0KWDogeQ==?=",
        "Mcp-Param-I": "-7",
        "Mcp-Param-B": "false",
        "Mcp-Param-N": "42",
    }


@pytest.mark.parametrize(
    "arguments",
    [{}, None, [], "s", {"s": None, "o": None}, {"o": "text"}, {"o": {"x": 1}}, {"s": ["a"], "i": {"a": 1}, "o": []}],
)
def test_absent_and_null_values_have_no_header(arguments: Value) -> None:
    assert headers.render(arguments, HEADERS) == {}
    headers.check(arguments, HEADERS, {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0, "0"),
        (2**53 + 1, "9007199254740993"),
        (42.0, "42"),
        (-0.0, "0"),
        (3.5, "3.5"),
        (1e22, f"{10**22}"),
    ],
)
def test_scalars_are_spelled_even_where_the_schema_forbids_them(value: Value, text: str) -> None:
    """A header left out would be the gateway's fault; a wrong argument stays the caller's."""
    assert headers.render({"i": value}, HEADERS) == {"Mcp-Param-I": text}
    headers.check({"i": value}, HEADERS, {"mcp-param-i": text})


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"s": "us-west1"}, {"mcp-param-s": "us-west1"}),
        ({"s": "us-west1"}, {"mcp-param-s": " us-west1 "}),
        ({"s": "us-west1"}, {"mcp-param-s": "=?base64?dXMtd2VzdDE=?="}),
        ({"s": ""}, {"mcp-param-s": ""}),
        ({"s": "42"}, {"mcp-param-s": "42", "mcp-param-unknown": "x"}),
        ({"i": 42}, {"mcp-param-i": "42.0"}),
        ({"i": 42.0}, {"mcp-param-i": "42"}),
        ({"i": 42}, {"mcp-param-i": "=?base64?NDI=?="}),
        ({"i": 2**53 + 1}, {"mcp-param-i": "9007199254740993"}),
        ({"i": 0}, {"mcp-param-i": "-0"}),
        ({"i": 0.1}, {"mcp-param-i": "0.1"}),
        ({"b": True}, {"mcp-param-b": "true"}),
        ({"o": {"n": -1}}, {"mcp-param-n": "-1"}),
    ],
)
def test_headers_that_say_what_the_body_says_pass(arguments: Value, received: dict[str, str]) -> None:
    headers.check(arguments, HEADERS, received)


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ({"s": "a"}, {}),
        ({"s": ""}, {}),
        ({"i": 0}, {}),
        ({"b": False}, {}),
        ({"i": 2**60}, {}),
        ({"s": "a"}, {"mcp-param-s": "b"}),
        ({"s": "a"}, {"mcp-param-s": "A"}),
        ({"s": "a"}, {"mcp-param-s": ""}),
        ({"s": "42"}, {"mcp-param-s": "42.0"}),
        ({"s": "Hello"}, {"mcp-param-s": "=?base64?SGVsbG8?="}),
        ({"s": "Hello"}, {"mcp-param-s": "=?base64?SGVsbG9=?="}),
        ({"s": "Hello"}, {"mcp-param-s": "=?BASE64?SGVsbG8=?="}),
        ({"s": "é"}, {"mcp-param-s": "é"}),
        ({}, {"mcp-param-s": "a"}),
        ({}, {"mcp-param-s": ""}),
        ({"s": None}, {"mcp-param-s": "null"}),
        ({"s": ["a"]}, {"mcp-param-s": "a"}),
        ({"i": 42}, {"mcp-param-i": "43"}),
        ({"i": 42}, {"mcp-param-i": "42.5"}),
        ({"i": 42}, {"mcp-param-i": "+42"}),
        ({"i": 42}, {"mcp-param-i": "4_2"}),
        ({"i": 100}, {"mcp-param-i": "1e2"}),
        ({"i": 42}, {"mcp-param-i": "٤٢"}),
        ({"i": 42}, {"mcp-param-i": "0x2a"}),
        ({"i": 42}, {"mcp-param-i": "NaN"}),
        ({"i": 42}, {"mcp-param-i": "9" * 5000}),
        ({"i": 42}, {"mcp-param-i": "42." + "0" * 5000}),
        ({"i": 2**53 + 1}, {"mcp-param-i": "9007199254740992"}),
        ({"i": 2**53 + 1}, {"mcp-param-i": "9007199254740992.0"}),
        ({"i": 1}, {"mcp-param-i": "true"}),
        ({"b": True}, {"mcp-param-b": "1"}),
        ({"b": True}, {"mcp-param-b": "True"}),
        ({"b": False}, {"mcp-param-b": "true"}),
    ],
)
def test_a_missing_or_different_header_is_a_mismatch(arguments: Value, received: dict[str, str]) -> None:
    with pytest.raises(HeaderError, match=r"^Mcp-Param-[SIB] "):
        headers.check(arguments, HEADERS, received)


@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "s": st.text(st.characters(codec="utf-8")) | st.none(),
            "i": st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False),
            "b": st.booleans(),
            "o": st.fixed_dictionaries({}, optional={"n": st.integers()}),
        },
    )
)
def test_what_we_render_is_what_we_accept(arguments: dict[str, Value]) -> None:
    """Towards servers and from clients the same rules hold, so they hold in a gateway behind a gateway."""
    rendered = {name.lower(): value for name, value in headers.render(arguments, HEADERS).items()}
    headers.check(json.loads(json.dumps(arguments)), HEADERS, rendered)
