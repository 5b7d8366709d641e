"""Splits a long text so that looking at it never takes long at a stretch: one search holds the interpreter's lock."""

from __future__ import annotations

from typing import Final

LENGTH: Final = 16 * 1024
"""Characters in a piece, at most."""
_BLOCK_BEGINS: Final = "-----BEGIN"
_BLOCK_ENDS: Final = "-----END"
_LONGEST_BLOCK: Final = LENGTH // 2


def pieces(text: str) -> list[str]:
    """Split at spaces or line ends where there are any, and not inside a key that is written over several lines."""
    if len(text) <= LENGTH:
        return [text]
    found: list[str] = []
    at = 0
    while len(text) - at > LENGTH:
        end = _cut(text, at)
        found.append(text[at:end])
        at = end
    found.append(text[at:])
    return found


def _cut(text: str, at: int) -> int:
    limit = at + LENGTH
    begins = text.rfind(_BLOCK_BEGINS, limit - _LONGEST_BLOCK, limit)
    if begins > at and text.find(_BLOCK_ENDS, begins, limit) < 0:
        return begins
    space = max(text.rfind(each, limit - _LONGEST_BLOCK, limit) for each in (" ", "\n"))
    return space + 1 if space > at else limit
