"""Small OpenAPI documents for tests: one operation with what the test is about, and everything else left out."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from gateway.config.api_document import ApiDocument, read
from gateway.downstream.openapi.addresses import Terms
from gateway.downstream.openapi.document import Document, Found
from gateway.downstream.openapi.operations import Operation
from gateway.downstream.openapi.toolset import Toolset, toolset_of
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Members, Object, Value

Json: TypeAlias = dict[str, Any]
URL = "https://api.example/v1"


def source(paths: Json, version: str = "3.1.0", **more: Any) -> ApiDocument:
    """Return a document with these paths; ``more`` are further members, such as ``components``."""
    tree = {"openapi": version, "info": {"title": "Test", "version": "1"}, "paths": paths, **more}
    return read(json.dumps(tree).encode())


def document(paths: Json | None = None, version: str = "3.1.0", **more: Any) -> Document:
    """Return a document to look things up in."""
    return Document(source(paths or {}, version, **more))


def schemas(version: str = "3.1.0", **named: Any) -> Document:
    """Return a document that has nothing but schemas."""
    return document({}, version, components={"schemas": named})


def found(node: Json, path: str = "/a", method: str = "GET", item: Json | None = None) -> Found:
    """Return one operation as it is written."""
    return Found(method, path, item or {}, node)


def tools(paths: Json, terms: Terms | None = None, version: str = "3.1.0", **more: Any) -> Toolset:
    """Return the tools of a document that is called at ``URL``."""
    return toolset_of(source(paths, version, **more), terms or Terms(URL))


def operation(node: Json, path: str = "/a", method: str = "get", **more: Any) -> Operation:
    """Return the one tool of a document with one operation."""
    made = tools({path: {method: {"operationId": "op", **node}}}, **more)
    assert made.left_out == ()
    return made.operations["op"]


def listed(one: Operation) -> Json:
    """Return a tool as clients get it listed."""
    value: Json = json.loads(rawjson.raw_bytes(one.item))
    return value


def answer(schema: Any, status: str = "200") -> Json:
    """Return an operation's ``responses`` with one JSON answer."""
    return {"responses": {status: {"description": "", "content": {"application/json": {"schema": schema}}}}}


def body(schema: Any, media: str = "application/json", required: bool = True, **entry: Any) -> Json:
    """Return an operation's ``requestBody``."""
    return {"requestBody": {"required": required, "content": {media: {"schema": schema, **entry}}}}


def parameter(name: str, place: str = "query", schema: Any = None, **more: Any) -> Json:
    """Return a parameter object; a path's is required, as it has to be."""
    return {
        "name": name,
        "in": place,
        "schema": {"type": "string"} if schema is None else schema,
        **({"required": True} if place == "path" else {}),
        **more,
    }


def read_members(members: Members) -> Json:
    """Return a split result as a value."""
    value: Json = json.loads(rawjson.encode(members))
    return value


def arguments(**values: Value) -> Object:
    """Return arguments of a call."""
    return dict(values)
