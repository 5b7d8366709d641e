"""Selectors of policies and views: ``server/name-glob`` and its forms, compiled to matchers without regexes.

A selector is split once, at the first ``/``, into two anchored globs over a server's configured name and its own
name for the thing; exposed names, namespaces and renames never count (S65, S66, G071). Matching takes time linear in
the name for a given selector, whatever either holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.model.call import Beyond, Sort, Target
from gateway.model.catalog import Kind

Matcher: TypeAlias = Callable[[str], bool]

MAX_SELECTOR: Final = 1024
"""Characters a selector may have."""
_PREFIXES: Final[dict[str, frozenset[Sort]]] = {
    "prompt:": frozenset({Kind.PROMPT}),
    "resource:": frozenset({Kind.RESOURCE, Kind.TEMPLATE}),
    "any:": frozenset((*Kind, *Beyond)),
}
_TOOLS: Final[frozenset[Sort]] = frozenset({Kind.TOOL})
_URI_KINDS: Final = frozenset({Kind.RESOURCE, Kind.TEMPLATE})
_STAR: Final = 0
_DOUBLE_STAR: Final = 1


class SelectorError(ValueError):
    """A text that is no selector; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One compiled selector."""

    text: str
    kinds: frozenset[Sort]
    server: Matcher
    name: Matcher
    uri: Matcher

    def matches(self, target: Target) -> bool:
        """Whether the selector covers a target."""
        if target.kind not in self.kinds or not self.server(target.server):
            return False
        return self.uri(target.name) if target.kind in _URI_KINDS else self.name(target.name)


def parse_selector(text: str) -> Selector:
    """Compile a selector.

    Raises:
        SelectorError: too long, without ``/``, with nothing on one side of it, or of a kind that does not exist.
    """
    if len(text) > MAX_SELECTOR:
        raise SelectorError(f"is longer than {MAX_SELECTOR} characters")
    prefix = next((prefix for prefix in _PREFIXES if text.startswith(prefix)), "")
    server, slash, name = text[len(prefix) :].partition("/")
    # No server's name has a colon, so this is a kind that does not exist.
    if ":" in server:
        raise SelectorError(f"starts with {server.partition(':')[0]!r}: the kinds are prompt:, resource: and any:")
    if not slash or not server or not name:
        raise SelectorError("needs a server, a slash and a name, such as wiki/search or wiki/*")
    return Selector(text, _PREFIXES.get(prefix, _TOOLS), compile_glob(server), compile_glob(name), compile_uri(name))


def parse_target(text: str) -> Target:
    """Read what is called: ``server/name``, with ``prompt:``, ``resource:`` or ``template:`` in front of others.

    Raises:
        SelectorError: without a server or a name, or of a kind that does not exist.
    """
    server, slash, name = text.partition("/")
    prefix, colon, rest = server.rpartition(":")
    kinds: dict[str, Sort] = {kind.value: kind for kind in (*Kind, *Beyond)}
    if colon and prefix not in kinds:
        raise SelectorError(f"starts with {prefix!r}: the kinds are {', '.join(f'{kind}:' for kind in kinds)}")
    if not slash or not rest or not name:
        raise SelectorError("needs a server, a slash and a name, such as wiki/search or prompt:wiki/greet")
    return Target(kinds[prefix] if colon else Kind.TOOL, rest, name)


def any_matches(selectors: Iterable[Selector], target: Target) -> bool:
    """Whether any of the selectors covers a target."""
    return any(selector.matches(target) for selector in selectors)


def compile_glob(pattern: str) -> Matcher:
    """Compile a glob in which ``*`` is any run of characters and everything else stands for itself."""
    head, *pieces = pattern.split("*")
    if not pieces:
        return pattern.__eq__
    tail = pieces.pop()
    middle = [piece for piece in pieces if piece]
    least = len(head) + len(tail)

    def matches(name: str) -> bool:
        if len(name) < least or not name.startswith(head) or not name.endswith(tail):
            return False
        # The leftmost place for each piece leaves most room for the next, so nothing is ever tried twice.
        start, end = len(head), len(name) - len(tail)
        for piece in middle:
            found = name.find(piece, start, end)
            if found < 0:
                return False
            start = found + len(piece)
        return True

    return matches


def compile_uri(pattern: str) -> Matcher:
    """Compile a glob over URIs, in which ``*`` is any run without ``/`` and ``**`` any run at all."""
    tokens = _tokens(pattern)
    if not any(isinstance(token, int) for token in tokens):
        return pattern.__eq__
    if tokens == [_DOUBLE_STAR]:
        return lambda _: True
    return _automaton(tokens)


def _tokens(pattern: str) -> list[str | int]:
    """Split a URI glob into characters and stars, neighbouring stars being one."""
    tokens: list[str | int] = []
    rest = pattern
    while rest:
        run = len(rest) - len(rest.lstrip("*"))
        if run:
            tokens.append(_DOUBLE_STAR if run > 1 else _STAR)
        else:
            tokens.append(rest[0])
        rest = rest[run or 1 :]
    return tokens


def _automaton(tokens: list[str | int]) -> Matcher:
    """Follow all ways through the pattern at once, a bit of one integer for each place in it."""
    stars = doubles = 0
    places: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if isinstance(token, str):
            places[token] = places.get(token, 0) | 1 << index
        else:
            stars |= 1 << index
            doubles |= (1 << index) if token == _DOUBLE_STAR else 0
    end = 1 << len(tokens)
    start = 1 | (1 & stars) << 1

    def matches(uri: str) -> bool:
        ways = start
        for char in uri:
            stay = ways & (doubles if char == "/" else stars)
            ways = stay | (ways & places.get(char, 0)) << 1
            # A star may also stand for nothing.
            ways |= (ways & stars) << 1
            if not ways:
                return False
        return bool(ways & end)

    return matches
