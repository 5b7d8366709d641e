from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gateway.config.api_document import read
from gateway.downstream.openapi import document as bounds
from gateway.downstream.openapi.addresses import Terms
from gateway.downstream.openapi.document import DocumentError
from gateway.downstream.openapi.toolset import Toolset, toolset_of
from gateway.protocol import rawjson
from tests.kit.openapi import URL, Json, listed, tools
from tests.kit.rest_service import petstore

FASTAPI: Json = {
    "openapi": "3.1.0",
    "info": {"title": "FastAPI", "version": "0.1.0"},
    "paths": {
        "/items/{item_id}": {
            "put": {
                "tags": ["items"],
                "summary": "Update Item",
                "operationId": "update_item_items__item_id__put",
                "parameters": [
                    {
                        "name": "item_id",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "integer", "title": "Item Id"},
                    },
                    {
                        "name": "q",
                        "in": "query",
                        "required": False,
                        "schema": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Q"},
                    },
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}},
                },
                "responses": {
                    "200": {"description": "Successful Response", "content": {"application/json": {"schema": {}}}},
                    "422": {
                        "description": "Validation Error",
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/HTTPValidationError"}}
                        },
                    },
                },
            }
        },
        "/files/": {
            "post": {
                "summary": "Create File",
                "operationId": "create_file_files__post",
                "requestBody": {
                    "required": True,
                    "content": {
                        "multipart/form-data": {"schema": {"$ref": "#/components/schemas/Body_create_file_files__post"}}
                    },
                },
                "responses": {
                    "200": {"description": "Successful Response", "content": {"application/json": {"schema": {}}}}
                },
            }
        },
    },
    "components": {
        "schemas": {
            "Body_create_file_files__post": {
                "properties": {
                    "file": {"type": "string", "contentMediaType": "application/octet-stream", "title": "File"}
                },
                "type": "object",
                "required": ["file"],
                "title": "Body_create_file_files__post",
            },
            "HTTPValidationError": {"properties": {"detail": {"items": {}, "type": "array"}}, "type": "object"},
            "Item": {
                "properties": {
                    "name": {"type": "string", "title": "Name"},
                    "price": {"type": "number", "exclusiveMinimum": 0.0, "title": "Price"},
                    "tax": {"anyOf": [{"type": "number"}, {"type": "null"}], "title": "Tax"},
                    "parts": {"items": {"$ref": "#/components/schemas/Item"}, "type": "array", "default": []},
                },
                "type": "object",
                "required": ["name", "price"],
                "title": "Item",
            },
        }
    },
}


def test_a_document_as_fastapi_writes_it() -> None:
    made = toolset_of(read(json.dumps(FASTAPI).encode()), Terms(document_url="http://127.0.0.1:8000/openapi.json"))
    assert made.left_out == ()
    assert (made.base, made.version, made.info) == (
        "http://127.0.0.1:8000",
        "3.1.0",
        {"name": "FastAPI", "version": "0.1.0"},
    )
    update = listed(made.operations["update_item_items__item_id__put"])
    assert list(update["inputSchema"]["properties"]) == ["item_id", "q", "name", "price", "tax", "parts"]
    assert update["inputSchema"]["required"] == ["item_id", "name", "price"]
    assert update["inputSchema"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Item"}
    assert "outputSchema" not in update
    upload = listed(made.operations["create_file_files__post"])["inputSchema"]
    assert upload["properties"]["file"] == {"title": "File", "type": "string", "contentEncoding": "base64"}


def test_the_document_that_everybody_knows() -> None:
    made = toolset_of(
        read(json.dumps(petstore()).encode()), Terms(document_url="https://a.example/api/v3/openapi.json")
    )
    assert made.left_out == ()
    assert made.base == "https://a.example/api/v3"
    assert made.description == "Keeps pets."
    pet = listed(made.operations["addPet"])["inputSchema"]
    assert "id" not in pet["properties"]
    assert pet["required"] == ["name", "photoUrls"]


def test_operations_without_names_have_made_up_ones_that_stay() -> None:
    paths: Json = {
        "/pets/{id}": {"get": {}},
        "/pets/id": {"get": {}},
        "/pets": {"get": {}},
        "/x": {"get": {}, "post": {"operationId": "GET_x"}},
    }
    names = {name: each.template for name, each in tools(paths).operations.items()}
    assert names.pop("GET_pets") == "/v1/pets"
    assert names.pop("GET_x") == "/v1/x"
    # Whose names would be alike have a digest of their own path behind them, wherever they stand.
    assert sorted(name[:12] for name in names) == ["GET_pets_id_", "GET_pets_id_", "GET_x_" + sorted(names)[-1][6:12]]
    assert set(tools(dict(reversed(paths.items()))).operations) == {"GET_pets", "GET_x", *names}


def test_a_name_that_is_there_twice_is_left_out_the_second_time() -> None:
    made = tools({"/a": {"get": {"operationId": "x"}}, "/b": {"get": {"operationId": "x"}}})
    assert made.operations["x"].template == "/v1/a"
    assert made.left_out == (("x", "has an operationId that another operation has as well"),)


def test_what_cannot_be_a_tool_is_named_and_the_rest_goes_on() -> None:
    paths: Json = {
        "/fine": {"get": {"operationId": "fine"}},
        "/ref": {"$ref": "paths/ref.yaml"},
        "/schema": {
            "post": {
                "operationId": "schema",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "s.json"}}}},
            }
        },
        "bad": {"get": {"operationId": "bad"}},
    }
    made = tools(paths)
    assert set(made.operations) == {"fine"}
    assert [(name, why.split(" (")[0]) for name, why in made.left_out] == [
        ("/ref", "refers to another document"),
        ("schema", "refers to another document"),
        ("bad", "has a path that is none: it needs to begin with /"),
    ]


@pytest.mark.parametrize(
    "paths", [{}, {"/a": {}}, {"/a": {"$ref": "a.yaml"}}, {"/a": {"get": {"parameters": [{"$ref": "b.yaml"}]}}}]
)
def test_a_document_without_any_tool_is_refused(paths: Json) -> None:
    with pytest.raises(DocumentError, match="has no operation that can be called"):
        tools(paths)


def test_too_many_operations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bounds.MAX_OPERATIONS == 5_000
    with pytest.raises(DocumentError, match="more than 5000 operations"):
        tools({f"/{number}": {"get": {}} for number in range(10_000)})


def test_a_hostile_document_costs_little() -> None:
    """Deep nesting, long enumerations and schemas that refer to each other, in many operations at once."""
    named: dict[str, Any] = {
        f"S{n}": {
            "type": "object",
            "properties": {key: {"$ref": f"#/components/schemas/S{(n + 1) % 40}"} for key in "abc"},
        }
        for n in range(40)
    }
    deep: Json = {"type": "string", "enum": [str(n) for n in range(5_000)]}
    for _ in range(40):
        deep = {"type": "object", "properties": {"d": deep}}
    paths = {
        f"/{n}": {
            "post": {
                "operationId": f"o{n}",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}},
            }
        }
        for n in range(30)
    }
    paths["/deep"] = {
        "post": {"operationId": "deep", "requestBody": {"content": {"application/json": {"schema": deep}}}}
    }
    started = time.process_time()
    made = tools(paths, components={"schemas": named})
    assert time.process_time() - started < 20
    assert len(made.operations) + len(made.left_out) == 31
    assert ("deep", "has schemas that are too large or nested too deep") in made.left_out


def test_the_address_an_operator_wrote_is_the_base() -> None:
    assert tools({"/a": {"get": {}}}).base == URL


def shared(count: int, item: Json) -> Json:
    """Return so many paths that are all one and the same item."""
    return {f"/{number}": {"$ref": "#/components/pathItems/X"} for number in range(count)} | {"/x": item}


def of_everybody(item: Json, count: int = 100, **schemas: Any) -> Toolset:
    return tools(shared(count, {"get": {}}), components={"pathItems": {"X": item}, "schemas": schemas})


def test_what_many_operations_share_costs_no_more_for_being_shared() -> None:
    """One long thing, referred to by hundreds of paths: parameters, answers, bodies, texts, names, media types."""
    long = "x" * 1_000_000
    many: Json = {f"p{n}": {} for n in range(50_000)}
    doubling: dict[str, Any] = {f"D{n}": {"allOf": [{"$ref": f"#/components/schemas/D{n + 1}"}] * 3} for n in range(40)}
    answers = {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/D0"}}}}}
    items: list[Json] = [
        {"parameters": [{"name": f"p{n}", "in": "query"} for n in range(50_000)], "get": {}},
        {"get": {"parameters": [{"name": long, "in": "query"}, {"$ref": "#/" + long}]}},
        {"get": {"responses": {f"2{n:05}": {} for n in range(50_000)}}},
        {"get": {"responses": {"200": {"content": {long: {}, **{f"a/{n}": {} for n in range(50_000)}}}}}},
        {"post": {"requestBody": {"content": {f"a/{n}": {} for n in range(50_000)}}}},
        {"post": {"requestBody": {"content": {"application/json": {"schema": {"properties": many}}}}}},
        {"post": {"requestBody": {"content": {"application/json": {"schema": {"required": [*many]}}}}}},
        {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/D0"}}}}}},
        {"get": {"responses": answers}},
        {"get": {"summary": long, "description": long, "deprecated": True, "operationId": long}},
        {"get": {"parameters": [{"name": "q", "in": "query", "description": long, "schema": {"default": long}}]}},
        {"servers": [{"url": "/" + long}], "get": {}},
    ]
    for item in items:
        started = time.process_time()
        made = of_everybody(item, **doubling, D40={"type": "object"})
        assert time.process_time() - started < 10, item
        assert len(made.operations) + len(made.left_out) == 101
        assert sum(len(rawjson.raw_bytes(each.item)) for each in made.operations.values()) < bounds.MAX_TOOLS


def test_tools_are_bounded_one_by_one_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [{"name": f"p{n}", "in": "query", "description": "x" * 4_096} for n in range(100)]
    (left_out,) = of_everybody({"get": {"operationId": "long", "parameters": texts}}, 1).left_out
    assert left_out == ("long", "would be a tool of more than 262144 bytes")
    monkeypatch.setattr(bounds, "MAX_TOOLS", 100_000)
    made = of_everybody({"get": {"parameters": texts[:5]}}, 20)
    assert 0 < len(made.operations) < 20
    assert {why for _, why in made.left_out} == {"comes after tools that are too large altogether"}
