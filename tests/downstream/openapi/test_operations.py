from __future__ import annotations

from typing import Any

import pytest

from gateway.downstream.openapi.addresses import Terms
from gateway.downstream.openapi.operations import OPERATION, distinct, made_up, named
from gateway.policy.schemas import Schema, judged
from tests.kit.openapi import Json, answer, body, found, listed, operation, parameter, tools


def test_an_operation_is_listed_as_a_tool() -> None:
    one = operation(
        {
            "summary": "Find a pet",
            "description": "By its id.",
            "parameters": [
                parameter("id", "path", {"type": "integer"}, description="Which"),
                parameter("q", deprecated=True),
            ],
            **answer({"type": "object", "properties": {"name": {"type": "string"}}}),
        },
        "/pets/{id}",
    )
    made = listed(one)
    about = made.pop("_meta")[OPERATION]
    assert made == {
        "name": "op",
        "title": "Find a pet",
        "description": "By its id.",
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": True},
        "inputSchema": {
            "type": "object",
            "properties": {
                "id": {"type": "integer", "description": "Which"},
                "q": {"type": "string", "deprecated": True},
            },
            "required": ["id"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "properties": {"name": {"type": ["string", "null"]}}},
    }
    assert (about["method"], about["path"]) == ("GET", "/v1/pets/{id}")
    assert one.template == "/v1/pets/{id}"
    assert isinstance(judged(one.definition), Schema)


@pytest.mark.parametrize(
    ("method", "read", "destructive", "idempotent"),
    [
        ("get", True, False, True),
        ("head", True, False, True),
        ("options", True, False, True),
        ("post", False, False, False),
        ("put", False, True, True),
        ("patch", False, True, False),
        ("delete", False, True, True),
    ],
)
def test_a_method_says_what_a_tool_may_do(method: str, read: bool, destructive: bool, idempotent: bool) -> None:
    one = operation({}, method=method)
    hints = listed(one)["annotations"]
    assert (hints["readOnlyHint"], hints["destructiveHint"], hints["idempotentHint"]) == (read, destructive, idempotent)
    assert one.is_safe is read


def test_texts_have_their_order_and_deprecation_is_told() -> None:
    assert listed(operation({"summary": "Only that"}))["description"] == "Only that"
    assert "title" not in listed(operation({"description": "d"}))
    assert listed(operation({}))["description"] == "GET /a"
    assert listed(operation({"description": "d", "deprecated": True}))["description"] == "Deprecated. d"
    assert listed(operation({"description": " ", "summary": ""}))["description"] == "GET /a"


def test_arguments_of_a_body_stand_beside_the_parameters() -> None:
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    }
    made = listed(operation({"parameters": [parameter("q")], **body(schema)}, method="post"))["inputSchema"]
    assert list(made["properties"]) == ["q", "name", "age"]
    assert made["required"] == ["name"]


def test_of_a_body_that_may_be_left_out_nothing_is_required() -> None:
    schema = {"required": ["name"], "properties": {"name": {"type": "string"}}}
    assert "required" not in listed(operation(body(schema, required=False), method="post"))["inputSchema"]


def test_members_inside_of_one_argument_are_described_as_they_are_written() -> None:
    schema = {"required": ["f[]"], "properties": {"f[]": {"contentMediaType": "image/png"}, "n": {"type": "string"}}}
    made = listed(operation(body(schema, "multipart/form-data"), method="post"))["inputSchema"]["properties"]
    assert made == {
        "body": {
            "type": "object",
            "properties": {"f[]": {"type": "string", "contentEncoding": "base64"}, "n": {"type": "string"}},
            "required": ["f[]"],
        }
    }


def test_a_whole_body_is_described_as_what_it_is() -> None:
    def whole(node: Json) -> Any:
        return listed(operation(node, method="post"))["inputSchema"]["properties"]["body"]

    assert whole(body({"type": "array", "items": {"type": "string"}})) == {"type": "array", "items": {"type": "string"}}
    assert whole(body({"type": "object"}, "application/xml")) == {
        "type": "string",
        "description": "Text of type application/xml.",
    }
    assert whole(body({}, "image/png")) == {
        "type": "string",
        "contentEncoding": "base64",
        "contentMediaType": "image/png",
    }
    told = body({"type": "array"})
    told["requestBody"]["description"] = "All of them"
    assert whole(told)["description"] == "All of them"


def test_files_are_base64_with_a_name() -> None:
    schema = {
        "properties": {
            "file": {"format": "binary", "type": "string", "description": "The file"},
            "b": {"contentMediaType": "image/png"},
        }
    }
    made = listed(operation(body(schema, "multipart/form-data"), method="post"))["inputSchema"]["properties"]
    assert made == {
        "file": {"type": "string", "contentEncoding": "base64", "description": "The file"},
        "file_filename": {"type": "string", "description": "Name of the file in file."},
        "b": {"type": "string", "contentEncoding": "base64"},
        "b_filename": {"type": "string", "description": "Name of the file in b."},
    }


def test_a_pattern_of_another_language_does_not_cost_the_tool() -> None:
    one = operation({"parameters": [parameter("q", schema={"type": "string", "pattern": "[a-z&&[^aeiou"})]})
    assert listed(one)["inputSchema"]["properties"]["q"] == {"type": "string"}
    kept = operation({"parameters": [parameter("q", schema={"type": "string", "pattern": "^[a-z]+$"})]})
    assert listed(kept)["inputSchema"]["properties"]["q"]["pattern"] == "^[a-z]+$"


def test_what_is_accepted_is_what_is_documented() -> None:
    node: Json = {
        "responses": {"200": {"content": {"text/csv": {}, "application/vnd.a+json": {}, "bad type": {}, "image/*": {}}}}
    }
    assert operation(node).accept == "application/vnd.a+json, text/csv, */*;q=0.1"
    assert operation({}).accept == "application/json, */*;q=0.1"


def test_a_schema_that_is_false_or_true_is_an_object_for_clients() -> None:
    node = {"parameters": [parameter("a", schema=True), parameter("b", schema=False)]}
    assert listed(operation(node))["inputSchema"]["properties"] == {"a": {}, "b": {"not": {}}}


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": [parameter("q", style="pipeDelimited")]},
        {"parameters": [parameter("q", allowReserved=True)]},
        {"parameters": [parameter("q", "header")]},
        {"parameters": [parameter("q")], "responses": {"200": {"content": {"text/csv": {}}}}},
    ],
)
def test_whatever_changes_the_request_changes_the_definition(change: Json) -> None:
    """Pins compare definitions: the same arguments must not silently go another way."""
    before = operation({"parameters": [parameter("q")]})
    after = operation(change)
    assert listed(before)["inputSchema"] == listed(after)["inputSchema"]
    assert before.definition.digest != after.definition.digest


def test_another_path_or_method_is_another_definition() -> None:
    one = operation({"description": "d"})
    assert one.definition.digest == operation({"description": "d"}).definition.digest
    assert one.definition.digest != operation({"description": "d"}, "/b").definition.digest
    elsewhere = operation({"description": "d"}, terms=Terms("https://api.example/v2"))
    assert one.definition.digest != elsewhere.definition.digest


def test_a_query_in_the_path_is_no_argument_and_part_of_the_definition() -> None:
    node = {"operationId": "op", "parameters": [parameter("beta"), parameter("n"), parameter("id", "path")]}
    terms = Terms("https://api.example/v1?key=s3cret")
    made = tools({"/a/{id}?beta=true#x": {"get": node}, "/a/{id}": {"get": {**node, "operationId": "other"}}}, terms)
    one, other = made.operations["op"], made.operations["other"]
    assert (one.template, one.query, other.query) == ("/v1/a/{id}", "beta=true", "")
    assert listed(one)["_meta"][OPERATION]["path"] == "/v1/a/{id}?beta=true"
    assert [*listed(one)["inputSchema"]["properties"]] == ["id", "n"]
    assert [*listed(other)["inputSchema"]["properties"]] == ["id", "beta", "n"]
    refused: Json = {"/a?KEY[]=mine": {"get": {}}, "/b?_METHOD=DELETE": {"get": {}}, "/c": {"get": {}}}
    assert [name for name, _ in tools(refused, terms).left_out] == ["GET_a_KEY_mine", "GET_b_METHOD_DELETE"]


def test_where_a_file_sends_calls_is_part_of_the_definition() -> None:
    """Nobody but the document says where that is: pins must not let it move calls to another host."""

    def at(url: str, terms: Terms) -> str:
        return operation({"description": "d"}, terms=terms, servers=[{"url": url}]).definition.digest

    ours, theirs = "https://api.example/v1", "https://evil.example/v1"
    assert at(ours, Terms()) == at("https://API.example:443/v1/", Terms())
    assert len({at(url, Terms()) for url in (ours, theirs, "http://api.example/v1", "https://api.example/v2")}) == 4
    told = listed(operation({}, terms=Terms(), servers=[{"url": theirs}]))
    assert "evil.example" not in str(told)
    # Where an operator wrote the address, whether of the API or of the document, no document moves a call.
    assert at(ours, Terms("https://mine.example")) == at(theirs, Terms("https://mine.example"))
    fetched = Terms(document_url="https://api.example/openapi.json")
    assert at(ours, fetched) == at("/v1", fetched) != at("/v2", fetched)


def test_an_operation_at_another_origin_is_left_out() -> None:
    paths = {
        "/a": {"get": {"operationId": "a"}},
        "/b": {"get": {"operationId": "b", "servers": [{"url": "https://uploads.example"}]}},
        "/c": {"servers": [{"url": "https://api.example/v2"}], "get": {"operationId": "c"}},
    }
    made = tools(paths, Terms(document_url="https://api.example/openapi.json"))
    assert {name: each.template for name, each in made.operations.items()} == {"a": "/a", "c": "/v2/c"}
    assert [name for name, _ in made.left_out] == ["b"]
    assert "another origin" in made.left_out[0][1]
    assert set(tools(paths).operations) == {"a", "b", "c"}


def test_names_of_operations() -> None:
    assert named(found({"operationId": "repos/get"})) == "repos/get"
    for bad in ("", " a", "a\n", "x" * 129, 3, None):
        assert named(found({"operationId": bad})) == ""
    assert made_up(found({}, "/pets/{petId}/tags.json")) == "GET_pets_petId_tags_json"
    assert made_up(found({}, "/")) == "GET"
    assert (
        distinct("GET_a", found({}, "/a")) == distinct("GET_a", found({}, "/a")) != distinct("GET_a", found({}, "/{a}"))
    )
    assert len(distinct("x" * 128, found({}, "/a"))) == 128
