"""How much work a JSON Schema can make of one value, found before any value is checked (2026-07-28 basic, JSON Schema
§Security Considerations; S77).

A validator that is handed a hostile schema can be kept busy for minutes: definitions that refer to each other twice
double the work with each step, and a schema that refers twice to itself doubles it with each level of the data. Pure;
follows references inside the schema alone and never fetches one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from gateway.protocol.rawjson import MAX_DEPTH, Value

MAX_SUBSCHEMAS: Final = 5_000
"""Subschemas in one schema: compiling more of them would hold up others."""
MAX_VISITS: Final = 10_000
"""Subschemas that may be applied to one value."""
MAX_COST: Final = 50_000
"""What all of them may cost together; most cost 1."""
_MAX_CHAIN: Final = 200
"""References and applicators that may follow each other on one value."""
_MAX_WORK: Final = 400_000
"""Steps this estimate itself may take."""

_BACK_REFERENCE: Final = re.compile(r"\\(?:[1-9]|k<)")

_Node: TypeAlias = "dict[str, Value]"
_Counts: TypeAlias = dict[int, int]
"""How often each subschema, by its number, is applied."""

_HERE: Final = ("not", "if", "then", "else")
_HERE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE_MAPS: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ITEMS: Final = ("items", "contains", "additionalItems", "unevaluatedItems")
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_DEFINITIONS: Final = ("$defs", "definitions")
_METASCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
_BOOLEAN: Final[_Node] = {}
"""Stands for ``true`` and ``false``, which are schemas too."""
_FRACTION: Final = 200
_TINY_FRACTION: Final = 1_000
_TINY: Final = 1e-9
"""Below it a remainder is worked out in many digits."""
_BACKTRACKING: Final = 2_000
"""A pattern that may try a text in thousands of ways before it gives up."""
_RULES: Final = 16
"""Values in a rule that cost as much as one subschema."""
_LEVELS: Final = 8
"""Levels down which a value counts once: comparing the items of an array looks again at all that is below them."""
_CHARACTERS: Final = 256
"""Characters of a text that count as one value."""
_ITEM: Final = "\0item"
_ANY: Final = "\0any"


class TooExpensive(ValueError):
    """A schema that could keep a validator busy; the text says what about it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one value can cost at most, whatever it is; ``followed`` tells whether every reference was found."""

    most: int = 1
    followed: bool = True


def cost(schema: Value) -> Cost:
    """Return the subschemas that one value can meet at most; those that take long count for several.

    Raises:
        TooExpensive: more than ``MAX_VISITS`` or ``MAX_COST``, or the schema is too large to say.
    """
    if not isinstance(schema, dict):
        return Cost()
    estimate = _Estimate(schema)
    return Cost(estimate.most(), estimate.followed)


def size_of(value: Value, most: int) -> int:
    """Count values, those far down and long texts as several; stops counting at ``most``."""
    count = 0
    waiting: list[tuple[Iterable[Value], int]] = [((value,), 0)]
    while waiting and count < most:
        items, level = waiting.pop()
        for item in items:
            count += 1 + level // _LEVELS
            if isinstance(item, str):
                count += len(item) // _CHARACTERS
            elif isinstance(item, dict):
                waiting.append((item.values(), level + 1))
            elif isinstance(item, list):
                waiting.append((item, level + 1))
            if count >= most:
                break
    return count


class _Estimate:
    """The graph of one schema: which subschemas look at the same value, and which at its members."""

    def __init__(self, root: _Node) -> None:
        self._nodes: list[_Node] = []
        self._bases: list[str] = []
        self._numbers: dict[int, int] = {}
        self._places: dict[str, _Node] = {}
        self._dynamic: dict[str, list[_Node]] = {}
        self._closures: dict[int, _Counts] = {}
        self._work = 0
        self._met = 0
        self.followed = True
        dialect = root.get("$schema")
        # Elsewhere ``id`` is a word like any other, and means nothing to a validator.
        self._id = "id" if isinstance(dialect, str) and "draft-04" in dialect else "$id"
        self._collect(root, "")
        self._root = root

    def _collect(self, root: _Node, base: str) -> None:
        self._places[base] = root
        waiting: list[tuple[_Node, str]] = [(root, base)]
        while waiting:
            node, base = waiting.pop()
            base = self._named(node, base)
            self._met += 1
            if self._met > MAX_SUBSCHEMAS:
                raise TooExpensive(f"over {MAX_SUBSCHEMAS} subschemas")
            if id(node) in self._numbers:
                continue
            self._numbers[id(node)] = len(self._nodes)
            self._nodes.append(node)
            self._bases.append(base)
            waiting += [(below, base) for below in _below(node)]

    def _named(self, node: _Node, base: str) -> str:
        """Note the names a subschema gives itself, and return the base of the references in it."""
        own = node.get(self._id)
        if isinstance(own, str):
            base = urljoin(base, own).rstrip("#")
            self._places.setdefault(base, node)
        for key in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(key)
            if isinstance(anchor, str):
                self._places.setdefault(f"{base}#{anchor}", node)
        for anchor in (node.get("$dynamicAnchor"), node.get("$recursiveAnchor")):
            if isinstance(anchor, str) or anchor is True:
                self._dynamic.setdefault("" if anchor is True else f"{anchor}", []).append(node)
        return base

    def _target(self, number: int, reference: str) -> _Node | None:
        """Return what a reference leads to; None for what is elsewhere, which compiling the schema will refuse."""
        base, fragment = urldefrag(urljoin(self._bases[number], reference))
        place = self._places.get(f"{base}#{fragment}" if fragment else base)
        if place is None and fragment.startswith("/"):
            place = _pointed(self._places.get(base), fragment)
        if place is not None and id(place) not in self._numbers:
            self._collect_at(place, self._bases[number])
        return place

    def _collect_at(self, place: _Node, base: str) -> None:
        """Take in a subschema that stands where only a reference finds it."""
        kept = self._places.get(base)
        self._collect(place, base)
        if kept is not None:
            self._places[base] = kept

    def _here(self, number: int) -> Iterator[int]:
        """Yield the subschemas applied to the same value."""
        node = self._nodes[number]
        for below in (*_values(node, _HERE), *_listed(node, _HERE_LISTS), *_mapped(node, _HERE_MAPS)):
            yield self._numbers[id(below)]
        for key in _REFERENCES:
            reference = node.get(key)
            if not isinstance(reference, str):
                continue
            place = self._target(number, reference)
            if place is not None:
                yield self._numbers[id(place)]
            elif not reference.startswith(_METASCHEMAS):
                self.followed = False
            if key != "$ref":
                # Where it leads depends on where the validator comes from: it may be any of them.
                named = self._dynamic.get(urldefrag(reference)[1], ())
                yield from (self._numbers[id(other)] for other in named if other is not place)

    def _closure(self, number: int, path: tuple[int, ...] = ()) -> _Counts:
        """Return every subschema that meets the value which this one meets, and how often."""
        known = self._closures.get(number)
        if known is not None:
            return known
        if number in path:
            raise TooExpensive("refers to itself without going deeper into the value")
        if len(path) > _MAX_CHAIN:
            raise TooExpensive(f"over {_MAX_CHAIN} references in a row")
        counts: _Counts = {number: 1}
        for below in self._here(number):
            for each, times in self._closure(below, (*path, number)).items():
                counts[each] = counts.get(each, 0) + times
                self._worked()
            if sum(counts.values()) > MAX_VISITS:
                raise TooExpensive(f"over {MAX_VISITS} subschemas for one value")
        self._closures[number] = counts
        return counts

    def _worked(self) -> None:
        self._work += 1
        if self._work > _MAX_WORK:
            raise TooExpensive("too many references to follow")

    def _members(self, number: int) -> dict[str, _Counts]:
        """Return, for each kind of member a value may have, the subschemas that meet it."""
        found: dict[str, _Counts] = {_ITEM: {}, _ANY: {}}
        closure = self._closure(number)
        named = {name for each in closure for name in _named_members(self._nodes[each])}
        found |= {name: {} for name in named}
        for each, times in closure.items():
            node = self._nodes[each]
            own = _named_members(node)
            for below in (*_values(node, _ITEMS), *_listed(node, ("items", "prefixItems"))):
                self._add(found[_ITEM], below, times)
            for name, below in own.items():
                self._add(found[name], below, times)
            for below in _mapped(node, ("patternProperties",)):
                for name in (*named, _ANY):
                    self._add(found[name], below, times)
            for below in _values(node, _OTHERS):
                for name in {*named, _ANY} - own.keys():
                    self._add(found[name], below, times)
        return found

    def _add(self, counts: _Counts, below: _Node, times: int) -> None:
        self._worked()
        number = self._numbers[id(below)]
        counts[number] = counts.get(number, 0) + times

    def most(self) -> int:
        """Go down level by level, as deep as JSON goes here, and return the most that meets any value."""
        start = self._numbers[id(self._root)]
        members: dict[int, dict[str, _Counts]] = {}
        waiting = [start]
        while waiting:
            number = waiting.pop()
            if number not in members:
                members[number] = self._members(number)
                waiting += [below for counts in members[number].values() for below in counts]
        own = [_own_cost(node) for node in self._nodes]
        level = {number: sum(n * own[each] for each, n in self._closure(number).items()) for number in members}
        worst = level[start]
        for _ in range(MAX_DEPTH):
            deeper = {
                number: max(
                    (sum(times * level[below] for below, times in counts.items()) for counts in choices.values()),
                    default=0,
                )
                for number, choices in members.items()
            }
            worst = max(worst, deeper[start])
            if worst > MAX_COST:
                raise TooExpensive("one value would take too many steps")
            if deeper == level or not any(deeper.values()):
                break
            level = deeper
        return worst


def _own_cost(node: _Node) -> int:
    """Return what a subschema costs by itself: rules that look at many things, or at one for long, cost more."""
    cost = 1
    step = node.get("multipleOf", 1)
    if isinstance(step, float) and not step.is_integer():
        cost += _FRACTION if abs(step) >= _TINY else _TINY_FRACTION
    patterns = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(patterns if isinstance(patterns, dict) else ())):
        if isinstance(pattern, str) and _may_backtrack(pattern):
            cost += _BACKTRACKING
    options = node.get("enum")
    if isinstance(options, list):
        cost += sum(isinstance(option, dict | list) for option in options)
    for rule in (options, node.get("const")):
        cost += size_of(rule, _MAX_WORK) // _RULES
    needs = node.get("dependentRequired")
    for names in (node.get("required"), *(needs.values() if isinstance(needs, dict) else ())):
        cost += len(names) if isinstance(names, list) else 0
    return cost


def _may_backtrack(pattern: str) -> bool:
    """Tell whether a pattern looks around or back, which no automaton does."""
    return "(?" in pattern.replace("(?:", "").replace("(?P<", "") or _BACK_REFERENCE.search(pattern) is not None


def _schemas(items: Iterable[Value]) -> Iterator[_Node]:
    for item in items:
        if isinstance(item, dict):
            yield item
        elif isinstance(item, bool):
            yield _BOOLEAN


def _named_members(node: _Node) -> dict[str, _Node]:
    """Return the subschemas for members with a name."""
    properties = node.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: item for name, item in properties.items() if isinstance(item, dict)}


def _values(node: _Node, keys: tuple[str, ...]) -> Iterator[_Node]:
    yield from _schemas(node[key] for key in keys if key in node)


def _listed(node: _Node, keys: tuple[str, ...]) -> Iterator[_Node]:
    for key in keys:
        items = node.get(key)
        if isinstance(items, list):
            yield from _schemas(items)


def _mapped(node: _Node, keys: tuple[str, ...]) -> Iterator[_Node]:
    for key in keys:
        items = node.get(key)
        if isinstance(items, dict):
            yield from _schemas(items.values())


def _below(node: _Node) -> Iterator[_Node]:
    """Yield every subschema that stands directly in this one."""
    yield from _values(node, (*_HERE, *_ITEMS, *_OTHERS))
    yield from _listed(node, (*_HERE_LISTS, "items", "prefixItems"))
    yield from _mapped(node, (*_HERE_MAPS, *_DEFINITIONS, "properties", "patternProperties"))


def _pointed(start: Value, pointer: str) -> _Node | None:
    """Follow a JSON pointer (RFC 6901) that stands in a URI."""
    place = start
    for part in unquote(pointer).split("/")[1:]:
        step = part.replace("~1", "/").replace("~0", "~")
        match place:
            case dict():
                place = place.get(step)
            case list():
                place = place[int(step)] if step.isascii() and step.isdigit() and int(step) < len(place) else None
            case _:
                return None
    return place if isinstance(place, dict) else None
