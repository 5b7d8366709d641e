from __future__ import annotations

import json

import pytest

from gateway.config.root import View
from gateway.endpoint import on_demand
from gateway.endpoint.on_demand import Describe, Search
from gateway.errors import RequestError
from gateway.protocol.rawjson import Object
from gateway.protocol.versions import Era
from tests.kit.endpoint import config


def test_only_views_in_search_mode_offer_tools_on_demand() -> None:
    settings = config(views={"all": View(include=["notes/*"]), "few": View(include=["notes/*"], mode="search")})
    assert [on_demand.applies(settings, view) for view in (None, "all", "few", "gone")] == [False, False, True, False]


def test_the_three_tools_are_whole_definitions() -> None:
    tools = [json.loads(item) for item in on_demand.definitions(Era.MODERN)]
    assert [tool["name"] for tool in tools] == ["search_tools", "describe_tool", "call_tool"]
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools)
    assert len(b"".join(on_demand.definitions(Era.LEGACY))) < 3000


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"name": "search_tools", "arguments": {"query": "a"}}, Search("a", 10)),
        ({"name": "search_tools", "arguments": {"query": "a", "limit": 50}}, Search("a", 50)),
        ({"name": "describe_tool", "arguments": {"name": "t"}}, Describe("t")),
        ({"name": "call_tool", "arguments": {"name": "t"}}, None),
        ({"name": "t"}, None),
        ({}, None),
    ],
)
def test_questions_to_the_view_itself_are_read(params: Object, expected: object) -> None:
    assert on_demand.question(params) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("search_tools", {}, "query must be"),
        ("search_tools", {"query": " "}, "query must be"),
        ("search_tools", {"query": "x" * 401}, "at most 400"),
        ("search_tools", {"query": "x", "limit": 0}, "from 1 to 50"),
        ("search_tools", {"query": "x", "limit": 51}, "from 1 to 50"),
        ("search_tools", {"query": "x", "limit": True}, "from 1 to 50"),
        ("describe_tool", {"name": 1}, "name must be"),
        ("describe_tool", [], "arguments must be an object"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name: str, arguments: object, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        on_demand.question({"name": name, "arguments": arguments})  # type: ignore[dict-item]  # reason: any JSON.


def test_what_is_inside_a_call_tool_is_the_call() -> None:
    wrapped: Object = {"name": "call_tool", "arguments": {"name": "t", "arguments": {"a": 1}, "other": 2}}
    assert on_demand.inner(wrapped) == {"name": "t", "arguments": {"a": 1}}
    assert on_demand.inner({"name": "call_tool", "arguments": {"name": "t"}}) == {"name": "t"}
    assert on_demand.inner({"name": "t", "arguments": {}}) == {"name": "t", "arguments": {}}


@pytest.mark.parametrize("arguments", [{}, {"name": ""}, {"name": "t", "arguments": '{"a": 1}'}, "text"])
def test_a_call_tool_without_a_call_is_refused(arguments: object) -> None:
    with pytest.raises(RequestError, match="Invalid params: call_tool"):
        on_demand.inner({"name": "call_tool", "arguments": arguments})  # type: ignore[dict-item]  # reason: any JSON.
