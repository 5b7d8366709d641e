"""Arguments in path, query, header fields and cookies, by the tables of OpenAPI 3.1 §Style Examples; and back again."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from gateway.downstream.openapi.addresses import Terms, is_dots
from gateway.downstream.openapi.parameters import Parameter
from gateway.downstream.openapi.serialise import (
    MAX_TARGET,
    BadArgument,
    header_fields,
    pairs_of,
    path_of,
    target,
    text_of,
)
from gateway.protocol.rawjson import Value

ARRAY, OBJECT = ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}
NOTHING: frozenset[str] = frozenset()


def one(place: str, style: str, explode: bool, name: str = "color", **more: Any) -> Parameter:
    return Parameter(name, name, place, style, explode, True, {}, **more)


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, ARRAY, "blue,black,brown"),
        ("simple", True, ARRAY, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, ARRAY, ".blue,black,brown"),
        ("label", True, ARRAY, ".blue.black.brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, ARRAY, ";color=blue,black,brown"),
        ("matrix", True, ARRAY, ";color=blue;color=black;color=brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
        ("simple", False, 7, "7"),
        ("simple", False, True, "true"),
        ("simple", False, 2.0, "2"),
        ("simple", False, "a/b?c#d e%2F", "a%2Fb%3Fc%23d%20e%252F"),
    ],
)
def test_styles_of_a_path(style: str, explode: bool, value: Any, written: str) -> None:
    assert path_of("/x/{color}/y", [one("path", style, explode)], {"color": value}) == f"/x/{written}/y"


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("form", True, "blue", "color=blue"),
        ("form", True, "", "color="),
        ("form", True, ARRAY, "color=blue&color=black&color=brown"),
        ("form", False, ARRAY, "color=blue,black,brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, [], ""),
        ("form", False, [], ""),
        ("form", True, [{"a": 1}], "color=%7B%22a%22%3A1%7D"),
        ("spaceDelimited", False, ARRAY, "color=blue%20black%20brown"),
        ("spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("spaceDelimited", True, ARRAY, "color=blue&color=black&color=brown"),
        ("pipeDelimited", False, ARRAY, "color=blue%7Cblack%7Cbrown"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        (
            "deepObject",
            True,
            {"a": {"b": [1, {"c": None, "d": "x y"}]}},
            "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D%5Bd%5D=x%20y",
        ),
        ("deepObject", True, "plain", "color=plain"),
        ("form", True, "a&b=c#d+e", "color=a%26b%3Dc%23d%2Be"),
    ],
)
def test_styles_of_a_query(style: str, explode: bool, value: Any, written: str) -> None:
    assert "&".join(pairs_of(one("query", style, explode), value)) == written


def test_reserved_characters_may_stay_but_never_those_that_end_a_value() -> None:
    reserved = one("query", "form", True, reserved=True)
    assert pairs_of(reserved, "a/b:c?d=e,f;g&h#i+j[k]%20") == ["color=a/b:c?d=e,f%3Bg%26h%23i%2Bj%5Bk%5D%2520"]
    assert pairs_of(reserved, {"k=&": "v/"}) == ["k%3D%26=v/"]


def test_a_value_with_a_media_type_is_a_text_of_it() -> None:
    assert pairs_of(one("query", "form", True, media="application/json"), {"a": [1]}) == [
        "color=%7B%22a%22%3A%5B1%5D%7D"
    ]
    assert pairs_of(one("query", "form", True, media="text/csv"), "a,b") == ["color=a%2Cb"]
    assert (
        path_of("/{color}", [one("path", "simple", False, media="application/json")], {"color": ["a"]})
        == "/%5B%22a%22%5D"
    )


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "../x",
        "a/../../b",
        "..\\x",
        "%2e%2e",
        "%2E%2e%2Fadmin",
        "%252e%252e%252fadmin",
        "..;/x",
        "..;a=b/x",
        "a/..",
        ["..", "x"],
        ".. ",
        "..%20",
        {"a": "../b"},
        "a\x00b",
        "a\r\nb",
        "a\x85b",
        "%0d%0a",
    ],
)
def test_a_path_parameter_never_climbs(value: Any) -> None:
    with pytest.raises(BadArgument) as caught:
        path_of("/x/{color}/y", [one("path", "simple", False)], {"color": value})
    assert str(caught.value).startswith("color: it ")


@pytest.mark.parametrize("value", ["", None, [], {}])
def test_a_path_parameter_is_never_empty(value: Any) -> None:
    """DELETE /pets/ is not what DELETE /pets/{id} is meant to be."""
    with pytest.raises(BadArgument, match="it is part of the path"):
        path_of("/pets/{color}", [one("path", "simple", False)], {"color": value})


def test_parts_of_a_segment_never_make_a_step_together() -> None:
    both = [one("path", "simple", False, "a"), one("path", "label", False, "b")]
    assert path_of("/x{a}/{a}{b}", both, {"a": "1", "b": "2"}) == "/x1/1.2"
    for first, second in (("1", "."), (".", "1")):
        with pytest.raises(BadArgument):
            path_of("/{a}{b}", both, {"a": first, "b": second})
    with pytest.raises(BadArgument, match="another path"):
        path_of("/.{a}", [one("path", "label", False, "a")], {"a": ""})


@pytest.mark.parametrize(("first", "second"), [("%2", "e%2e"), ("%2f..%2", "f"), ("%252e%25", "2e")])
def test_parts_of_a_segment_make_no_step_for_a_server_that_decodes_again(first: str, second: str) -> None:
    both = [one("path", "simple", False, "a"), one("path", "simple", False, "b")]
    with pytest.raises(BadArgument, match="it would lead to another path"):
        path_of("/x/{a}{b}/y", both, {"a": first, "b": second})


def test_what_a_value_holds_is_no_name_of_another_parameter() -> None:
    both = [one("path", "simple", False, "a"), one("path", "simple", False, "b")]
    assert path_of("/{a}/{b}", both, {"a": "{b}", "b": "x"}) == "/%7Bb%7D/x"


def test_the_configured_query_is_always_sent_and_nothing_sets_it_again() -> None:
    exploded = one("query", "form", True, "more")
    assert target("/a", [exploded], {}, "key=s3cret", frozenset({"key"})) == "/a?key=s3cret"
    assert target("/a", [exploded], {"more": {"x": 1}}, "key=s3cret", frozenset({"key"})) == "/a?key=s3cret&x=1"
    with pytest.raises(BadArgument, match="the gateway's own configuration"):
        target("/a", [exploded], {"more": {"key": "mine"}}, "key=s3cret", frozenset({"key"}))
    assert "k%2565y=mine" in target("/a", [exploded], {"more": {"k%65y": "mine"}}, "key=s3cret", frozenset({"key"}))


@pytest.mark.parametrize("key", ["API_KEY", "api_key[]", "Api_Key[0][a]", "api.key", " api_key", "api key", "api[key"])
def test_a_name_in_the_query_of_the_config_is_set_in_no_spelling_that_frameworks_take(key: str) -> None:
    fixed = Terms("https://a.example/?api_key=s3cret").fixed
    with pytest.raises(BadArgument, match="more: it would set what the gateway's own configuration sets"):
        target("/a", [one("query", "form", True, "more")], {"more": {key: "mine"}}, "api_key=s3cret", fixed)
    # In brackets behind the parameter's own name it is a member of that.
    deep = target("/a", [one("query", "deepObject", True, "more")], {"more": {key: "mine"}}, "", fixed)
    assert deep.startswith("/a?more%5B")


@pytest.mark.parametrize("key", ["_method", "_METHOD", "_method[]"])
def test_an_argument_does_not_choose_another_method(key: str) -> None:
    with pytest.raises(BadArgument, match="more: it would make the request one of another method"):
        target("/a", [one("query", "form", True, "more")], {"more": {key: "DELETE"}}, "", NOTHING)
    declared = [one("query", "form", True, "_method")]
    assert target("/a", declared, {"_method": "x"}, "", NOTHING) == "/a?_method=x"


def test_what_an_argument_holds_ends_no_value_where_a_semicolon_does() -> None:
    reserved = one("query", "form", True, reserved=True)
    assert target("/a", [reserved], {"color": "x;api_key=mine"}, "", NOTHING) == "/a?color=x%3Bapi_key=mine"


def test_an_address_is_bounded() -> None:
    with pytest.raises(BadArgument, match=f"more than {MAX_TARGET} bytes"):
        target("/a", [one("query", "form", True)], {"color": "x" * MAX_TARGET}, "", NOTHING)


def test_arguments_that_are_not_there_are_not_sent() -> None:
    every = [one("query", "form", True, "q"), one("header", "simple", False, "H"), one("cookie", "form", True, "c")]
    assert target("/a", every, {"q": None}, "", NOTHING) == "/a"
    assert header_fields(every, {"H": None, "other": "x"}) == {}


@pytest.mark.parametrize(
    ("explode", "value", "written"),
    [
        (False, "blue", "blue"),
        (False, ARRAY, "blue,black,brown"),
        (False, OBJECT, "R,100,G,200,B,150"),
        (True, OBJECT, "R=100,G=200,B=150"),
        (False, 5, "5"),
        (False, " é ", "é"),
    ],
)
def test_styles_of_a_header_field(explode: bool, value: Any, written: str) -> None:
    assert header_fields([one("header", "simple", explode, "X-A")], {"X-A": value}) == {"X-A": written}


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nb", "a\x00", ["a", "b\r\nc"], {"a\n": 1}, "日本", "a\x7f", "a\x85b"]
)
def test_a_header_field_never_ends_early(value: Any) -> None:
    with pytest.raises(BadArgument, match="cannot be sent in a header field"):
        header_fields([one("header", "simple", False, "X-A")], {"X-A": value})


def test_cookies_share_one_field_and_stay_in_their_places() -> None:
    both = [one("cookie", "form", True, "a"), one("cookie", "form", True, "b")]
    assert header_fields(both, {"a": 'x; b="evil", é', "b": ["1", "2"]}) == {
        "Cookie": "a=x%3B%20b=%22evil%22%2C%20%C3%A9; b=1%2C2"
    }


def test_texts_of_values() -> None:
    values: list[Value] = [1, 1.5, 2.0, 1e300, True, None, "x", [1], {"a": None}]
    assert [text_of(each) for each in values] == [
        "1",
        "1.5",
        "2",
        "1e300",
        "true",
        "null",
        "x",
        "[1]",
        '{"a":null}',
    ]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans())
STYLES = st.sampled_from(
    [("simple", False), ("simple", True), ("label", False), ("label", True), ("matrix", False), ("matrix", True)]
)


@given(STYLES, st.one_of(SCALARS, st.lists(TEXTS, max_size=4), st.dictionaries(TEXTS, TEXTS, max_size=4)))
def test_no_value_ever_leaves_the_path_of_its_operation(style: tuple[str, bool], value: Any) -> None:
    """However it is written: under the prefix, with as many segments as the template, without a query of its own."""
    try:
        made = target("/api/v1/pets/{color}/tags", [one("path", *style)], {"color": value}, "", NOTHING)
    except BadArgument:
        return
    url = URL(f"https://api.example{made}", encoded=True)
    assert (url.host, url.scheme, url.raw_query_string, url.raw_fragment) == ("api.example", "https", "", "")
    segments = url.raw_path.split("/")
    assert segments[:4] == ["", "api", "v1", "pets"]
    assert segments[5:] == ["tags"]
    assert segments[4]
    assert not any(map(is_dots, segments))
    assert urlsplit(made).path == made
    if style[0] == "simple" and isinstance(value, str):
        assert unquote(segments[4]) == value


@given(st.dictionaries(TEXTS, SCALARS, max_size=4), st.lists(TEXTS, max_size=4), TEXTS, st.booleans())
def test_what_is_written_into_a_query_is_what_is_read_from_it(
    deep: dict[str, Any], several: list[str], text: str, reserved: bool
) -> None:
    parameters = [
        one("query", "deepObject", True, "deep"),
        one("query", "form", True, "several"),
        one("query", "form", True, "text", reserved=reserved),
    ]
    made = target("/a", parameters, {"deep": deep, "several": [*several], "text": text}, "", NOTHING)
    expected = [(f"deep[{key}]", text_of(item)) for key, item in deep.items()]
    expected += [*(("several", item) for item in several), ("text", text)]
    assert parse_qsl(urlsplit(f"https://api.example{made}").query, keep_blank_values=True) == expected
    assert [*URL(f"https://api.example{made}", encoded=True).query.items()] == expected


@given(TEXTS, TEXTS)
def test_no_value_ever_starts_another_header_field(value: str, cookie: str) -> None:
    parameters = [one("header", "simple", False, "X-A"), one("cookie", "form", True, "c")]
    try:
        fields = header_fields(parameters, {"X-A": value, "c": cookie})
    except BadArgument:
        return
    assert not any(ord(char) < 32 and char != "\t" for field in fields.values() for char in field)
    assert ";" not in fields["Cookie"]
    assert unquote(fields["Cookie"].removeprefix("c=")) == cookie
