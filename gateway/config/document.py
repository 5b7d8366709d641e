"""YAML as this gateway reads it: one mapping, each key once, with the line of every key and item.

Scalars follow YAML 1.2: only ``true`` and ``false`` are truth values, so that ``off``, ``no`` and ``on`` stay the
words they are. Anchors and aliases work within a bound; tags, merge keys and several documents in one file do not.
Text that begins with ``{`` is taken for JSON as editors write it, with tabs and comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from gateway.config.places import Document, Loc, Mapping, Tree, dotted, shown
from gateway.errors import ConfigError, Problem

MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,40}|[0-9]{1,40}(?:\.[0-9]{0,40})?)(?:[eE][-+]?[0-9]{1,3})?")
_TAB_INDENT = re.compile(r" *\t")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_STR_TAG: Final = "tag:yaml.org,2002:str"

# In JSON a string, a comment, or a tab: only the last two are replaced.
_JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|((?<![^\s,\[\]{}"])//[^\n]*|/\*.*?\*/)|\t', re.DOTALL)

_WORDS: Final = (
    ("cannot start any token", "a value cannot begin with this character: put the value in quotes"),
    ("mapping values are not allowed", "an unexpected colon: put the value in quotes, or check the indentation"),
    ("could not find expected ':'", "a key without a colon"),
    ("did not find expected alphabetic", "an alias without a name: put strings that begin with * or & in quotes"),
    ("expected alphabetic or numeric", "an alias without a name: put strings that begin with * or & in quotes"),
    ("expected <block end>", "the indentation does not fit, or text stands behind a closing quote"),
    ("expected the node content", "a value is missing"),
    ("expected ',' or", "a comma or a closing bracket is missing"),
    ("unexpected end of stream", "a closing quote or bracket is missing"),
    ("while scanning a quoted scalar", "a closing quote is missing"),
    ("duplicate anchor", "an anchor is defined twice"),
    ("escape", "an unknown escape in a double-quoted string: use single quotes"),
)  # fmt: skip


def parse(data: bytes, file: str) -> Document:
    """Read one file.

    Raises:
        ConfigError: with the one problem that stopped the reading: not UTF-8, not YAML, empty, not a mapping, a
            key twice, too deep, too many values.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem("is not UTF-8", file, line, hint="save the file as UTF-8")]) from None
    if text.lstrip().startswith("{"):
        text = _JSON_TOKEN.sub(_blank, text)
    builder = _Builder(file)
    try:
        root = builder.document(iter(yaml.parse(text, Loader=yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax(error, text, file)]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError([Problem("has a control character that YAML does not allow", file, line)]) from None
    return Document(file, root, builder.lines)


def _blank(match: re.Match[str]) -> str:
    if match[1] is not None:
        return match[1]
    return "".join(char if char == "\n" else " " for char in match[0])


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    """Say what the parser stumbled over in own words: its own quote the text, which may be a secret."""
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    lines = text.split("\n")
    if mark and mark.line < len(lines) and _TAB_INDENT.match(lines[mark.line]):
        return Problem("a tab in the indentation", file, line, hint="indent with spaces")
    said = f"{error.context or ''} {error.problem or ''}"
    words = next((words for sign, words in _WORDS if sign in said), "the text does not fit together here")
    began = error.context_mark.line + 1 if error.context_mark else line
    hint = f"it began in line {began}" if began != line else ""
    return Problem(f"is not valid YAML: {words}", file, line, hint=hint)


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Tree
    nodes: int


class _Builder:
    """Makes one tree of the parser's events, with a bound on depth and on values, aliases counted as often as used."""

    def __init__(self, file: str) -> None:
        self.lines: dict[Loc, int] = {}
        self._file = file
        self._nodes = 0
        self._anchors: dict[str, _Anchored] = {}

    def document(self, events: Iterator[yaml.Event]) -> Mapping:
        """Read the only document of a file."""
        next(events)
        if not isinstance(next(events), yaml.DocumentStartEvent):
            raise self._fail("is empty", 1)
        start = next(events)
        if isinstance(start, yaml.ScalarEvent) and start.value == "":
            raise self._fail("is empty", 1)
        root = self._node(start, events, ())
        if not isinstance(root, dict):
            raise self._fail("must be a mapping of sections", _line(start), hint="such as listen:, servers:, policies:")
        next(events)
        end = next(events)
        if not isinstance(end, yaml.StreamEndEvent):
            raise self._fail("holds more than one document", _line(end), hint="remove the line ---")
        return root

    def _node(self, event: yaml.Event, events: Iterator[yaml.Event], loc: Loc) -> Tree:
        self._count(1, event)
        if len(loc) > MAX_DEPTH:
            raise self._fail(f"is nested deeper than {MAX_DEPTH} levels", _line(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._nodes
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, loc)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._no_tag(event)
            value = self._sequence(events, loc)
        else:
            assert isinstance(event, yaml.MappingStartEvent)
            self._no_tag(event)
            value = self._mapping(events, loc)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, self._nodes - before + 1)
        return value

    def _sequence(self, events: Iterator[yaml.Event], loc: Loc) -> Tree:
        items: list[Tree] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            here = (*loc, len(items))
            self.lines[here] = _line(event)
            items.append(self._node(event, events, here))
        return items

    def _mapping(self, events: Iterator[yaml.Event], loc: Loc) -> Tree:
        members: Mapping = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._fail("a key must be a plain word", _line(event), loc)
            key = _joined(event.value)
            here = (*loc, key)
            if key == "<<" and event.implicit[0]:
                raise self._fail("merge keys are not supported", _line(event), loc, hint="write the keys out")
            if key in members:
                raise self._fail("the key is there twice", _line(event), here, f"first in line {self.lines[here]}")
            self.lines[here] = _line(event)
            members[key] = self._node(next(events), events, here)
        return members

    def _alias(self, event: yaml.AliasEvent) -> Tree:
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            hint = "put strings that begin with * in quotes"
            raise self._fail("an alias of nothing that stands before it", _line(event), hint=hint)
        self._count(anchored.nodes, event)
        return anchored.value

    def _scalar(self, event: yaml.ScalarEvent, loc: Loc) -> Tree:
        if event.tag not in (None, "!", _STR_TAG):
            raise self._fail("tags are not supported", _line(event), loc, hint="put the value in quotes")
        text = event.value
        plain = event.implicit[0] and event.tag is None
        return resolve(text) if plain else _joined(text)

    def _no_tag(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            raise self._fail("tags are not supported", _line(event))

    def _count(self, nodes: int, event: yaml.Event) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._fail(f"holds more than {MAX_NODES} values, aliases counted as often as used", _line(event))

    def _fail(self, message: str, line: int, loc: Loc = (), hint: str = "") -> ConfigError:
        return ConfigError([Problem(message, self._file, line, dotted(loc), shown(hint))])


def resolve(text: str) -> Tree:
    """Read a plain scalar: null, a truth value, a decimal number, or the text itself.

    Numbers with leading zeros stay text: YAML versions disagree about them. So do infinities.
    """
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and not _LEADING_ZERO.match(text) and not text.lstrip("+-").isdecimal():
        number = float(text)
        return number if math.isfinite(number) else text
    return text


def _joined(text: str) -> str:
    """Join surrogate pairs: JSON spells characters beyond U+FFFF as two escapes, YAML does not."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0
