"""Finds tools by words: a BM25 index over names, titles, descriptions and parameters of one catalog's tools.

Pure, and the same for everybody: who may see what is asked of each hit afterwards. Written here because the libraries
for it bring numpy or a service along for what are two formulas over a dictionary.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.model.catalog import Route
from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Raw, Value

MAX_QUERY: Final = 400
"""Characters of a query that are read."""
MAX_TERMS: Final = 32
"""Terms of a query that count."""
MAX_WORDS: Final = 2000
"""Words of one definition that are indexed."""
_K1, _B = 1.2, 0.6
_NAME, _TITLE, _TEXT, _PARAMETER = 3.0, 2.0, 1.0, 0.6
_PREFIX_WEIGHT: Final = 0.5
_SHORTEST_PREFIX: Final = 3
_MAX_EXPANSION: Final = 16
_MAX_DEPTH: Final = 4
_COMMON_SHARE: Final = 0.2
MANY: Final = 1000
"""Tools with a word from which on it may be too common to make hits by itself."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_IDEOGRAPHS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_COMMON: Final = frozenset(
    {
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "for",
        "from",
        "has",
        "how",
        "i",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "use",
        "used",
        "using",
        "want",
        "what",
        "when",
        "which",
        "will",
        "with",
        "you",
        "your",
    }
)


def terms(text: str) -> Iterator[str]:
    """Yield what a text is found by: its words, split at changes of case, in a singular form; writing without blanks
    is cut into pairs."""
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if _IDEOGRAPHS.fullmatch(word) and len(word) > 1:
            yield from (word[at : at + 2] for at in range(len(word) - 1))
        elif word not in _COMMON:
            yield _singular(word)


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@dataclass(frozen=True, slots=True)
class Index:
    """An index; ``routes`` are its documents, ``postings`` say in which of them a term stands and how heavily."""

    routes: tuple[Route, ...]
    postings: dict[str, dict[int, float]]
    vocabulary: list[str]

    @classmethod
    def of(cls, routes: Iterable[Route], weigh: Callable[[Route], Mapping[str, float]] | None = None) -> Index:
        """Build the index of some tools; ``weigh`` may know what ``weights`` says of one already."""
        ordered = tuple(routes)
        counts = [(weigh or weights)(route) for route in ordered]
        lengths = [sum(each.values()) for each in counts]
        average = (sum(lengths) / len(lengths) if lengths else 0.0) or 1.0
        postings: dict[str, dict[int, float]] = {}
        for number, (each, length) in enumerate(zip(counts, lengths, strict=True)):
            norm = _K1 * (1 - _B + _B * length / average)
            for term, weight in each.items():
                # All but the rarity of the term, which is known only at the end.
                postings.setdefault(term, {})[number] = weight * (_K1 + 1) / (weight + norm)
        return cls(ordered, postings, sorted(postings))

    def ranked(self, query: str) -> list[Route]:
        """Return every tool that has something of a query, best first; equal ones in catalog order."""
        scores: dict[int, float] = {}
        for rarity, found in self._asked(query):
            if scores and len(found) > max(MANY, len(self.routes) * _COMMON_SHARE):
                # A word that most tools have tells hits of rarer words apart, and makes no hits of its own.
                for number in scores.keys() & found.keys() if len(scores) > len(found) else scores:
                    scores[number] += rarity * found.get(number, 0.0)
            else:
                for number, weight in found.items():
                    scores[number] = scores.get(number, 0.0) + rarity * weight
        numbers = sorted(scores)
        numbers.sort(key=scores.__getitem__, reverse=True)
        return [self.routes[number] for number in numbers]

    def _asked(self, query: str) -> list[tuple[float, dict[int, float]]]:
        """Return rarity and postings of each term of a query, the rarest first."""
        asked = []
        for term in dict.fromkeys(list(terms(query[:MAX_QUERY]))[:MAX_TERMS]):
            for known, share in self._known(term):
                found = self.postings[known]
                rarity = share * math.log(1 + (len(self.routes) - len(found) + 0.5) / (len(found) + 0.5))
                asked.append((rarity, found))
        return sorted(asked, key=lambda each: len(each[1]))

    def _known(self, term: str) -> list[tuple[str, float]]:
        """Return the term itself, or else the indexed ones that begin with it."""
        if term in self.postings:
            return [(term, 1.0)]
        if len(term) < _SHORTEST_PREFIX:
            return []
        at = bisect.bisect_left(self.vocabulary, term)
        near = self.vocabulary[at : at + _MAX_EXPANSION]
        return [(word, _PREFIX_WEIGHT) for word in near if word.startswith(term)]


def weights(route: Route) -> dict[str, float]:
    """Weigh the terms of one definition; what cannot be read adds nothing."""
    members, found = route.definition.members, dict[str, float]()
    parts: list[tuple[str, float]] = [
        (route.name, _NAME),
        (route.server, _TITLE),
        (_text(members.get("title")), _TITLE),
        (_text(members.get("description")), _TEXT),
        *((text, _PARAMETER) for text in _parameters(members.get("inputSchema"))),
    ]
    words = 0
    for text, weight in parts:
        for term in terms(text[: MAX_WORDS * 16]):
            words += 1
            if words > MAX_WORDS:
                return found
            found[term] = found.get(term, 0.0) + weight
    return found


def _text(item: Raw | None) -> str:
    value = rawjson.peek(item)
    return value if isinstance(value, str) else ""


def _parameters(item: Raw | None) -> Iterator[str]:
    """Yield names and descriptions of the parameters in a schema, a few levels deep."""
    if item is None:
        return
    try:
        schema = rawjson.decode_value(item)
    except JsonError:
        return
    level: list[Value] = [schema]
    for _ in range(_MAX_DEPTH):
        below: list[Value] = []
        for node in level:
            properties = node.get("properties") if isinstance(node, dict) else None
            for name, child in properties.items() if isinstance(properties, dict) else ():
                yield name
                if isinstance(child, dict):
                    if isinstance(text := child.get("description"), str):
                        yield text
                    below += [child, child.get("items")]
        level = below
