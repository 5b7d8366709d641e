"""What is promised of a tool's answers, and what of an answer keeps the promise. Pure.

Clients throw away an answer that does not fit the ``outputSchema``, or that has no structured content beside one. APIs
do not keep to their documents that well: so types and names are promised, nothing is required, and what is of another
type all the same is left out of the structured content. The text beside it is always the whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from gateway.downstream.openapi.document import Document, DocumentError
from gateway.downstream.openapi.schemas import Conversion, promised
from gateway.policy import schemas
from gateway.policy.schema_cost import size_of
from gateway.policy.schemas import Schema, Unusable
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Object, Value

WRAPPED: Final = "result"
"""Where an answer that is no object stands in the structured content."""
_JSON: Final = re.compile(r"application/json|[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+\+json", re.IGNORECASE)
_PROMISES: Final = frozenset({"type", "properties", "items", "allOf", "anyOf", "oneOf", "enum", "const"})
"""Without any of these a schema says nothing about answers, as frameworks write it that do not know better."""
_DEEPEST: Final = 3
_MOST: Final = 16
"""Schemas at once that are looked into, each in so many levels."""
_MAX_RESPONSES: Final = 100
_MAX_NAME: Final = 128
_ANY: Final = ("*/*", "application/*")
_SUCCESS: Final = re.compile(r"2[0-9]{2}|2XX", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """What answers of one tool look like. ``wraps``: they are no objects, and stand below ``result``."""

    schema: Object
    wraps: bool

    def fitted(self, value: Value) -> Object:
        """Return an answer as structured content that fits the schema."""
        content: Object = {WRAPPED: value} if self.wraps or not isinstance(value, dict) else value
        sizes = _sizes(content)
        if sizes is None:
            return {}
        if _fits(self.schema, content, sum(sizes.values())):
            return content
        fitting = {key: item for key, item in content.items() if self._member_fits(key, item, sizes[key])}
        return fitting if _fits(self.schema, fitting, sum(sizes[key] for key in fitting)) else {}

    def _member_fits(self, key: str, item: Value, size: int) -> bool:
        """Tell whether a member is of the type that its own schema says."""
        properties = self.schema.get("properties")
        if not isinstance(properties, dict) or key not in properties:
            return True
        return _fits({"type": "object", "properties": {key: properties[key]}}, {key: item}, size)


def _sizes(content: Object) -> dict[str, int] | None:
    """Return how much there is to check of every member; None where that is too much even to be counted."""
    sizes: dict[str, int] = {}
    left = 2 * schemas.MAX_VALUES
    for key, item in content.items():
        sizes[key] = size_of(item, min(schemas.MAX_VALUES, left))
        left -= sizes[key]
        if left <= 0:
            return None
    return sizes


def _fits(schema: Object, content: Object, size: int) -> bool:
    compiled = _compiled(rawjson.encode(schema))
    return isinstance(compiled, Schema) and compiled.fits(content, size)


@lru_cache(maxsize=512)
def _compiled(text: bytes) -> Schema | Unusable:
    """Compile the schemas of the tools that are called: a document may have thousands that are not."""
    return schemas.compiled(rawjson.decode_value(text))


def is_json(media: str) -> bool:
    """Tell whether a media type, without parameters, is JSON."""
    return _JSON.fullmatch(media) is not None


def media_of(kind: str) -> str:
    """Return the media type of a ``Content-Type`` without its parameters, in lower case."""
    return kind.partition(";")[0].strip().lower()


def answers(document: Document, responses: Value) -> Iterator[tuple[str, Value]]:
    """Yield media type and schema of every successful answer, in the order of their status.

    Raises:
        DocumentError: a reference leads nowhere.
    """
    found = responses if isinstance(responses, dict) else {}
    for status in sorted(key for key in islice(found, _MAX_RESPONSES) if _SUCCESS.fullmatch(key)):
        content = document.resolved(found[status]).get("content")
        for media in islice(content if isinstance(content, dict) else {}, _MAX_RESPONSES):
            if len(media) <= _MAX_NAME and isinstance(content, dict):
                yield media_of(media), document.resolved(content[media]).get("schema")


def output_of(document: Document, responses: Value) -> Output | None:
    """Return what the document promises of answers; None where that is nothing that can be promised here."""
    try:
        found = [*answers(document, responses)]
        schema = next((schema for media, schema in found if is_json(media)), None)
        if schema is None:
            # Frameworks that leave the media type to the request mean JSON by an object or a list.
            schema = next(
                (schema for media, schema in found if media in _ANY and _is_structured(document, schema)), None
            )
        if schema is None or not _PROMISES.intersection(document.resolved(schema)):
            return None
        wraps = not _is_object(document, schema)
        made = promised(document, lambda conversion: _root(conversion, schema, wraps))
    except DocumentError:
        # The tool can be called all the same.
        return None
    return Output(made, wraps)


def _is_object(document: Document, schema: Value, depth: int = _DEEPEST) -> bool:
    """Tell whether a schema is of objects only; several schemas at once are where one of them is."""
    node = document.resolved(schema)
    kind, parts = node.get("type"), node.get("allOf")
    if kind == "object" or (isinstance(kind, list) and "object" in kind and {"object", "null"}.issuperset(kind)):
        return True
    if kind is None and isinstance(node.get("properties"), dict):
        return True
    several = parts if isinstance(parts, list) and depth else []
    return kind is None and any(_is_object(document, part, depth - 1) for part in several[:_MOST])


def _is_structured(document: Document, schema: Value) -> bool:
    return document.resolved(schema).get("type") == "array" or _is_object(document, schema)


def _root(conversion: Conversion, schema: Value, wraps: bool) -> Object:
    made = conversion.of(schema)
    if wraps or not isinstance(made, dict):
        return {"type": "object", "properties": {WRAPPED: made}}
    return made | {"type": "object"}
