"""Shows JSON laid out over lines, without reading it: what is shown is exactly the text, but for white space around it.

Numbers keep their digits and names their order, since nothing is decoded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.admin.pages.markup import Html, el, join, lines, text

MAX_SHOWN: Final = 200_000
"""Characters; longer texts are cut and say so."""
_MAX_DEPTH: Final = 64
_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|"', re.DOTALL)
_CLOSES: Final = {"{": "}", "[": "]"}


def laid_out(source: str) -> Html:
    """Return a JSON text as a block of lines."""
    cut = source[:MAX_SHOWN]
    rest = el("p", {"class": "nothing"}, f"Cut after {MAX_SHOWN:,} characters.") if len(source) > MAX_SHOWN else None
    return join(el("pre", {"class": "json", "tabindex": "0"}, list(_pieces(_PIECE.findall(cut)))), rest)


def _pieces(pieces: list[str]) -> Iterator[Html]:
    depth = 0
    for index, piece in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else ""
        before = pieces[index - 1] if index else ""
        if piece in _CLOSES:
            depth += 1
            yield lines(piece, 0 if following == _CLOSES[piece] else 1, _indent(depth))
        elif piece in ("}", "]"):
            depth -= 1
            empty = _CLOSES.get(before) == piece
            yield join(lines("", 0 if empty else 1, _indent(depth)), piece)
        elif piece == ",":
            yield lines(piece, 1, _indent(depth))
        elif piece == ":":
            yield text(": ")
        else:
            kind = "member" if following == ":" else "string" if piece.startswith('"') else "value"
            yield el("span", {"class": kind}, text(piece, MAX_SHOWN))


def _indent(depth: int) -> int:
    return 2 * max(0, min(depth, _MAX_DEPTH))
