"""One operation as a tool: what models are told of it, and all that is needed to call it. Pure.

The definition carries a digest of how the tool's arguments become a request. So a document that sends the same
arguments somewhere else is a changed definition, and pins hold it back like any other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.downstream.openapi.addresses import METHOD_FIELD, Place, Terms, base_of, names_in, place_of
from gateway.downstream.openapi.bodies import Body, Field, body_of
from gateway.downstream.openapi.document import Document, DocumentError, Found
from gateway.downstream.openapi.output import Output, answers, is_json, output_of
from gateway.downstream.openapi.parameters import Parameter, parameters_of
from gateway.downstream.openapi.schemas import MAX_TEXT, Conversion, requested
from gateway.model.catalog import Definition, Kind
from gateway.policy import schemas
from gateway.policy.schemas import Unusable
from gateway.protocol import meta, rawjson
from gateway.protocol.rawjson import JsonError, Object, Raw, Value

OPERATION: Final = meta.OWN_PREFIX + "operation"
"""In a definition's ``_meta``: method, path, and the digest of the rest of what is sent, and of where to."""
MAX_NAME: Final = 128
MAX_DEFINITION: Final = 256 * 1024
"""Bytes of one tool; no longer ones are listed of any server."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})
"""Methods that change nothing (RFC 9110 §9.2.1): sent again without harm."""
_IDEMPOTENT: Final = SAFE | {"PUT", "DELETE"}
_ADDING: Final = frozenset({"POST"})
_MEDIA: Final = re.compile(r"[A-Za-z0-9!#$&^_.+*-]{1,64}/[A-Za-z0-9!#$&^_.+*-]{1,64}")
_MAX_ACCEPTED: Final = 8
_PATTERN: Final = b'"pattern"'


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One tool. ``template`` is the whole path, with its ``{names}``; ``item`` the definition as it is listed.

    ``query`` goes along whatever the arguments are.
    """

    method: str
    template: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    accept: str
    output: Output | None
    definition: Definition
    item: Raw
    query: str = ""

    @property
    def is_safe(self) -> bool:
        """Tell whether calling it changes nothing, whatever happens on the way."""
        return self.method in SAFE


def named(found: Found) -> str:
    """Return the ``operationId`` of an operation, "" where there is none that can be a name."""
    name = found.node.get("operationId")
    usable = isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() and name.strip() == name
    return name if usable and isinstance(name, str) else ""


def made_up(found: Found) -> str:
    """Return a name for an operation that has none: its method and path."""
    return "_".join([found.method, *re.findall(r"[A-Za-z0-9]+", found.path)])[:MAX_NAME]


def distinct(name: str, found: Found) -> str:
    """Return a name that two operations would have as one that only this one has; the same after every start."""
    digest = hashlib.sha256(f"{found.method} {found.path}".encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"


def operation_of(document: Document, found: Found, name: str, terms: Terms) -> Operation:
    """Make the tool of an operation.

    Raises:
        DocumentError: it cannot be one.
    """
    levels = (found.node.get("servers"), found.item.get("servers"), document.tree.get("servers"))
    general, own = base_of(terms, levels[2]), base_of(terms, *levels)
    if own.origin != general.origin:
        raise DocumentError("is called at another origin than the rest of the document")
    place = _place(found, terms)
    template = own.prefix + place.template
    parameters = parameters_of(document, found, terms)
    body = body_of(document, found, parameters)
    accept = _accept(document, found.node.get("responses"))
    output = output_of(document, found.node.get("responses"))
    plan: list[Value] = [[each.plan for each in parameters], body.plan if body is not None else None, accept]
    if not terms.url and not terms.document_url:
        # Nobody but the document says where that is. Clients need not know it, so it is in the digest alone.
        plan.append(own.origin)
    about: Object = {
        "method": found.method,
        "path": f"{template}?{place.query}" if place.query else template,
        "digest": hashlib.sha256(rawjson.canonical(plan)).hexdigest(),
    }
    parts = (parameters, body)
    told = _told(found, name) | {"_meta": {OPERATION: about}}
    promised: Object = {"outputSchema": output.schema} if output is not None else {}
    try:
        definition, item = _definition(told | {"inputSchema": _schema(document, parts, patterns=True)} | promised)
        if _PATTERN in rawjson.raw_bytes(item) and isinstance(schemas.judged(definition), Unusable):
            # Mostly for a pattern that only another language knows: the server still judges by it.
            definition, item = _definition(told | {"inputSchema": _schema(document, parts, patterns=False)} | promised)
    except JsonError as error:
        raise DocumentError(f"has a definition that is not acceptable: {error.reason}") from None
    document.tell(memoryview(item).nbytes)
    return Operation(found.method, template, parameters, body, accept, output, definition, item, place.query)


def _place(found: Found, terms: Terms) -> Place:
    place = place_of(found.path)
    if names_in(place.query) & (terms.fixed | {METHOD_FIELD}):
        raise DocumentError("has a query in its path that would set what it may not")
    return place


def _definition(value: Object) -> tuple[Definition, Raw]:
    item = rawjson.raw(value)
    if memoryview(item).nbytes > MAX_DEFINITION:
        raise DocumentError(f"would be a tool of more than {MAX_DEFINITION} bytes")
    return Definition.parse(Kind.TOOL, item), item


def _told(found: Found, name: str) -> Object:
    """Return what people and models are told besides the schemas."""
    summary, description = found.node.get("summary"), found.node.get("description")
    title = summary[:MAX_TEXT] if isinstance(summary, str) and summary.strip() else ""
    text = description[:MAX_TEXT] if isinstance(description, str) and description.strip() else title
    text = text or f"{found.method} {found.path}"
    if found.node.get("deprecated") is True:
        text = f"Deprecated. {text}"
    hints: Object = {
        "readOnlyHint": found.method in SAFE,
        "destructiveHint": found.method not in SAFE | _ADDING,
        "idempotentHint": found.method in _IDEMPOTENT,
        "openWorldHint": True,
    }
    named: Object = {"title": title} if title else {}
    return {"name": name, **named, "description": text[:MAX_TEXT], "annotations": hints}


def _schema(document: Document, parts: tuple[Sequence[Parameter], Body | None], *, patterns: bool) -> Object:
    parameters, body = parts

    def assemble(conversion: Conversion) -> Object:
        properties: Object = {each.argument: _parameter(conversion, each) for each in parameters}
        required: list[Value] = [each.argument for each in parameters if each.required]
        if body is not None and body.argument:
            properties[body.argument] = _whole(conversion, body)
            required += [body.argument] if body.required else []
        for each in body.fields if body is not None and not body.argument else ():
            properties[each.argument] = _field(conversion, each)
            required += [each.argument] if body is not None and body.required and each.required else []
            if each.filename:
                properties[each.filename] = {"type": "string", "description": f"Name of the file in {each.argument}."}
        needed: Object = {"required": required} if required else {}
        return {"type": "object", "properties": properties, **needed, "additionalProperties": False}

    return requested(document, assemble, patterns=patterns)


def _parameter(conversion: Conversion, parameter: Parameter) -> Value:
    said: Object = {"description": parameter.description[:MAX_TEXT]} if parameter.description else {}
    if parameter.deprecated:
        said["deprecated"] = True
    return _object(conversion.of(parameter.schema)) | said


def _field(conversion: Conversion, field: Field) -> Value:
    made = _object(conversion.of(field.schema))
    if field.binary and "items" not in made:
        return {key: item for key, item in made.items() if key in ("title", "description")} | {
            "type": "string",
            "contentEncoding": "base64",
        }
    return made


def _whole(conversion: Conversion, body: Body) -> Value:
    match body.form:
        case "text":
            made: Object = {"type": "string", "description": body.description or f"Text of type {body.media}."}
        case "binary":
            made = {"type": "string", "contentEncoding": "base64", "contentMediaType": body.media}
        case _ if body.fields:
            made = {"type": "object", "properties": {each.name: _field(conversion, each) for each in body.fields}}
            needed: list[Value] = [each.name for each in body.fields if each.required]
            made |= {"required": needed} if needed else {}
        case _:
            made = _object(conversion.of(body.schema))
    said: Object = {"description": body.description[:MAX_TEXT]} if body.description else {}
    return made | said


def _object(schema: Value) -> Object:
    """Return a schema as an object: clients know no other ones of properties."""
    if isinstance(schema, dict):
        return schema
    return {"not": {}} if schema is False else {}


def _accept(document: Document, responses: Value) -> str:
    """Return what is sent as ``Accept``: the document's own media types, JSON first, and anything else at the end."""
    try:
        found = [media for media, _ in answers(document, responses) if _MEDIA.fullmatch(media) and "*" not in media]
    except DocumentError:
        found = []
    ranked = sorted(dict.fromkeys(found or ["application/json"]), key=lambda media: not is_json(media))
    return ", ".join([*ranked[:_MAX_ACCEPTED], "*/*;q=0.1"])


def by_name(operations: Sequence[Operation]) -> Mapping[str, Operation]:
    """Index operations by the names of their tools."""
    return {each.definition.name: each for each in operations}
