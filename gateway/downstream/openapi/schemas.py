"""Turns the schemas of a document into JSON Schema 2020-12, which is what tools are described in. Pure.

References are put in place where that is possible, since clients lose ``$defs`` on the way to a model; those of
schemas that contain themselves, and those of schemas that would become too large, are kept (``$defs``). Of a request
what only the server writes is left out, of an answer what only a client writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.downstream.openapi.document import MAX_CHAIN, Document, DocumentError
from gateway.protocol.rawjson import Object, Value

MAX_INLINE: Final = 2_000
"""Values of one tool's schemas with all references in place; beyond, references are kept."""
MAX_SCHEMA: Final = 20_000
"""Values of one tool's schemas; an operation with more is left out."""
MAX_NESTING: Final = 24
MAX_ENUM: Final = 500
"""Values of one ``enum``; a longer one is left out, and the server judges."""
MAX_TEXT: Final = 4_096
"""Characters of one description."""
MAX_PATTERN: Final = 1_024
"""Characters of one ``pattern``; a longer one is left out, and the server judges."""
MAX_OUTPUT: Final = 400
"""Values that are promised of one tool's answers; what lies deeper may be anything."""
_CUTS: Final = (0, 4, 3, 2)
_RESTARTS: Final = 8
_SHORT: Final = 256

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_ONE: Final = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_SEVERAL: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_TEXTS: Final = frozenset({"title", "description"})
_NUMBERS: Final = frozenset({"multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"})
_COUNTS: Final = frozenset(
    {"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties", "maxContains", "minContains"}
)
_WORDS: Final = frozenset({"format", "contentMediaType", "contentEncoding"})
_FLAGS: Final = frozenset({"uniqueItems", "deprecated"})
_VALUES: Final = frozenset({"const", "default"})
_BESIDE: Final = _TEXTS | {"default", "deprecated"}
"""What may stand beside a reference without narrowing it."""
_HIDDEN: Final[Mapping[bool, str]] = {True: "readOnly", False: "writeOnly"}

_DESCRIPTIVE: Final = frozenset(
    {"type", "title", "description", "deprecated", "properties", "items", "prefixItems", "allOf", "anyOf", "oneOf"}
)
"""What is kept of the schema of an answer: names, meanings and types. APIs break their own narrower promises all the
time, and a client would then throw away an answer that it can use."""

_NESTED: Final = _ONE | _SEVERAL | _NAMED
_OF_THE_SAME: Final = frozenset({"allOf", "anyOf", "oneOf", "if", "then", "else"})
"""What says more about the same value, not about something in it."""
_DEEPEST: Final = 3
_MOST: Final = 16
"""Schemas at once that are looked into for hidden properties, each in so many levels."""

Assemble: TypeAlias = Callable[["Conversion"], Object]


class _Again(Exception):
    """A schema contains itself: begin again with this reference kept."""

    def __init__(self, reference: str) -> None:
        super().__init__(reference)
        self.reference = reference


class _TooLarge(Exception):
    """Begin again with less."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How schemas are converted. ``cut`` is the level below which everything is allowed, 0 for none."""

    for_request: bool
    patterns: bool = True
    cut: int = 0
    most: int = MAX_INLINE


def requested(document: Document, assemble: Assemble, *, patterns: bool = True) -> Object:
    """Return the schema of a request that ``assemble`` makes of converted ones, with what it refers to as ``$defs``.

    Raises:
        DocumentError: a reference leads nowhere, or it is too large whatever is done.
    """
    kept: frozenset[str] | None = frozenset()
    for attempt in range(_RESTARTS + 2):
        kept = kept if attempt < _RESTARTS else None
        rules = Rules(for_request=True, patterns=patterns, most=MAX_SCHEMA if kept is None else MAX_INLINE)
        conversion = Conversion(document, rules, kept)
        try:
            root = assemble(conversion)
            definitions = conversion.definitions()
        except _Again as again:
            kept = None if kept is None else kept | {again.reference}
        except _TooLarge:
            if kept is None:
                break
            kept = None
        else:
            return root | ({"$defs": definitions} if definitions else {})
    raise DocumentError("has schemas that are too large or nested too deep")


def promised(document: Document, assemble: Assemble) -> Object:
    """Return the schema of an answer, as deep as it stays small: what is below may be anything.

    Raises:
        DocumentError: a reference leads nowhere, or it is too large whatever is done.
    """
    for cut in _CUTS:
        try:
            return assemble(Conversion(document, Rules(for_request=False, cut=cut, most=MAX_OUTPUT), frozenset()))
        except (_Again, _TooLarge):
            continue
    raise DocumentError("has answers that are too large to be described")


class Conversion:
    """One attempt at the schemas of one tool. ``kept`` are the references to keep, None for all of them."""

    def __init__(self, document: Document, rules: Rules, kept: frozenset[str] | None) -> None:
        self._document = document
        self._rules = rules
        self._kept = kept
        self._left = rules.most
        self._active: list[str] = []
        self._depth = 0
        self._deepest = 0
        self._names: dict[str, str] = {}
        self._left_out: frozenset[str] = frozenset()
        """Properties of the value at hand that are left out, whichever of several schemas at once names them."""

    def of(self, schema: Value) -> Value:
        """Convert one schema.

        Raises:
            DocumentError: a reference leads nowhere.
        """
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else {}
        self._work(1)
        self._depth += 1
        self._deepest = max(self._deepest, self._depth)
        if self._depth > MAX_NESTING:
            raise _TooLarge
        reference = schema.get("$ref")
        made = self._referred(reference, schema) if isinstance(reference, str) else self._plain(schema)
        self._depth -= 1
        return made

    def definitions(self) -> Object:
        """Convert what the kept references point to, and what those point to."""
        found: Object = {}
        while waiting := [item for item in self._names.items() if item[1] not in found]:
            for reference, name in waiting:
                self._active = [reference]
                target = self._document.target(reference)
                # References that lead to nothing but each other are refused here: nobody could follow them.
                self._document.resolved(target)
                found[name] = self.of(target)
        return found

    def _work(self, values: int) -> None:
        """Count values that are converted, in this attempt and in all of the document."""
        self._document.work(values)
        self._spend(values)

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise _TooLarge

    def _referred(self, reference: str, schema: Object) -> Value:
        beside = {key: item for key, item in schema.items() if key in _BESIDE or key == "nullable"}
        if self._kept is None or reference in self._kept:
            self._document.target(reference)
            made: Value = {"$ref": f"#/$defs/{self._name(reference)}"}
        else:
            made = self._in_place(reference)
        more = {key: item for key, item in schema.items() if key not in (*_BESIDE, "$ref", "nullable")}
        if self._document.minor >= 1 and (rest := self._plain(more)):
            made = {"allOf": [made, rest]}
        made = made | self._plain(beside) if isinstance(made, dict) else made
        nullable = self._rules.for_request and beside.get("nullable") is True
        return {"anyOf": [made, {"type": "null"}]} if nullable else made

    def _in_place(self, reference: str) -> Value:
        """Convert what a reference points to; once for the whole document where nothing else has a say in it."""
        alone = not self._kept and not self._rules.cut and not self._left_out
        key = (reference, self._rules.for_request, self._rules.patterns)
        if alone and key in self._document.converted:
            value, values, height = self._document.converted[key]
            self._spend(values)
            if self._depth + height > MAX_NESTING:
                raise _TooLarge
            self._deepest = max(self._deepest, self._depth + height)
            return value
        if reference in self._active and not self._rules.cut:
            raise _Again(reference)
        if len(self._active) > MAX_NESTING + MAX_CHAIN:
            raise _TooLarge
        left, deepest, self._deepest = self._left, self._deepest, self._depth
        self._active.append(reference)
        self._depth -= 1
        made = self.of(self._document.target(reference))
        self._depth += 1
        self._active.pop()
        if alone:
            self._document.converted[key] = (made, left - self._left, self._deepest - self._depth)
        self._deepest = max(self._deepest, deepest)
        return made

    def _name(self, reference: str) -> str:
        if reference not in self._names:
            base = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2])[:64] or "schema"
            taken, name, number = set(self._names.values()), base, 1
            while name in taken:
                number += 1
                name = f"{base}_{number}"
            self._names[reference] = name
        return self._names[reference]

    def _plain(self, schema: Object) -> Object:
        made: Object = {}
        is_cut = 0 < self._rules.cut <= self._depth
        outer = self._left_out
        left_out = outer | self._hidden(schema) if self._rules.for_request else outer
        for key, item in schema.items():
            self._left_out = left_out if key in _OF_THE_SAME else frozenset()
            if self._rules.for_request or (key in _DESCRIPTIVE and not (is_cut and key in _NESTED)):
                for name, value in self._member(key, item):
                    made[name] = value
        self._left_out = outer
        self._require(made, schema, left_out)
        self._bound(made, schema)
        self._encoding(made, schema)
        return self._nullable(made, schema)

    def _member(self, key: str, item: Value) -> Iterator[tuple[str, Value]]:
        """Yield what becomes of one keyword; nothing for one that has no meaning in JSON Schema."""
        match item:
            case dict() if key in _NAMED:
                yield key, self._named(key, item)
            case list() if key in _SEVERAL and item:
                # One of several must match an answer: none of them is to be promised.
                yield (
                    ("anyOf" if key == "oneOf" and not self._rules.for_request else key),
                    [self.of(each) for each in item],
                )
            case list() if key == "items":
                yield "prefixItems", [self.of(each) for each in item]
            case dict() | bool() if key in _ONE:
                yield key, self.of(item)
            case list() if key == "enum":
                if 0 < len(item) <= MAX_ENUM:
                    self._work(_weight(item))
                    yield key, item
            case _ if key in _VALUES:
                self._work(_weight(item))
                yield key, item
            case str() if key in _TEXTS:
                self._work(_weight(item[:MAX_TEXT]))
                yield key, item[:MAX_TEXT]
            case _ if key != "pattern" or self._rules.patterns:
                yield from _simple(key, item)

    def _named(self, key: str, schemas: Object) -> Object:
        self._work(sum(map(_weight, schemas)))
        if key != "properties":
            return {name: self.of(each) for name, each in schemas.items()}
        return {name: self.of(each) for name, each in schemas.items() if not self.hides(each)}

    def hides(self, schema: Value) -> bool:
        """Tell whether a property is left out: only the other side writes it."""
        word = _HIDDEN[self._rules.for_request]
        if not isinstance(schema, dict):
            return False
        return schema.get(word) is True or self._document.resolved(schema).get(word) is True

    def _hidden(self, schema: Object, depth: int = _DEEPEST) -> frozenset[str]:
        """Return the names of properties that are left out, of all schemas that hold at once."""
        properties, parts = schema.get("properties"), schema.get("allOf")
        written = properties if isinstance(properties, dict) else {}
        if depth < _DEEPEST:
            # Those of the schema itself are counted where they are converted.
            self._document.work(len(written))
        found = frozenset(name for name, each in written.items() if self.hides(each))
        for part in parts[:_MOST] if isinstance(parts, list) and depth else ():
            found |= self._hidden(self._document.resolved(part), depth - 1)
        return found

    def _require(self, made: Object, schema: Object, left_out: frozenset[str]) -> None:
        required = schema.get("required")
        if not isinstance(required, list) or not self._rules.for_request:
            return
        self._work(len(required))
        names = [name for name in required if isinstance(name, str) and name not in left_out]
        if names:
            made["required"] = [*dict.fromkeys(names)]

    def _bound(self, made: Object, schema: Object) -> None:
        """Before 3.1 a bound was made exclusive by a flag beside it."""
        for plain, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if schema.get(exclusive) is True and plain in made:
                made[exclusive] = made.pop(plain)

    def _encoding(self, made: Object, schema: Object) -> None:
        """Before 3.1 bytes were told by a format; in JSON they are text in base64."""
        if schema.get("format") in ("binary", "byte") and self._rules.for_request:
            made.pop("format", None)
            made["contentEncoding"] = "base64"

    def _nullable(self, made: Object, schema: Object) -> Object:
        if schema.get("nullable") is not True and self._rules.for_request:
            return made
        kind, values = made.get("type"), made.get("enum")
        if isinstance(values, list) and None not in values:
            made["enum"] = [*values, None]
        if isinstance(kind, str):
            made["type"] = kind if kind == "null" else [kind, "null"]
        elif isinstance(kind, list):
            made["type"] = kind if "null" in kind else [*kind, "null"]
        elif any(key in made for key in ("anyOf", "oneOf", "allOf")):
            return {"anyOf": [made, {"type": "null"}]}
        return made


def _simple(key: str, item: Value) -> Iterator[tuple[str, Value]]:
    """Yield what becomes of a keyword whose value holds no schema."""
    match item:
        case _ if key == "type":
            yield from _type(item)
        case str() if key == "pattern" and len(item) <= MAX_PATTERN:
            yield key, item
        case str() if key in _WORDS:
            yield key, item[:128]
        case bool() if key in _FLAGS:
            yield key, item
        case int() | float() if key in _NUMBERS and not isinstance(item, bool):
            yield key, item
        case int() if key in _COUNTS and not isinstance(item, bool) and item >= 0:
            yield key, item
        case _ if key == "example" and _is_short(item):
            yield "examples", [item]
        case list() if key == "examples" and item and all(map(_is_short, item[:4])):
            yield key, item[:4]


def _type(item: Value) -> Iterator[tuple[str, Value]]:
    if isinstance(item, str) and item in _TYPES:
        yield "type", item
    elif isinstance(item, list):
        known = list(dict.fromkeys(filter(_is_type, item[: len(_TYPES)])))
        if known:
            yield "type", known


def _is_type(item: Value) -> bool:
    return isinstance(item, str) and item in _TYPES


def _is_short(item: Value) -> bool:
    return isinstance(item, (bool, int, float)) or (isinstance(item, str) and len(item) <= _SHORT)


def _weight(value: Value) -> int:
    """Count the values inside one; a long text counts as several."""
    waiting, count = [value], 0
    while waiting and count <= MAX_SCHEMA:
        item = waiting.pop()
        count += 1 + (len(item) // _SHORT if isinstance(item, str) else 0)
        if isinstance(item, (dict, list)):
            waiting += item.values() if isinstance(item, dict) else item
    return count
