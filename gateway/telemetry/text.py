"""Foreign text made safe to show: in log lines, in refusals, in a terminal.

Pure functions; knows nothing of where a text came from or goes to.
"""

from __future__ import annotations

from typing import Final

ELLIPSIS: Final = "…"

# Characters that Python calls printable but that no reader can see: variation selectors, fillers, joiners.
_INVISIBLE: Final = frozenset(
    map(
        chr,
        (
            0x034F,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            0x180B,
            0x180C,
            0x180D,
            0x180F,
            0x2800,
            0x3164,
            0xFFA0,
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, limit: int | None = None) -> str:
    """Escape what cannot be seen (controls, line separators, bidi and zero-width characters, lone surrogates).

    The result has at most ``limit`` characters, if one is given, the last one ``…`` where something was cut. An already
    printable text within the limit comes back as it is; a backslash stays single, so the escapes are for reading only.
    """
    # No character becomes shorter, so a longer text than this is cut anyway; a megabyte costs no more than a line.
    head = text if limit is None else text[: limit + 1]
    if not _is_plain(head):
        head = "".join(char if _is_visible(char) else _escaped(char) for char in head)
    return head if limit is None or len(head) <= limit else head[: max(limit - 1, 0)] + ELLIPSIS[:limit]


def cut_bytes(text: str, size: int) -> str:
    """Cut a text without lone surrogates to ``size`` bytes of UTF-8, between characters; ``…`` ends a cut text."""
    data = text.encode()
    if len(data) <= size:
        return text
    room = max(size - len(ELLIPSIS.encode()), 0)
    return data[:room].decode(errors="ignore") + ELLIPSIS


def _is_plain(text: str) -> bool:
    return text.isprintable() and (text.isascii() or _INVISIBLE.isdisjoint(text))


def _is_visible(char: str) -> bool:
    return char.isprintable() and char not in _INVISIBLE


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
