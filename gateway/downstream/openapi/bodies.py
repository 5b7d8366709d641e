"""The body of an operation's request: of which media type it is, and which arguments it is made from. Pure.

The members of an object become arguments of their own, beside the parameters, where nothing gets lost by that; any
other body is one argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Literal, TypeAlias

from gateway.downstream.openapi.document import Document, DocumentError, Found
from gateway.downstream.openapi.output import is_json, media_of
from gateway.downstream.openapi.parameters import Parameter, is_argument
from gateway.protocol.rawjson import Object, Value

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
MAX_FIELDS: Final = 200
_MEDIA: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,64}")
_TEXT: Final = re.compile(r"text/.*|application/(xml|yaml|x-ndjson|graphql|sql|[a-z0-9.+-]*\+(xml|yaml))")
_DEEPEST: Final = 3
_MOST: Final = 16
"""Schemas at once that are looked into, each in so many levels."""
_SEVERAL: Final = ("allOf", "anyOf", "oneOf")
_MAX_MEDIA: Final = 100
_MAX_NAME: Final = 128
_WHOLE: Final = ("body", "request_body", "request_body_2")
_BODILESS: Final = frozenset({"GET", "HEAD"})

Form: TypeAlias = Literal["json", "form", "multipart", "text", "binary"]
_ORDER: Final[tuple[Form, ...]] = ("json", "form", "multipart", "text", "binary")


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a body as an argument. ``media`` is that of its part; ``binary``: the argument is base64.

    ``filename`` is the argument that names a file, "" where there is none.
    """

    argument: str
    name: str
    schema: Value
    required: bool = False
    media: str = ""
    binary: bool = False
    filename: str = ""
    style: str = "form"
    explode: bool = True

    @property
    def parameter(self) -> Parameter:
        """The field of a form as what is written like it: a query parameter."""
        return Parameter(
            self.argument, self.name, "query", self.style, self.explode, self.required, self.schema, media=self.media
        )


@dataclass(frozen=True, slots=True)
class Body:
    """A request body. ``argument`` is what holds all of it, "" where ``fields`` are the arguments.

    With both, the argument is an object whose members are written as the fields say. ``declared`` are the members of
    such an argument that the document names, whether they are fields or not.
    """

    form: Form
    media: str
    required: bool
    argument: str = ""
    schema: Value = field(default_factory=dict)
    description: str = ""
    fields: tuple[Field, ...] = ()
    declared: frozenset[str] = frozenset()

    @property
    def plan(self) -> list[Value]:
        """Everything about it that is not in the tool's schema."""
        fields: list[Value] = [
            [each.argument, each.name, each.media, each.binary, each.filename, each.style, each.explode]
            for each in self.fields
        ]
        return [self.form, self.media, self.required, self.argument, fields]


def body_of(document: Document, found: Found, parameters: Iterable[Parameter]) -> Body | None:
    """Read the body of an operation's requests; None where there is none.

    Raises:
        DocumentError: it cannot be read or written.
    """
    node = document.resolved(found.node.get("requestBody"))
    content = node.get("content")
    if not isinstance(content, dict) or not content or found.method in _BODILESS:
        return None
    form, media, entry = _chosen(content)
    entry = document.resolved(entry)
    schema = entry.get("schema", {"type": "string"} if form in ("text", "binary") else {})
    description = node.get("description")
    body = Body(
        form,
        media,
        node.get("required") is True,
        schema=schema,
        description=description if isinstance(description, str) else "",
    )
    taken = {parameter.argument for parameter in parameters}
    fields = _fields(document, body, entry.get("encoding")) if form in ("json", "form", "multipart") else ()
    if _are_arguments(fields, taken):
        named = _named_files(fields, taken | {each.argument for each in fields}) if form == "multipart" else fields
        return replace(body, fields=named)
    if form == "multipart" and not fields and document.resolved(schema).get("type", "object") != "object":
        raise DocumentError("has a multipart body whose parts have no names")
    inside = () if form == "json" else fields
    declared = (
        frozenset(islice(_declared(document, schema), MAX_FIELDS)) if form in ("form", "multipart") else frozenset()
    )
    argument = next(name for name in _WHOLE if name not in taken)
    return replace(body, argument=argument, fields=inside, declared=declared)


def _chosen(content: Object) -> tuple[Form, str, Value]:
    """Choose the media type that a tool's arguments fit best."""
    known = [media for media in islice(content, _MAX_MEDIA) if len(media) <= _MAX_NAME]
    if not known:
        raise DocumentError("has a body of a media type that is none")
    # Of several of one form the first one counts.
    chosen = min(known, key=lambda media: _ORDER.index(_form(media_of(media))))
    form, plain, entry = _form(media_of(chosen)), media_of(chosen), content[chosen]
    if not _MEDIA.fullmatch(plain):
        plain = "application/octet-stream" if "*" in plain else ""
    if not plain:
        raise DocumentError("has a body of a media type that is none")
    return form, plain, entry


def _form(media: str) -> Form:
    if is_json(media):
        return "json"
    if media == FORM:
        return "form"
    if media == MULTIPART:
        return "multipart"
    return "text" if _TEXT.fullmatch(media) else "binary"


def _are_arguments(fields: Sequence[Field], taken: set[str]) -> bool:
    """Tell whether the members of a body can be arguments beside the parameters."""
    return bool(fields) and all(is_argument(each.name) and each.name not in taken for each in fields)


def _fields(document: Document, body: Body, encodings: Value) -> tuple[Field, ...]:
    """Return the members of a body; none where they are too many, or not all that may be in it."""
    merged = _merged(document, body.schema)
    if merged is None or len(merged[0]) > 2 * MAX_FIELDS:
        return ()
    properties, required = merged
    names = [name for name, schema in properties.items() if not _read_only(document, schema)]
    known = encodings if isinstance(encodings, dict) else {}
    chosen = names if len(names) <= MAX_FIELDS else []
    return tuple(
        _field(document, body.form, (name, properties[name], name in required), known.get(name)) for name in chosen
    )


def _merged(document: Document, schema: Value, depth: int = _DEEPEST) -> tuple[Object, set[str]] | None:
    """Return properties and required names of an object, of several at once too; None where that is not all of it."""
    node = document.resolved(schema)
    extra, parts = node.get("additionalProperties"), node.get("allOf")
    if extra is True or (isinstance(extra, dict) and extra) or node.get("nullable") is True:
        return None
    if isinstance(parts, list) and (not depth or len(parts) > _MOST):
        return None
    if any(key in node for key in ("anyOf", "oneOf", "not", "if", "patternProperties", "enum", "const")):
        return None
    if node.get("type", "object") != "object":
        return None
    properties, required = node.get("properties"), node.get("required")
    found: Object = dict(islice(properties.items(), 2 * MAX_FIELDS + 1)) if isinstance(properties, dict) else {}
    names = islice(required, 2 * MAX_FIELDS) if isinstance(required, list) else ()
    needed = {name for name in names if isinstance(name, str)}
    for part in parts if isinstance(parts, list) else []:
        inner = _merged(document, part, depth - 1)
        if inner is None or found.keys() & inner[0].keys():
            return None
        found |= inner[0]
        needed |= inner[1]
    return found, needed


def _declared(document: Document, schema: Value, depth: int = 1) -> Iterator[str]:
    """Yield the names that a schema, or one of several in it, gives to members, whatever else may be there."""
    node = document.resolved(schema)
    properties = node.get("properties")
    yield from properties if isinstance(properties, dict) else ()
    for key in _SEVERAL if depth else ():
        parts = node.get(key)
        for part in parts[:_MOST] if isinstance(parts, list) else ():
            yield from _declared(document, part, depth - 1)


def _read_only(document: Document, schema: Value) -> bool:
    if not isinstance(schema, dict):
        return False
    return schema.get("readOnly") is True or document.resolved(schema).get("readOnly") is True


def _field(document: Document, form: Form, written: tuple[str, Value, bool], encoding: Value) -> Field:
    name, schema, required = written
    if form == "json":
        return Field(name, name, schema, required)
    node, said = document.resolved(schema), document.resolved(encoding)
    style, explode, kind = said.get("style"), said.get("explode"), said.get("contentType")
    media = media_of(kind) if isinstance(kind, str) and _MEDIA.fullmatch(media_of(kind)) else ""
    items = document.resolved(node.get("items")) if node.get("type") == "array" else {}
    # OpenAPI's defaults: objects, and lists of them, travel as JSON where no style is named.
    complex_ = "object" in (node.get("type"), items.get("type")) or "properties" in node
    if not media and complex_ and not isinstance(style, str):
        media = "application/json"
    binary = form == "multipart" and (_is_binary(node) or _is_binary(items))
    return Field(
        name,
        name,
        schema,
        required,
        media or ("application/octet-stream" if binary else ""),
        binary,
        style=style if isinstance(style, str) else "form",
        explode=explode if isinstance(explode, bool) else not isinstance(style, str) or style == "form",
    )


def _is_binary(node: Object) -> bool:
    """Tell whether a part holds bytes: told by a format before 3.1, by a media type or an encoding since."""
    if node.get("format") in ("binary", "byte") or node.get("contentEncoding") in ("base64", "base64url"):
        return True
    return isinstance(node.get("contentMediaType"), str) and node.get("type", "string") == "string"


def _named_files(fields: Iterable[Field], taken: set[str]) -> tuple[Field, ...]:
    """Give every part with bytes an argument that names the file."""
    named: list[Field] = []
    for each in fields:
        filename = f"{each.argument[:55]}_filename"
        named.append(replace(each, filename=filename) if each.binary and filename not in taken else each)
        taken.add(filename)
    return tuple(named)
