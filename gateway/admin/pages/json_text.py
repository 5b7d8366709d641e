"""Shows JSON laid out over lines, without reading it: what is shown is exactly the text, but for white space around it.

Numbers keep their digits and names their order, since nothing is decoded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.admin.pages.markup import Html, el, join, painted

MAX_SHOWN: Final = 300_000
"""Characters; longer texts are cut and say so. Arguments that wait for a person and definitions are shorter."""
_MAX_DEPTH: Final = 16
# A text that does not end, such as one that was cut, is one piece: looking for its end at each quote would take hours.
_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CLOSES: Final = {"{": "}", "[": "]"}


def laid_out(source: str) -> Html:
    """Return a JSON text as a block of lines."""
    cut = source[:MAX_SHOWN]
    rest = el("p", {"class": "nothing"}, f"Cut after {MAX_SHOWN:,} characters.") if len(source) > MAX_SHOWN else None
    return join(el("pre", {"class": "json", "tabindex": "0"}, painted(_pieces(_PIECE.findall(cut)))), rest)


def _pieces(pieces: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each piece with its class, and without one what is structure, with the line ends that are ours."""
    depth = 0
    for index, piece in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else ""
        before = pieces[index - 1] if index else ""
        if piece in _CLOSES:
            depth += 1
            yield "", piece if following == _CLOSES[piece] else piece + _line(depth)
        elif piece in ("}", "]"):
            depth -= 1
            yield "", piece if _CLOSES.get(before) == piece else _line(depth) + piece
        elif piece == ",":
            yield "", piece + _line(depth)
        elif piece == ":":
            yield "", ": "
        else:
            kind = "member" if following == ":" else "string" if piece.startswith('"') else "value"
            yield kind, piece


def _line(depth: int) -> str:
    return "\n" + "  " * max(0, min(depth, _MAX_DEPTH))
