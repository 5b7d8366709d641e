from __future__ import annotations

from typing import Any

import pytest

from gateway.downstream.openapi.output import Output, answers, is_json, media_of, output_of
from gateway.policy.schema_cost import size_of
from gateway.policy.schemas import MAX_VALUES
from gateway.protocol.rawjson import Object, Value
from tests.kit.openapi import answer, document, schemas

PET: Any = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "tag": {"type": "string"}},
    "additionalProperties": False,
}


def promised(schema: Any, status: str = "200") -> Output:
    made = output_of(document(), answer(schema, status)["responses"])
    assert made is not None
    return made


@pytest.mark.parametrize("status", ["200", "201", "2XX"])
def test_the_first_success_in_json_is_promised(status: str) -> None:
    assert promised(PET, status).schema["type"] == "object"


@pytest.mark.parametrize(
    "responses",
    [
        None,
        {},
        {"404": {"content": {"application/json": {"schema": PET}}}},
        {"default": {"content": {"application/json": {"schema": PET}}}},
        {"200": {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        {"200": {"content": {"application/json": {}}}},
        {"200": {"content": {"application/json": {"schema": {}}}}},
        {"200": {"content": {"application/json": {"schema": {"$ref": "other.yaml"}}}}},
        {"200": {"$ref": "other.yaml"}},
        {"200": {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
    ],
)
def test_where_nothing_is_said_nothing_is_promised(responses: Value) -> None:
    assert output_of(document(), responses) is None


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "name": "x"},
        {"id": None, "name": None},
        {},
        {"id": 1, "name": "x", "more": [1]},
    ],
)
def test_an_answer_that_keeps_the_promise_is_passed_on_whole(value: Object) -> None:
    """APIs leave out what they require, send null for what is not nullable, and send more than they say."""
    assert promised(PET).fitted(value) == value


@pytest.mark.parametrize("media", ["*/*", "application/*"])
def test_an_object_or_a_list_of_any_media_type_is_one_in_json(media: str) -> None:
    for schema, wraps in ((PET, False), ({"type": "array", "items": PET}, True)):
        responses: Value = {"200": {"content": {"text/xml": {"schema": {}}, media: {"schema": schema}}}}
        made = output_of(document(), responses)
        assert made is not None
        assert made.wraps is wraps


def test_what_is_of_another_type_is_left_out_and_the_rest_stays() -> None:
    """A client would throw away the whole answer."""
    assert promised(PET).fitted({"id": "one", "name": "x", "tag": {"a": 1}}) == {"name": "x"}


def test_a_recursive_answer_that_breaks_its_promise_is_empty() -> None:
    tree = {"type": "object", "properties": {"kid": {"$ref": "#/components/schemas/Tree"}, "n": {"type": "integer"}}}
    made = output_of(schemas(Tree=tree), answer({"$ref": "#/components/schemas/Tree"})["responses"])
    assert made is not None
    assert made.schema["type"] == "object"
    assert made.fitted({"kid": {"kid": {"n": 1}}}) == {"kid": {"kid": {"n": 1}}}
    assert made.fitted({"kid": {"kid": {"n": "x"}}}) == {}


def test_what_is_no_object_stands_below_a_name() -> None:
    made = promised({"type": "array", "items": PET})
    assert made.wraps
    assert made.schema["type"] == "object"
    assert made.fitted([{"id": 1}]) == {"result": [{"id": 1}]}
    assert made.fitted({"error": 1}) == {}
    assert made.fitted(None) == {"result": None}


@pytest.mark.parametrize(
    ("schema", "wraps"),
    [
        ({"type": "object"}, False),
        ({"type": ["object", "null"]}, False),
        ({"properties": {"a": {}}}, False),
        ({"allOf": [{"type": "object"}, {"properties": {}}]}, False),
        ({"type": "string"}, True),
        ({"oneOf": [{"type": "object"}, {"type": "array"}]}, True),
        ({"type": ["object", "array"]}, True),
        ({"allOf": [{"type": "string"}]}, True),
    ],
)
def test_objects_are_told_from_everything_else(schema: Value, wraps: bool) -> None:
    assert promised(schema).wraps is wraps


def test_an_object_where_another_value_was_promised_stays_below_the_name() -> None:
    assert promised({"oneOf": [{"type": "object"}, {"type": "array"}]}).fitted({"a": 1}) == {"result": {"a": 1}}


@pytest.mark.parametrize(
    ("media", "json"),
    [
        ("application/json", True),
        ("application/problem+json", True),
        ("text/json5", False),
        ("application/jsonl", False),
    ],
)
def test_json_is_told_by_its_media_type(media: str, json: bool) -> None:
    assert is_json(media) is json


def test_media_types_are_read_without_parameters() -> None:
    assert media_of('Application/JSON; charset="utf-8"') == "application/json"


def test_answers_are_those_of_success_in_order() -> None:
    responses: Value = {
        "204": {"description": ""},
        "201": {"content": {"text/csv": {"schema": True}}},
        "200": {"content": {"application/json": {}}},
        "302": {"content": {"text/html": {}}},
    }
    assert list(answers(document(), responses)) == [("application/json", None), ("text/csv", True)]


def test_the_values_of_a_long_answer_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(value: Value, most: int) -> int:
        counted.append(size_of(value, most))
        return counted[-1]

    monkeypatch.setattr("gateway.policy.schemas.size_of", counting)
    monkeypatch.setattr("gateway.downstream.openapi.output.size_of", counting, raising=False)
    names = [f"m{number}" for number in range(24)]
    one = promised({"type": "object", "properties": {name: {"type": "array"} for name in names}})
    short: Object = {name: [1] * 1_000 for name in names}
    assert one.fitted({**short, "m3": "x"}) == {name: item for name, item in short.items() if name != "m3"}
    assert sum(counted) < 25_000
    counted.clear()
    assert one.fitted({name: [1] * 25_000 for name in names}) == {}
    assert sum(counted) <= 2 * MAX_VALUES


def test_a_member_that_is_too_long_to_be_checked_is_left_out() -> None:
    one = promised({"type": "object", "properties": {"items": {"type": "array"}, "total": {"type": "integer"}}})
    assert one.fitted({"items": [1] * MAX_VALUES, "total": 5}) == {"total": 5}
    assert one.fitted({"items": [1] * (MAX_VALUES // 2), "total": 5})["items"] == [1] * (MAX_VALUES // 2)


def test_numbers_that_the_validator_does_not_take_are_not_promised() -> None:
    deep: Value = 1
    for _ in range(60):
        deep = [deep]
    one = promised({"type": "object", "properties": {"n": {"type": "integer"}, "a": {"type": "array"}}})
    assert one.fitted({"n": 10**400, "a": deep})["a"] == deep
