from __future__ import annotations

from typing import Any

import pytest

from gateway.downstream.openapi.bodies import MAX_FIELDS, Body, body_of
from gateway.downstream.openapi.document import DocumentError
from gateway.downstream.openapi.parameters import Parameter
from tests.kit.openapi import Json, body, document, found

OBJECT: Json = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}


def read(node: Json, *taken: str, method: str = "POST", **components: Any) -> Body | None:
    parameters = [Parameter(name, name, "query", "form", True, False, {}) for name in taken]
    return body_of(document(components={"schemas": components}), found(node, method=method), parameters)


def made(node: Json, *taken: str, **components: Any) -> Body:
    one = read(node, *taken, **components)
    assert one is not None
    return one


def test_members_of_an_object_become_arguments() -> None:
    one = made(body(OBJECT))
    assert (one.form, one.media, one.argument) == ("json", "application/json", "")
    assert [(each.argument, each.required) for each in one.fields] == [("a", True), ("b", False)]


def test_several_objects_at_once_are_one() -> None:
    schema = {"allOf": [{"$ref": "#/components/schemas/A"}, {"properties": {"c": {}}, "required": ["c"]}]}
    assert [(each.name, each.required) for each in made(body(schema), A=OBJECT).fields] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {}},
        {"type": "string"},
        {},
        {"type": "object"},
        {**OBJECT, "additionalProperties": True},
        {**OBJECT, "additionalProperties": {"type": "string"}},
        {**OBJECT, "nullable": True},
        {"oneOf": [OBJECT, OBJECT]},
        {"allOf": [OBJECT, {"anyOf": [OBJECT]}]},
        {"allOf": [OBJECT, OBJECT]},
        {"type": ["object", "null"], "properties": {"a": {}}},
        {"properties": {"a b": {}}},
        {"properties": {"日": {}}},
        {"properties": {f"p{n}": {} for n in range(MAX_FIELDS + 1)}},
        {"properties": {"q": {}}},
    ],
)
def test_a_body_that_would_lose_something_by_it_is_one_argument(schema: Any) -> None:
    one = made(body(schema), "q")
    assert (one.argument, one.fields) == ("body", ())


def test_what_only_the_server_writes_is_no_argument() -> None:
    schema = {"properties": {"id": {"$ref": "#/components/schemas/Id"}, "at": {"readOnly": True}, "a": {}}}
    assert [each.name for each in made(body(schema), Id={"readOnly": True}).fields] == ["a"]


def test_the_argument_of_a_whole_body_has_a_name_of_its_own() -> None:
    assert made(body({"type": "array"}), "body").argument == "request_body"
    assert made(body({"type": "array"}), "body", "request_body").argument == "request_body_2"


def test_json_is_preferred_and_other_types_have_their_order() -> None:
    content: Json = {
        name: {"schema": OBJECT}
        for name in (
            "application/xml",
            "multipart/form-data",
            "application/x-www-form-urlencoded",
            "application/vnd.a+json; v=1",
        )
    }
    chosen = []
    while content:
        one = made({"requestBody": {"content": content}})
        chosen.append((one.form, one.media))
        content = {name: entry for name, entry in content.items() if name.partition(";")[0] != one.media}
    assert chosen == [
        ("json", "application/vnd.a+json"),
        ("form", "application/x-www-form-urlencoded"),
        ("multipart", "multipart/form-data"),
        ("text", "application/xml"),
    ]


@pytest.mark.parametrize(
    ("media", "form", "sent"),
    [
        ("text/plain", "text", "text/plain"),
        ("application/yaml", "text", "application/yaml"),
        ("application/octet-stream", "binary", "application/octet-stream"),
        ("image/png", "binary", "image/png"),
        ("*/*", "binary", "application/octet-stream"),
    ],
)
def test_other_bodies_are_text_or_bytes(media: str, form: str, sent: str) -> None:
    one = made(body({"type": "string"}, media))
    assert (one.form, one.media, one.argument) == (form, sent, "body")


def test_a_media_type_that_is_none_is_refused() -> None:
    with pytest.raises(DocumentError, match="media type that is none"):
        made(body({}, "text/x\r\nX-Evil: 1"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_some_methods_have_no_body(method: str) -> None:
    assert read(body(OBJECT), method=method) is None
    assert read({}, method="POST") is None


def test_fields_of_a_form_have_styles_and_types() -> None:
    schema = {
        "properties": {
            "plain": {"type": "string"},
            "several": {"type": "array", "items": {"type": "string"}},
            "object": {"type": "object"},
            "deep": {"type": "object"},
        }
    }
    one = made(
        body(schema, "application/x-www-form-urlencoded", encoding={"deep": {"style": "deepObject", "explode": True}})
    )
    assert [(each.name, each.media, each.style, each.explode) for each in one.fields] == [
        ("plain", "", "form", True),
        ("several", "", "form", True),
        ("object", "application/json", "form", True),
        ("deep", "", "deepObject", True),
    ]


def test_parts_with_bytes_can_be_named_as_files() -> None:
    schema = {
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "new": {"type": "string", "contentMediaType": "image/png"},
            "note": {"type": "string"},
            "meta": {"type": "object"},
        }
    }
    one = made(
        body(
            schema,
            "multipart/form-data",
            encoding={"file": {"contentType": "image/png"}, "note": {"contentType": "a/*, b/c"}},
        )
    )
    assert [(each.name, each.binary, each.filename, each.media) for each in one.fields] == [
        ("file", True, "file_filename", "image/png"),
        ("files", True, "files_filename", "application/octet-stream"),
        ("new", True, "new_filename", "application/octet-stream"),
        ("note", False, "", ""),
        ("meta", False, "", "application/json"),
    ]


@pytest.mark.parametrize("media", ["multipart/form-data", "application/x-www-form-urlencoded"])
def test_members_that_cannot_be_arguments_are_written_alike_inside_of_one(media: str) -> None:
    one = made(body(OBJECT, media), "a")
    assert (one.argument, [each.name for each in one.fields]) == ("body", ["a", "b"])
    odd = made(body({"properties": {"files[]": {"type": "array", "items": {"format": "binary"}}}}, media))
    assert (odd.argument, odd.fields[0].binary) == ("body", media == "multipart/form-data")
    assert made(body({"type": "object"}, media)).fields == ()


def test_parts_without_names_are_refused() -> None:
    with pytest.raises(DocumentError, match="whose parts have no names"):
        made(body({"type": "string"}, "multipart/form-data"))


def test_a_body_in_another_document_is_refused() -> None:
    with pytest.raises(DocumentError, match="another document"):
        made({"requestBody": {"$ref": "bodies.yaml#/A"}})


def test_a_plan_tells_everything_that_is_not_in_the_schema() -> None:
    assert made(body({"properties": {"a": {}}})).plan == [
        "json",
        "application/json",
        True,
        "",
        [["a", "a", "", False, "", "form", True]],
    ]


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_names_that_the_document_gives_are_known_also_where_others_may_be_there(media: str) -> None:
    parts = [{"properties": {"b": {}}}, {"oneOf": [{"properties": {"too_deep": {}}}]}]
    node = body({"type": "object", "properties": {"a": {}}, "anyOf": parts, "additionalProperties": True}, media)
    one = made(node)
    assert (one.argument, one.declared) == ("body", frozenset({"a", "b"}))
    many: Json = {"type": "object", "properties": {f"p{n}": {} for n in range(1_000)}, "additionalProperties": True}
    assert len(made(body(many, media)).declared) == MAX_FIELDS
