"""What a definition says that people do not see, and what in it poses as instructions (S143 to S147).

Pure; every definition is looked at once, by its digest. What comes of it is for ``build`` to decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from gateway.model.catalog import NAME_KEY, Definition, Kind, Listing, Route, Suspicion
from gateway.protocol import rawjson
from gateway.protocol.rawjson import Value
from gateway.text import hidden, markers
from gateway.text.pieces import pieces

Mode: TypeAlias = Literal["quarantine", "strip", "escape", "off"]

LONG_DESCRIPTION: Final = 4096
"""Characters of a description that are still usual."""
CROSS_SERVER: Final = "cross_server_reference"
HIDDEN: Final = "hidden_characters"
LONG: Final = "long_description"
_MAX_REMEMBERED: Final = 16_384
_MAX_PLACES: Final = 3
_MAX_WORDS: Final = 2_048
_SHORTEST_NAME: Final = 6
_CLEANED: Final = frozenset({"title", "description", "$comment", "examples"})
"""Members whose texts are for reading alone; any other text means something to a server, and so cannot be changed."""
_DISPLAY_NAMES: Final = frozenset({Kind.RESOURCE, Kind.TEMPLATE})
"""Kinds whose ``name`` is for reading: they are called by URI."""
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]+")

_Change: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found in one definition.

    ``hidden`` are places with the characters there, ``fixed`` those of them that cannot be cleaned; ``rules`` are
    markers and whatever else is worth a look; ``words`` could be names of tools.
    """

    hidden: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()

    def refused(self, mode: Mode, *, strict: bool) -> str | None:
        """Say why the definition is not exposed, None where it is; ``strict`` servers may not pose as anybody."""
        found = {"quarantine": self.hidden, "strip": self.fixed, "escape": self.fixed, "off": ()}[mode]
        if found:
            return f"hidden characters in {'; '.join(found[:_MAX_PLACES])}"
        suspicious = [rule for rule in self.rules if rule != LONG]
        if strict and suspicious:
            return f"poses as instructions: {', '.join(suspicious)}"
        return None


@dataclass(frozen=True, slots=True)
class _Key:
    digest: str
    definition: Definition = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Text:
    """One text of a definition, where it stands, and whether it may be changed."""

    place: str
    text: str
    cleaned: bool


def examined(definition: Definition) -> Examined:
    """Look at every text of a definition: names and values, however deep."""
    return _examined(_Key(f"{definition.kind}:{definition.digest}", definition))


@lru_cache(maxsize=_MAX_REMEMBERED)
def _examined(key: _Key) -> Examined:
    definition = key.definition
    texts = list(_texts(definition))
    seen: list[str] = []
    fixed: list[str] = []
    rules: dict[str, None] = {}
    for each in texts:
        characters = tuple(dict.fromkeys(found for part in pieces(each.text) for found in hidden.find(part)))
        if characters:
            told = f"{_plain(each.place)}: {', '.join(characters[:_MAX_PLACES])}"
            seen.append(told)
            if not each.cleaned:
                fixed.append(told)
        for part in pieces(each.text):
            rules |= dict.fromkeys(markers.find(part))
    described = rawjson.peek(definition.members.get("description"))
    if isinstance(described, str) and len(described) > LONG_DESCRIPTION:
        rules[LONG] = None
    words = _words(text.text for text in texts)
    return Examined(tuple(seen), tuple(fixed), tuple(rules), words)


def shown(definition: Definition, mode: Mode) -> Definition:
    """Return a definition as clients are shown it; its digest stays that of what the server said (S144)."""
    if mode not in ("strip", "escape") or not examined(definition).hidden:
        return definition
    return _shown(_Key(f"{definition.kind}:{definition.digest}", definition), mode)


def prepare(definition: Definition) -> None:
    """Do now what takes long of a definition, for every mode; what comes of it is remembered."""
    for mode in get_args(Mode):
        shown(definition, mode)
    examined(definition)


@lru_cache(maxsize=_MAX_REMEMBERED)
def _shown(key: _Key, mode: Mode) -> Definition:
    definition = key.definition
    change = hidden.strip if mode == "strip" else hidden.escape
    display = definition.kind in _DISPLAY_NAMES
    members = {
        key: rawjson.raw(_cleaned(rawjson.decode_value(item), change, _is_cleaned(key, top=display)))
        for key, item in definition.members.items()
    }
    return Definition(definition.kind, definition.name, members, definition.digest, definition.annotations)


def suspicions(listings: Iterable[Listing], routes: Iterable[Route]) -> Iterator[Suspicion]:
    """Yield what an operator should look at, the names of other servers' tools in a definition among it (S147)."""
    owners = {route.exposed: route.server for route in routes if is_telling(route.exposed)}
    for listing in listings:
        for definition in listing.definitions:
            found = examined(definition)
            rules = list(found.rules)
            if found.hidden:
                rules.insert(0, HIDDEN)
            if any(owners[name] != listing.server for name in found.words & owners.keys()):
                rules.append(CROSS_SERVER)
            for rule in rules:
                yield Suspicion(listing.server, definition.kind, definition.name, rule, definition.digest)


def is_telling(name: str) -> bool:
    """Tell whether a name is one that no text contains by chance: long enough and of several words."""
    return len(name) >= _SHORTEST_NAME and ("_" in name or "-" in name)


def _is_cleaned(key: str, *, top: bool = False) -> bool:
    return key in _CLEANED or (top and key == "name")


def _cleaned(value: Value, change: _Change, here: bool) -> Value:
    match value:
        case str():
            return "".join(map(change, pieces(value))) if here else value
        case list():
            return [_cleaned(item, change, here) for item in value]
        case dict():
            return {key: _cleaned(item, change, _is_cleaned(key)) for key, item in value.items()}
        case _:
            return value


def _texts(definition: Definition) -> Iterator[_Text]:
    named = NAME_KEY[definition.kind]
    display = definition.kind in _DISPLAY_NAMES
    # Tools and prompts are exposed under a name made of letters and digits; their own is shown to nobody.
    shown_never = named if not display else ""
    for key, item in definition.members.items():
        yield _Text(f"the key {key}", key, False)
        cleaned = key == shown_never or _is_cleaned(key, top=display)
        yield from _below(key, rawjson.decode_value(item), cleaned)


def _below(place: str, value: Value, cleaned: bool) -> Iterator[_Text]:
    waiting: list[tuple[str, Value, bool]] = [(place, value, cleaned)]
    while waiting:
        place, value, cleaned = waiting.pop()
        match value:
            case str():
                yield _Text(place, value, cleaned)
            case list():
                waiting += [(f"{place}/{at}", item, cleaned) for at, item in enumerate(value)]
            case dict():
                for key, item in value.items():
                    yield _Text(f"a key of {place}", key, False)
                    waiting.append((f"{place}/{key}", item, _is_cleaned(key)))
            case _:
                pass


def _words(texts: Iterable[str]) -> frozenset[str]:
    words: set[str] = set()
    for text in texts:
        for match in _WORD.finditer(text):
            word = match[0].strip(".-")
            if is_telling(word):
                words.add(word)
                if len(words) >= _MAX_WORDS:
                    return frozenset(words)
    return frozenset(words)


def _plain(place: str) -> str:
    shown_place = "".join(each if each.isprintable() else "?" for each in place)
    return shown_place if len(shown_place) <= 128 else f"{shown_place[:127]}…"
