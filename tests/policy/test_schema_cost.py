"""How much work a schema can make of one value is known before any value is checked (S77)."""

from __future__ import annotations

import pytest

from gateway.policy.schema_cost import MAX_SUBSCHEMAS, Cost, TooExpensive, cost
from gateway.protocol.rawjson import Object, Value

TREE: Object = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "more": {"type": "array", "items": {"$ref": "#"}}},
}
ANY_JSON: Object = {
    "$defs": {
        "json": {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"$ref": "#/$defs/json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
            ]
        }
    },
    "properties": {"value": {"$ref": "#/$defs/json"}},
}


def doubling(levels: int) -> Object:
    """Return a schema in which each definition refers twice to the next one."""
    steps: Object = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}"}]}
        for level in range(levels)
    }
    return {"$defs": steps | {f"d{levels}": {"type": "string"}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        (True, 1),
        ({}, 1),
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}, 1),
        ({"allOf": [{}, {"not": {}}], "if": {}, "then": {}, "else": {}, "dependentSchemas": {"a": {}}}, 8),
        ({"properties": {"a": {"oneOf": [{}, {}, {}]}}}, 4),
        ({"properties": {"a": {}}, "patternProperties": {"^a": {}, "a$": {}}, "additionalProperties": {}}, 3),
        ({"prefixItems": [{}, {}], "items": {}, "contains": {}}, 4),
        (TREE, 2),
        (ANY_JSON, 5),
        (doubling(3), 30),
    ],
    ids=["true", "empty", "flat", "same value", "a member", "members", "items", "tree", "json", "doubling"],
)
def test_the_most_that_one_value_can_meet_is_counted(schema: Value, most: int) -> None:
    assert cost(schema).most == most


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (doubling(20), "for one value"),
        ({"$ref": "#"}, "without going deeper"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "without going"),
        ({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}, "too many steps"),
        ({"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}, "too many steps"),
        ({"allOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]}, "too many steps"),
        ({"properties": {f"p{n}": {} for n in range(MAX_SUBSCHEMAS + 1)}}, "subschemas"),
        (
            {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(300)}, "$ref": "#/$defs/d0"},
            "in a row",
        ),
        (
            {
                "allOf": [
                    {"properties": {f"p{n}": {} for n in range(500)}},
                    *({"patternProperties": {"a": {}}} for _ in range(900)),
                ]
            },
            "too many",
        ),
    ],
    ids=["doubling", "self", "mutual", "recursive", "patterns", "items", "many", "chain", "work"],
)
def test_a_schema_that_could_keep_a_validator_busy_is_refused(schema: Value, why: str) -> None:
    with pytest.raises(TooExpensive, match=why):
        cost(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"$anchor": "it", "anyOf": [{}, {}]}}, "$ref": "#it"},
        {"$id": "https://s.example/a", "$defs": {"b": {"$id": "b", "anyOf": [{}, {}]}}, "$ref": "b"},
        {"$id": "https://s.example/a", "$defs": {"b": {"anyOf": [{}, {}]}}, "$ref": "a#/$defs/b"},
        {"definitions": {"a": {"$id": "#it", "anyOf": [{}, {}]}}, "$ref": "#it"},
        {"$defs": {"a/b": {"anyOf": [{}, {}]}}, "$ref": "#/$defs/a~1b"},
        {"$defs": {"a b": {"anyOf": [{}, {}]}}, "$ref": "#/$defs/a%20b"},
        {"x": {"y": [{}, {"anyOf": [{}, {}]}]}, "$ref": "#/x/y/1"},
        {"id": "Word", "$defs": {"a": {"anyOf": [{}, {}]}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"anyOf": [{}, {}]}, "b": {"id": "B", "$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$id": "urn:x:y", "$defs": {"a": {"anyOf": [{}, {}]}}, "$ref": "#/$defs/a"},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://s.example/a",
            "definitions": {"b": {"id": "b", "anyOf": [{}, {}]}},
            "$ref": "b",
        },
    ],
    ids=[
        "anchor",
        "id",
        "own id",
        "old anchor",
        "escaped",
        "percent",
        "elsewhere",
        "word",
        "word below",
        "urn",
        "draft 4",
    ],
)
def test_references_are_followed_in_every_form(schema: Object) -> None:
    assert cost(schema) == Cost(4)


@pytest.mark.parametrize("reference", ["https://elsewhere.example/x", "#/nothing", "#nothing", "#/x/9", "#/x/a/b"])
def test_a_reference_to_what_is_not_there_costs_nothing(reference: str) -> None:
    assert cost({"$ref": reference, "x": [1]}) == Cost(1, followed=False)
