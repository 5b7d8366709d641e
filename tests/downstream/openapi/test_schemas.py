from __future__ import annotations

from typing import Any

import pytest

from gateway.downstream.openapi import document
from gateway.downstream.openapi import schemas as module
from gateway.downstream.openapi.document import Document, DocumentError
from gateway.downstream.openapi.schemas import MAX_ENUM, promised, requested
from gateway.policy.schemas import Schema, compiled
from gateway.protocol.rawjson import Object, Value
from tests.kit.openapi import schemas

REF = "#/components/schemas/"


def request(schema: Value, doc: Document | None = None, *, patterns: bool = True) -> Value:
    made = requested(doc or schemas(), lambda each: {"s": each.of(schema)}, patterns=patterns)
    return made if "$defs" in made else made["s"]


def response(schema: Value, doc: Document | None = None) -> Value:
    return promised(doc or schemas(), lambda each: {"s": each.of(schema)})["s"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": ["integer", "null"]}, {"type": ["integer", "null"]}),
        (
            {"oneOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        (
            {"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
            {"exclusiveMinimum": 1, "maximum": 9},
        ),
        ({"exclusiveMinimum": 3}, {"exclusiveMinimum": 3}),
        ({"type": "string", "format": "binary"}, {"type": "string", "contentEncoding": "base64"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "integer", "example": 3}, {"type": "integer", "examples": [3]}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}),
        ({"type": "file"}, {}),
        ({"discriminator": {}, "xml": {}, "externalDocs": {}, "x-a": 1, "$id": "http://a/", "$schema": "b"}, {}),
        ({"const": {"a": 1}, "default": [1]}, {"const": {"a": 1}, "default": [1]}),
        (
            {"additionalProperties": {"type": "string", "nullable": True}},
            {"additionalProperties": {"type": ["string", "null"]}},
        ),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        (True, True),
        ("nothing", {}),
    ],
)
def test_schemas_of_3_0_and_3_1_become_json_schema(before: Value, after: Value) -> None:
    assert request(before) == after


def test_references_are_put_in_place_with_what_stands_beside_them() -> None:
    doc = schemas(
        A={"type": "object", "properties": {"b": {"$ref": REF + "B", "description": "mine"}}}, B={"type": "string"}
    )
    assert request({"$ref": REF + "A"}, doc) == {
        "type": "object",
        "properties": {"b": {"type": "string", "description": "mine"}},
    }


def test_what_narrows_beside_a_reference_counts_since_3_1() -> None:
    beside: Value = {"$ref": REF + "B", "maxLength": 3}
    assert request(beside, schemas("3.1.0", B={"type": "string"})) == {"allOf": [{"type": "string"}, {"maxLength": 3}]}
    assert request(beside, schemas("3.0.0", B={"type": "string"})) == {"type": "string"}
    nullable: Value = {"$ref": REF + "B", "nullable": True}
    assert request(nullable, schemas("3.0.0", B={"type": "string"})) == {
        "anyOf": [{"type": "string"}, {"type": "null"}]
    }


def test_a_schema_that_contains_itself_is_kept_as_a_definition() -> None:
    def tree(reference: str) -> Any:
        kids = {"type": "array", "items": {"$ref": reference}}
        return {"type": "object", "properties": {"name": {"type": "string"}, "kids": kids}}

    doc = schemas(Tree=tree(REF + "Tree"), Holder={"properties": {"tree": {"$ref": REF + "Tree"}}})
    made = request({"$ref": REF + "Holder"}, doc)
    assert made == {
        "s": {"properties": {"tree": {"$ref": "#/$defs/Tree"}}},
        "$defs": {"Tree": tree("#/$defs/Tree")},
    }
    whole: Object = {"type": "object", "properties": {"s": made["s"]}, "$defs": made["$defs"]}
    judged = compiled(whole)
    assert isinstance(judged, Schema)
    assert judged.faults({"s": {"tree": {"kids": [{"kids": [{"name": 1}]}]}}})
    assert not judged.faults({"s": {"tree": {"kids": [{"kids": [{"name": "x"}]}]}}})


def test_schemas_that_contain_each_other_are_kept_too() -> None:
    doc = schemas(
        A={"properties": {"b": {"$ref": REF + "B"}}},
        B={"properties": {"a": {"$ref": REF + "A"}, "b": {"$ref": REF + "B"}}},
    )
    made = request({"$ref": REF + "A"}, doc)
    assert isinstance(made, dict)
    assert isinstance(made["$defs"], dict)
    assert "A" in made["$defs"]


def test_references_to_nothing_but_each_other_are_refused() -> None:
    doc = schemas(A={"$ref": REF + "B"}, B={"$ref": REF + "A"})
    with pytest.raises(DocumentError, match="nothing but references"):
        request({"$ref": REF + "A"}, doc)


def test_a_schema_that_would_grow_exponentially_keeps_its_references() -> None:
    """Thirty schemas that each use the next one twice: a thousand million values in place."""
    named: dict[str, Any] = {
        f"S{n}": {"type": "object", "properties": {key: {"$ref": f"{REF}S{n + 1}"} for key in "ab"}} for n in range(30)
    }
    made = request({"$ref": REF + "S0"}, schemas(**named, S30={"type": "string"}))
    assert isinstance(made, dict)
    assert isinstance(made["$defs"], dict)
    assert len(made["$defs"]) == 31


def test_a_long_chain_of_references_keeps_them() -> None:
    named: dict[str, Any] = {f"Item{n}": {"properties": {"a": {"$ref": f"{REF}Item{n + 1}"}}} for n in range(200)}
    made = request({"$ref": REF + "Item0"}, schemas(**named, Item200={"type": "string"}))
    assert isinstance(made, dict)
    assert "$defs" in made


def test_what_is_too_large_or_too_deep_in_any_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Value = {"type": "string"}
    for _ in range(module.MAX_NESTING + 1):
        deep = {"items": deep}
    with pytest.raises(DocumentError, match="too large or nested too deep"):
        request(deep)
    monkeypatch.setattr(module, "MAX_SCHEMA", 50)
    monkeypatch.setattr(module, "MAX_INLINE", 50)
    with pytest.raises(DocumentError, match="too large or nested too deep"):
        request({"properties": {f"p{n}": {} for n in range(60)}})
    with pytest.raises(DocumentError, match="too large or nested too deep"):
        request({"default": list(range(60))})


def test_a_very_long_enumeration_is_left_to_the_server() -> None:
    values: list[Value] = [str(n) for n in range(MAX_ENUM + 1)]
    assert request({"type": "string", "enum": values}) == {"type": "string"}
    assert request({"type": "string", "enum": values[1:]}) == {"type": "string", "enum": values[1:]}


def test_what_only_the_server_writes_is_no_part_of_a_request() -> None:
    doc = schemas(Id={"type": "integer", "readOnly": True})
    schema: Value = {
        "required": ["id", "name", "secret"],
        "properties": {"id": {"$ref": REF + "Id"}, "name": {}, "at": {"readOnly": True}, "secret": {"writeOnly": True}},
    }
    assert request(schema, doc) == {"required": ["name", "secret"], "properties": {"name": {}, "secret": {}}}
    assert response(schema, doc) == {"properties": {"id": {"type": ["integer", "null"]}, "name": {}, "at": {}}}


def test_what_only_the_server_writes_is_not_required_by_another_of_several_schemas_at_once() -> None:
    doc = schemas(
        Base={"properties": {"id": {"readOnly": True}, "name": {}}},
        More={"required": ["id", "x"], "properties": {"x": {}}},
    )
    both: list[Value] = [{"$ref": REF + "Base"}, {"$ref": REF + "More"}]
    written: list[Value] = [{"properties": {"name": {}}}, {"required": ["x"], "properties": {"x": {}}}]
    assert request({"allOf": both}, doc) == {"allOf": written}
    assert request({"allOf": both[:1], "required": ["id", "name"]}, doc) == {"allOf": written[:1], "required": ["name"]}
    either: list[Value] = [{"required": ["id"]}, {"required": ["name"]}]
    made = request({"allOf": both[:1], "anyOf": either}, doc)
    assert made == {"allOf": written[:1], "anyOf": [{}, {"required": ["name"]}]}
    # What is meant for something inside of it, or stands alone, is another thing.
    inside: Value = {"properties": {"id": {"readOnly": True}, "a": {"required": ["id"]}}}
    assert request(inside, doc) == {"properties": {"a": {"required": ["id"]}}}
    assert request({"$ref": REF + "More"}, doc) == {"required": ["id", "x"], "properties": {"x": {}}}


def test_of_answers_only_names_and_types_are_promised() -> None:
    schema: Value = {
        "type": "object",
        "additionalProperties": False,
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "format": "date-time", "enum": ["x"], "pattern": "^x", "description": "d"},
            "b": {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
        },
    }
    assert response(schema) == {
        "type": ["object", "null"],
        "properties": {
            "a": {"type": ["string", "null"], "description": "d"},
            "b": {
                "anyOf": [{"anyOf": [{"type": ["integer", "null"]}, {"type": ["string", "null"]}]}, {"type": "null"}]
            },
        },
    }


def test_patterns_can_be_left_out() -> None:
    assert request({"type": "string", "pattern": "a"}, patterns=False) == {"type": "string"}


def test_long_texts_are_cut() -> None:
    made = request({"description": "x" * 10_000})
    assert isinstance(made, dict)
    assert len(str(made["description"])) == module.MAX_TEXT


def test_answers_are_described_as_deep_as_they_stay_small() -> None:
    def tree(width: int, depth: int) -> Any:
        if not depth:
            return {"type": "string"}
        return {"type": "object", "properties": {f"p{n}": tree(width, depth - 1) for n in range(width)}}

    def levels(made: Value) -> int:
        properties = made.get("properties") if isinstance(made, dict) else None
        return 1 + max(map(levels, properties.values())) if isinstance(properties, dict) else 0

    assert levels(response(tree(2, 6))) == 6
    assert levels(response(tree(5, 6))) == 3
    assert levels(response(tree(50, 3))) == 1
    with pytest.raises(DocumentError, match="answers that are too large"):
        response(tree(500, 1))


def test_an_answer_that_contains_itself_is_cut_instead_of_referring() -> None:
    doc = schemas(A={"type": "object", "properties": {"a": {"$ref": REF + "A"}, "n": {"type": "integer"}}})
    made = str(response({"$ref": REF + "A"}, doc))
    assert "$ref" not in made
    assert made.count("integer") == 3


def test_a_schema_is_converted_once_for_all_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    named: dict[str, Any] = {f"S{n}": {"properties": {"a": {"$ref": f"{REF}S{n + 1}"}, "b": {}}} for n in range(9)}
    doc = schemas(**named, S9={"type": "string"})
    first = request({"$ref": REF + "S0"}, doc)
    monkeypatch.setattr(document, "MAX_WORK", doc._worked + 50)
    for _ in range(50):
        assert request({"$ref": REF + "S0"}, doc) == first
    assert request({"$ref": REF + "S0"}, schemas(**named, S9={"type": "string"})) == first


def test_all_that_is_converted_for_a_document_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_WORK", 1000)
    doc = schemas()
    schema: Value = {"properties": {f"p{n}": {} for n in range(100)}}
    for _ in range(4):
        request(schema, doc)
    with pytest.raises(DocumentError, match="too large altogether"):
        request(schema, doc)


def test_long_texts_count_as_many_values() -> None:
    long = "x" * 10_000_000
    every: list[Value] = [{"const": long}, {"enum": [long]}, {"properties": {long: {}}}]
    for schema in every:
        with pytest.raises(DocumentError, match="too large"):
            request(schema)
    assert request({"pattern": "x" * 10_000, "example": "x" * 1000, "examples": ["x" * 1000]}) == {}
