from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config.document import parse
from gateway.config.schema import DIALECT, Schema, config_schema, policy_file_schema

DOCS = Path(__file__).parents[2] / "docs"
KEYWORDS = {
    "$schema", "$ref", "$defs", "title", "description", "default", "type", "enum", "const", "pattern", "format",
    "writeOnly", "properties", "additionalProperties", "required", "items", "minItems", "anyOf", "oneOf", "minimum",
    "maximum", "exclusiveMinimum", "minLength",
}  # fmt: skip
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip


def accepts(schema: Schema, value: object, defs: Mapping[str, Schema]) -> bool:
    """Judge by the keywords that the schema uses; an unknown one fails the test."""
    if isinstance(schema, bool):
        return schema
    assert isinstance(schema, dict)
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    if "$ref" in schema and not accepts(defs[str(schema["$ref"]).removeprefix("#/$defs/")], value, defs):
        return False
    return _choices(schema, value, defs) and _scalar(schema, value) and _inside(schema, value, defs)


def _choices(schema: dict[str, Schema], value: object, defs: Mapping[str, Schema]) -> bool:
    for keyword, most in (("anyOf", 99), ("oneOf", 1)):
        choices = schema.get(keyword)
        if isinstance(choices, list) and not 1 <= sum(accepts(choice, value, defs) for choice in choices) <= most:
            return False
    return True


def _scalar(schema: dict[str, Schema], value: object) -> bool:
    kinds = schema.get("type", list(TYPES))
    names = kinds if isinstance(kinds, list) else [kinds]
    if not any(isinstance(value, TYPES[str(name)]) and (name == "boolean" or value is not True) for name in names):
        return False
    enum, least, most = schema.get("enum"), schema.get("minimum"), schema.get("maximum")
    if isinstance(enum, list) and value not in enum:
        return False
    if isinstance(value, str):
        return "pattern" not in schema or re.search(str(schema["pattern"]), value) is not None
    if not isinstance(value, (int, float)):
        return True
    return (not isinstance(least, (int, float)) or value >= least) and (
        not isinstance(most, (int, float)) or value <= most
    )


def _inside(schema: dict[str, Schema], value: object, defs: Mapping[str, Schema]) -> bool:
    if isinstance(value, list):
        items, least = schema.get("items", True), schema.get("minItems", 0)
        assert isinstance(least, int)
        return len(value) >= least and all(accepts(items, item, defs) for item in value)
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        required = schema.get("required", [])
        assert isinstance(properties, dict)
        assert isinstance(required, list)
        members = all(accepts(properties.get(key, others), item, defs) for key, item in value.items())
        return members and all(key in value for key in required)
    return True


def valid(text: str, schema: dict[str, Schema] | None = None) -> bool:
    whole = schema or config_schema()
    defs = whole["$defs"]
    assert isinstance(defs, dict)
    return accepts(whole, parse(text.encode(), "f").root, defs)


def test_the_schema_names_its_dialect_and_every_reference_leads_somewhere() -> None:
    for schema in (config_schema(), policy_file_schema()):
        assert schema["$schema"] == DIALECT
        defs = schema["$defs"]
        assert isinstance(defs, dict)
        names = re.findall(r"'\$ref': '#/\$defs/([A-Za-z]+)'", str(schema))
        assert names
        assert set(names) <= set(defs)


def test_the_example_of_the_documentation_is_valid() -> None:
    assert valid((DOCS / "gateway.example.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "listen: {port: '${PORT}', drain: '${DRAIN:-5s}', instance_meta: '${META}'}",
        "servers: {a: {command: x, validate: off, results: {hidden: off}}}",
        "mcpServers: {a: {command: x, type: stdio, disabled: true, timeout: 5, anything: 1}}",
        "policies: ['policies/*.yaml', {name: p, clients: ['*'], allow: [a/b, {tools: c/d}]}]",
        "listen: {max_body: 5, public_url: ''}",
        "servers: {a: {openapi: x.yaml}, b: {openapi: 'https://x/o.json', url: 'https://x'}}",
    ],
)
def test_what_may_be_written_is_valid(text: str) -> None:
    assert valid(text)


@pytest.mark.parametrize(
    "text",
    [
        "servrs: {}",
        "listen: {port: 70000}",
        "listen: {port: http}",
        "listen: {port: true}",
        "listen: {drain: 20}",
        "servers: {a: {comand: x}}",
        "servers: {a: {}}",
        "servers: {a: {command: x, url: y}}",
        "servers: {a: {command: x, openapi: y}}",
        "servers: {a: {command: x, protocol: modren}}",
        "policies: [{name: p}]",
        "policies: [{name: p, clients: ['*'], allow: [{when: x}]}]",
        "limits: {requests: 5}",
    ],
)
def test_what_may_not_be_written_is_not(text: str) -> None:
    assert not valid(text)


def test_a_policy_file_has_a_schema_of_its_own() -> None:
    schema = policy_file_schema()
    assert valid("policies: [{name: p, clients: ['*']}]", schema)
    assert not valid("policies: ['other.yaml']", schema)
    assert not valid("{}", schema)
    assert not valid("policies: []\nlisten: {}", schema)


def test_defaults_are_written_as_an_operator_would() -> None:
    defs = config_schema()["$defs"]
    assert isinstance(defs, dict)
    text = str(defs)
    assert "'default': '20s'" in text
    assert "'default': '6000/minute'" in text
    assert "None" not in text


def test_every_key_has_a_description() -> None:
    defs = config_schema()["$defs"]
    assert isinstance(defs, dict)
    for name, schema in defs.items():
        assert isinstance(schema, dict)
        properties = schema.get("properties", {})
        assert isinstance(properties, dict)
        for key, inner in properties.items():
            assert isinstance(inner, dict)
            assert "description" in inner or "$ref" in inner or name == "ForeignServer", f"{name}.{key}"
