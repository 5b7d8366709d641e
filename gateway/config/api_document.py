"""An OpenAPI document as text: JSON or YAML, read within bounds into a tree, and told from what is none.

Knows how such a text is written and which versions there are; what its operations mean is for others to say. Unlike
the config it may be megabytes long, so no line is kept for every value, and libyaml reads it where that is installed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

import yaml

from gateway.config.document import resolve
from gateway.errors import GatewayError
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value

MAX_DOCUMENT: Final = 16 * 2**20
"""Bytes of one document."""
MAX_NODES: Final = 1_000_000
"""Values of one document, aliases counted as often as they are used."""
MAX_DEPTH: Final = 96

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_VERSION: Final = re.compile(r"3\.([0-2])(?:\.[0-9]{1,3})?")
_STR_TAG: Final = "tag:yaml.org,2002:str"
_LONG_INT: Final = re.compile(r"-?[1-9][0-9]{18,40}")
_CONVERT: Final = "convert it to OpenAPI 3, for example with swagger2openapi or at converter.swagger.io"


class BadDocument(GatewayError):
    """A text that is no OpenAPI document; ``text`` goes behind its name, ``line`` is 0 where there is none to name."""

    def __init__(self, text: str, line: int = 0, hint: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.line = line
        self.hint = hint

    @property
    def told(self) -> str:
        """All of it in one sentence, for where there is no place for a hint of its own."""
        where = f" in line {self.line}" if self.line else ""
        return f"{self.text}{where}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ApiDocument:
    """One document. ``digest`` is the hex SHA-256 of its text; documents of equal text are equal."""

    digest: str
    tree: Object = field(compare=False, repr=False)

    @property
    def minor(self) -> int:
        """The second number of its version: 0, 1 or 2."""
        match = _VERSION.fullmatch(_version(self.tree))
        return int(match[1]) if match else 0


_IN_USE: Final[WeakValueDictionary[str, ApiDocument]] = WeakValueDictionary()
"""The documents that somebody has, by their digests: each is read once, and gone with the last who has it."""


def read(data: bytes) -> ApiDocument:
    """Read a document; of a text that was read before and is still in use the same one, so nobody may change it.

    Raises:
        BadDocument: too long, too deep, too many values, not UTF-8, neither JSON nor YAML, of another version, or
            something else.
    """
    if len(data) > MAX_DOCUMENT:
        raise BadDocument(f"is longer than {MAX_DOCUMENT // 2**20} MiB")
    digest = hashlib.sha256(data).hexdigest()
    known = _IN_USE.get(digest)
    if known is None:
        known = _IN_USE[digest] = ApiDocument(digest, _tree(data))
    return known


def _tree(data: bytes) -> Object:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadDocument("is not UTF-8") from None
    tree = _json(text) if text.lstrip()[:1] in ("{", "[") else _yaml(text)
    if not isinstance(tree, dict):
        raise BadDocument("is no OpenAPI document: it is not a mapping")
    if "swagger" in tree:
        raise BadDocument("is written in Swagger 2.0, which is not served", hint=_CONVERT)
    if not _VERSION.fullmatch(_version(tree)):
        raise BadDocument("is no OpenAPI document: it needs openapi: 3.0, 3.1 or 3.2 with its number")
    return tree


def _version(tree: Object) -> str:
    # YAML reads 3.1 as a number.
    value = tree.get("openapi")
    return str(value) if isinstance(value, (str, float)) else ""


def _json(text: str) -> Value:
    # What separates values occurs in texts as well, so this bound is generous.
    if text.count(",") + text.count("{") + text.count("[") > 2 * MAX_NODES:
        raise _too_many(0)
    try:
        tree = rawjson.decode_value(text.encode())
    except JsonError:
        raise BadDocument("is not valid JSON, which it begins like") from None
    level: list[Value] = [tree]
    for _ in range(MAX_DEPTH):
        level = [item for value in level for item in _items(value)]
        if not level:
            return tree
    raise _too_deep(0)


def _items(value: Value) -> Iterator[Value]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _yaml(text: str) -> Value:
    try:
        return _Builder().document(iter(yaml.parse(text, Loader=_LOADER)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadDocument("is not valid YAML", mark.line + 1 if mark else 0) from None
    except yaml.YAMLError:
        raise BadDocument("is not valid YAML: it has a character that YAML does not allow") from None


class _Builder:
    """Makes one tree of the parser's events."""

    def __init__(self) -> None:
        self._nodes = 0
        self._deepest = 0
        self._anchors: dict[str, tuple[Value, int, int]] = {}

    def document(self, events: Iterator[yaml.Event]) -> Value:
        next(events)
        if not isinstance(next(events), yaml.DocumentStartEvent):
            raise BadDocument("is empty")
        root = self._node(next(events), events, 0)
        next(events)
        end = next(events)
        if not isinstance(end, yaml.StreamEndEvent):
            raise BadDocument("holds more than one document", _line(end))
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Value:
        self._count(1, event)
        self._reach(depth, event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        nodes, deepest, self._deepest = self._nodes, self._deepest, depth
        value = self._value(event, events, depth)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = (value, self._nodes - nodes + 1, self._deepest - depth)
        self._deepest = max(self._deepest, deepest)
        return value

    def _value(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Value:
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", _STR_TAG):
            raise BadDocument("uses a tag, which is not supported", _line(event))
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event.value) if event.implicit[0] and tag is None else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Value] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self._node(event, events, depth + 1))
            return items
        return self._mapping(events, depth)

    def _mapping(self, events: Iterator[yaml.Event], depth: int) -> Object:
        members: Object = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise BadDocument("has a key that is no plain word", _line(event))
            if event.value == "<<" and event.implicit[0]:
                raise BadDocument("uses a merge key, which is not supported", _line(event), "write the keys out")
            if event.value in members:
                raise BadDocument("has a key twice in one mapping", _line(event))
            members[event.value] = self._node(next(events), events, depth + 1)
        return members

    def _alias(self, event: yaml.AliasEvent, depth: int) -> Value:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            raise BadDocument("uses an alias of nothing that stands before it", _line(event))
        value, nodes, height = found
        self._count(nodes, event)
        self._reach(depth + height, event)
        return value

    def _reach(self, depth: int, event: yaml.Event) -> None:
        if depth > MAX_DEPTH:
            raise _too_deep(_line(event))
        self._deepest = max(self._deepest, depth)

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _too_many(_line(event))


def _scalar(text: str) -> Value:
    value = resolve(text)
    if isinstance(value, str):
        # Limits such as 2^64-1 are longer than any number of a config.
        return int(text) if _LONG_INT.fullmatch(text) else value
    return value if isinstance(value, (bool, int, float)) else None


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _too_deep(line: int) -> BadDocument:
    return BadDocument(f"is nested deeper than {MAX_DEPTH} levels", line)


def _too_many(line: int) -> BadDocument:
    return BadDocument(f"holds more than {MAX_NODES} values, aliases counted as often as they are used", line)
