from __future__ import annotations

import pytest

from gateway.downstream.openapi.addresses import Terms
from gateway.downstream.openapi.document import DocumentError
from gateway.downstream.openapi.parameters import MAX_PARAMETERS, Parameter, is_argument, parameters_of
from tests.kit.openapi import Json, document, found, parameter


def read(*nodes: Json, path: str = "/a", item: Json | None = None, terms: Terms | None = None) -> list[Parameter]:
    one = found({"parameters": list(nodes)}, path, item=item)
    return list(parameters_of(document(), one, terms or Terms()))


def test_each_place_has_its_style_and_explosion() -> None:
    """OpenAPI Parameter Object: explode is true for form alone, where nothing is said."""
    known = {
        each.place: (each.style, each.explode)
        for each in read(
            parameter("p", "path"), parameter("q"), parameter("H", "header"), parameter("c", "cookie"), path="/{p}"
        )
    }
    assert known == {
        "path": ("simple", False),
        "query": ("form", True),
        "header": ("simple", False),
        "cookie": ("form", True),
    }


@pytest.mark.parametrize("style", ["spaceDelimited", "pipeDelimited", "deepObject"])
def test_no_other_style_explodes_by_itself(style: str) -> None:
    (one,) = read(parameter("q", style=style))
    assert (one.style, one.explode) == (style, False)
    (told,) = read(parameter("q", style=style, explode=True))
    assert told.explode


def test_a_style_that_is_none_of_its_place_is_not_used() -> None:
    assert read(parameter("q", style="matrix"))[0].style == "form"
    assert read(parameter("q", style=3))[0].style == "form"


def test_an_operation_overrides_its_path() -> None:
    item: Json = {"parameters": [parameter("a", description="path"), parameter("b"), parameter("X-H", "header")]}
    got = read(parameter("a", description="own"), parameter("x-h", "header", description="own"), item=item)
    assert [(each.name, each.description) for each in got] == [("a", "own"), ("b", ""), ("x-h", "own")]


def test_names_of_the_path_are_required_also_those_that_are_not_declared() -> None:
    got = read(parameter("a", "path", required=False), parameter("gone", "path"), path="/{a}/{b}/{a}")
    assert [(each.name, each.required) for each in got] == [("a", True), ("b", True)]


def test_equal_names_are_told_apart_by_their_place() -> None:
    got = read(parameter("id", "query"), parameter("id", "header"), parameter("id", "path"), path="/{id}")
    assert [(each.argument, each.place) for each in got] == [
        ("id", "path"),
        ("id_query", "query"),
        ("id_header", "header"),
    ]


def test_names_that_model_apis_refuse_are_made_plain() -> None:
    got = read(
        parameter("filter[name]"), parameter("$top"), parameter("filter.name"), parameter("日本"), parameter("日本2")
    )
    assert [each.argument for each in got] == ["filter_name", "top", "filter.name", "query", "2"]
    assert all(is_argument(each.argument) for each in got)
    assert got[0].name == "filter[name]"


@pytest.mark.parametrize(
    "name",
    [
        "Accept",
        "content-type",
        "AUTHORIZATION",
        "Host",
        "Connection",
        "Transfer-Encoding",
        "Content-Length",
        "Cookie",
        "X-HTTP-Method-Override",
        "X-Forwarded-Host",
        "X-Original-URL",
        "Proxy-Authorization",
        "Proxy",
        "traceparent",
        "TraceState",
        "Baggage",
        "X-Forwarded",
        "X-Forwarded-User",
        "x_forwarded_client_cert",
        "X-Forwarded_For",
        "X-Forwarded-Anything",
        "Forwarded",
        "Forwarded-For",
        "Via",
        "X-Real-IP",
        "X-Client-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "X_HTTP_Method_Override",
        "X-Method-Override",
        "Content_Type",
        "Bad Name",
        "Bad\r\nName",
    ],
)
def test_header_fields_that_no_argument_may_set_are_left_out(name: str) -> None:
    assert read(parameter(name, "header"), parameter("X-Fine", "header"))[0].name == "X-Fine"


def test_what_the_config_sends_is_no_argument() -> None:
    terms = Terms("https://a.example/?api_key=s3cret&v=", headers=frozenset({"x-api-key", "cookie"}))
    got = read(
        parameter("api_key"),
        parameter("v"),
        parameter("q"),
        parameter("X-Api-Key", "header"),
        parameter("c", "cookie"),
        terms=terms,
    )
    assert [each.name for each in got] == ["q"]


def test_what_the_config_sends_is_no_argument_in_any_spelling_that_servers_take() -> None:
    """WSGI and CGI do not tell ``_`` from ``-``; frameworks read ``KEY``, ``key[]`` or ``key[a]`` as ``key``."""
    terms = Terms("https://a.example/?api_key=s3cret", headers=frozenset({"x-api-key", "x_tenant"}))
    names = ("API_KEY", "api_key[]", "Api_Key[a]", "api.key", " api_key", "api key", "api_key2", "key")
    fields = ("X_Api_Key", "x-api_KEY", "X-Tenant", "X-Api-Key2")
    got = read(*map(parameter, names), *(parameter(name, "header") for name in fields), terms=terms)
    assert [each.name for each in got] == ["api_key2", "key", "X-Api-Key2"]


def test_a_parameter_may_be_a_text_of_a_media_type() -> None:
    (one,) = read({"name": "f", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}})
    assert (one.media, one.schema) == ("application/json", {"type": "object"})
    (text,) = read({"name": "f", "in": "query", "content": {"text/csv": {"schema": {"type": "array"}}}})
    assert (text.media, text.schema) == ("text/csv", {"type": "string"})


def test_a_place_that_is_not_known_is_refused() -> None:
    with pytest.raises(DocumentError, match="a parameter in querystring"):
        read(parameter("q", "querystring"))


def test_parameters_are_bounded_and_broken_ones_left_out() -> None:
    assert read({"in": "query"}, {"name": "a"}, {"name": 1, "in": "query"}) == []
    with pytest.raises(DocumentError, match="more than 200 parameters"):
        read(*(parameter(f"p{number}") for number in range(MAX_PARAMETERS + 1)))


def test_a_plan_tells_everything_that_is_not_in_the_schema() -> None:
    (one,) = read(parameter("q", style="pipeDelimited", allowReserved=True))
    assert one.plan == ["q", "q", "query", "pipeDelimited", False, True, ""]
