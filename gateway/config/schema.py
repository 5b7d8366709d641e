"""The JSON Schema (2020-12) of what may be written: for editors, and for whoever generates configs.

It describes files as they are before expansion, so whatever is not text may also be a string with ``${…}`` in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, Union

from pydantic.json_schema import models_json_schema

from gateway.config.foreign import FOREIGN_KEYS
from gateway.config.policies import Policy
from gateway.config.prose import models_below, texts_of
from gateway.config.root import Config
from gateway.config.types import DURATION_PATTERN, Rate, format_duration

Schema: TypeAlias = Union[str, int, float, bool, "list[Schema]", "dict[str, Schema]", None]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_EXPANSION: Final = "Expansion"
_REF: Final = "#/$defs/"
# What a string with ${…} in it can be, besides text without further rules.
_NARROW: Final = frozenset({"enum", "const", "pattern"})
# What pydantic writes for a bound that stands outside of an alternative.
_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_NULL: Final = {"type": "null"}
_ABOUT: Final = "What an operator writes; strings are expanded before they are judged."


def config_schema() -> dict[str, Schema]:
    """Return the schema of a config file."""
    defs = _definitions()
    config = defs.pop("Config")
    assert isinstance(config, dict)
    properties = config["properties"]
    assert isinstance(properties, dict)
    properties["policies"] = {
        "description": "Who may call what: policies, or globs of files that hold some under `policies`.",
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"$ref": _REF + "Policy"}]},
        "default": [],
    }
    properties["mcpServers"] = {
        "description": "Servers as other programs write them, instead of or beside `servers`.",
        "type": "object",
        "additionalProperties": {"$ref": _REF + "ForeignServer"},
    }
    defs["ForeignServer"] = _foreign(defs)
    return {**config, "$schema": DIALECT, "title": "Config of mcp-gateway", "description": _ABOUT, "$defs": defs}


def policy_file_schema() -> dict[str, Schema]:
    """Return the schema of a file that ``policies`` names."""
    return {
        "$schema": DIALECT,
        "title": "Policies of mcp-gateway",
        "type": "object",
        "additionalProperties": False,
        "required": ["policies"],
        "properties": {"policies": {"type": "array", "items": {"$ref": _REF + "Policy"}}},
        "$defs": _reachable("Policy", _definitions()),
    }


def _definitions() -> dict[str, Schema]:
    _, whole = models_json_schema([(Config, "validation"), (Policy, "validation")])
    for model in models_below(Config):
        properties = whole["$defs"][model.__name__]["properties"]
        for key, text in texts_of(model).items():
            properties[key]["description"] = text
    defs: dict[str, Schema] = {name: _as_written(schema) for name, schema in whole["$defs"].items()}
    server = defs["Server"]
    assert isinstance(server, dict)
    kinds: dict[str, Schema] = {key: {"required": [key]} for key in ("command", "url", "openapi")}
    # An address beside a document is where its operations are called.
    server["oneOf"] = [kinds["command"], {"anyOf": [kinds["url"], kinds["openapi"]]}]
    defs[_EXPANSION] = {"type": "string", "pattern": r"\$\{", "description": "Text with a `${…}` in it."}
    return defs


def _foreign(defs: Mapping[str, Schema]) -> Schema:
    server = defs["Server"]
    assert isinstance(server, dict)
    assert isinstance(server["properties"], dict)
    known: dict[str, Schema] = {key: {"description": "Understood or noted."} for key in FOREIGN_KEYS}
    return {"type": "object", "properties": {**known, **server["properties"], "tools": {}}}


def _as_written(schema: object) -> Schema:
    """Rewrite what pydantic says about values into what an operator may write: no nulls, expansions, units."""
    if isinstance(schema, list):
        return [_as_written(item) for item in schema if item != _NULL]
    if not isinstance(schema, dict):
        return _plain(schema)
    result: dict[str, Schema] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            result[key] = {name: _as_written(item) for name, item in value.items()}
        elif key in ("default", "enum", "const", "required"):
            result[key] = _plain(value)
        elif key != "title":
            result[_BOUNDS.get(str(key), str(key))] = _as_written(value)
    return _with_expansion(_with_default(_flat(result)))


def _flat(schema: dict[str, Schema]) -> dict[str, Schema]:
    """Put the only alternative that is left in place of the choice."""
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, list) and len(alternatives) == 1 and isinstance(alternatives[0], dict):
        return {**alternatives[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    return schema


def _with_default(schema: dict[str, Schema]) -> dict[str, Schema]:
    """Write a default as the text an operator would write; of a section its own keys say it."""
    default = schema.get("default")
    kept = {key: value for key, value in schema.items() if key != "default"}
    if default is None or "$ref" in schema:
        return kept
    if isinstance(default, float) and schema.get("pattern") == DURATION_PATTERN:
        return {**kept, "default": format_duration(default)}
    if isinstance(default, dict) and set(default) == {"count", "seconds"}:
        count, seconds = default["count"], default["seconds"]
        assert isinstance(count, int)
        assert isinstance(seconds, float)
        return {**kept, "default": str(Rate(count, seconds))}
    return schema


def _with_expansion(schema: dict[str, Schema]) -> dict[str, Schema]:
    """Let every value that is not free text be a string to expand as well."""
    kind = schema.get("type")
    scalar = kind in ("integer", "number", "boolean") or isinstance(kind, list)
    if not scalar and not (kind == "string" and _NARROW & set(schema)):
        return schema
    outer: dict[str, Schema] = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    return {**outer, "anyOf": [schema, {"$ref": _REF + _EXPANSION}]}


def _plain(value: object) -> Schema:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if isinstance(value, (str, int, float, bool)) else None


def _reachable(start: str, defs: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the definitions that one of them needs, itself included."""
    found: dict[str, Schema] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = defs[name]
            waiting += _references(defs[name])
    return found


def _references(schema: Schema) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("$ref")
    names = [own.removeprefix(_REF)] if isinstance(own, str) else []
    return names + [name for value in schema.values() for name in _references(value)]
