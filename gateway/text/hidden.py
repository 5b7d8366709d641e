"""Characters that a person does not see and a model reads (S143): controls, zero-width and bidirectional marks, tags.

Sequences that people do see are left alone: joined emoji, the flags that are written with tag characters, and joiners
between letters of scripts that need them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

_RANGES: Final = (
    (0x00, 0x08),
    (0x0B, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x180E, 0x180E),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE007F),
    (0xE0100, 0xE01EF),
)
"""All but line feed and tab of the C0 and C1 controls, and what has no shape of its own. A carriage return is hidden:
in a terminal it lets a line write over itself."""

_CLASS: Final = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _RANGES)
_HIDDEN: Final = re.compile(f"[{_CLASS}]")

_PICTURE: Final = "[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]*"
_JOINED: Final = f"{_PICTURE}(?:\u200d{_PICTURE})+"
_FLAG: Final = (
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""England, Scotland and Wales are the flags in use that are written with tags (Unicode TR51)."""
_LETTER: Final = "[\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18aa]"
_JOINER: Final = f"(?<={_LETTER})[\u200c\u200d](?={_LETTER})"
_SEEN: Final = re.compile(f"{_JOINED}|{_FLAG}|{_JOINER}")
_LINE_END: Final = re.compile("\r\n")
_TERMINAL: Final = re.compile(r"\x1b\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]")
"""Sequences that move the cursor, set colours or titles (ECMA-48): what follows the escape means nothing without it."""

_Replacement: TypeAlias = Callable[["re.Match[str]"], str]


def find(text: str) -> tuple[str, ...]:
    """Return the hidden characters of a text, each once, as ``U+200B``, in the order they are met."""
    if _HIDDEN.search(text) is None:
        return ()
    return tuple(dict.fromkeys(f"U+{ord(each):04X}" for each in _HIDDEN.findall(_visible(text))))


def strip(text: str) -> str:
    """Take hidden characters out, again until none is left; line ends of Windows become plain ones.

    Of a terminal's sequences nothing is left, not only the escape character.
    """
    return _replaced(text if text.isprintable() else _TERMINAL.sub("", text), lambda _: "")


def escape(text: str) -> str:
    """Write hidden characters as ``<U+200B>``, so that a reader and a model see the same."""
    return _replaced(text, lambda match: f"<U+{ord(match[0]):04X}>")


def _visible(text: str) -> str:
    return _SEEN.sub("", _LINE_END.sub("\n", text))


def _replaced(text: str, replacement: _Replacement) -> str:
    if _HIDDEN.search(text) is None:
        return text
    text = _LINE_END.sub("\n", text)
    while True:
        parts, at = [], 0
        for kept in _SEEN.finditer(text):
            parts += [_HIDDEN.sub(replacement, text[at : kept.start()]), kept[0]]
            at = kept.end()
        parts.append(_HIDDEN.sub(replacement, text[at:]))
        after = "".join(parts)
        # What was kept apart by a hidden character may have come together to something else.
        if after == text:
            return after
        text = after
