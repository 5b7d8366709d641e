"""What changed between two definitions, as people read it: JSON pointer, before, after; what hides is made visible.

Pure. Bounded, since a server that changes everything must not fill an audit log or a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.protocol import rawjson
from gateway.protocol.rawjson import JsonError, Object, Value
from gateway.telemetry.text import printable

MAX_LINES: Final = 40
MAX_TEXT: Final = 240
MORE: Final = "more members differ"
"""What the last line says where there are more."""
_CONTEXT: Final = 40
"""Characters shown before the first one that differs."""


@dataclass(frozen=True, slots=True)
class Line:
    """One member that differs. ``before`` is None for one that is new, ``after`` for one that is gone."""

    pointer: str
    before: str | None
    after: str | None

    def value(self) -> Object:
        """Return it for JSON."""
        return {"pointer": self.pointer, "before": self.before, "after": self.after}


def lines(before: str, after: str) -> tuple[Line, ...]:
    """Compare two canonical texts; "" stands for nothing. At most ``MAX_LINES``; the last says if there are more."""
    found: list[Line] = []
    for line in _walk("", _read(before), _read(after)):
        if len(found) == MAX_LINES:
            found[-1] = Line("", None, MORE)
            break
        found.append(line)
    return tuple(found)


def texts(before: str, after: str) -> tuple[Line, ...]:
    """Compare two plain texts, such as instructions."""
    return () if before == after else (_line("", before, after),)


class _Nothing:
    """What is not there; None is a JSON value."""


_NOTHING: Final = _Nothing()


def _read(text: str) -> Value | _Nothing:
    if not text:
        return _NOTHING
    try:
        return rawjson.decode_exact(text.encode())
    except JsonError:
        return text


def _walk(at: str, before: Value | _Nothing, after: Value | _Nothing) -> Iterator[Line]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _walk(f"{at}/{_token(key)}", before.get(key, _NOTHING), after.get(key, _NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            old = before[index] if index < len(before) else _NOTHING
            new = after[index] if index < len(after) else _NOTHING
            yield from _walk(f"{at}/{index}", old, new)
    elif _differ(before, after):
        yield _line(at, before, after)


def _differ(before: Value | _Nothing, after: Value | _Nothing) -> bool:
    if isinstance(before, _Nothing) or isinstance(after, _Nothing):
        return before is not after
    return rawjson.canonical(before) != rawjson.canonical(after)


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _line(at: str, before: Value | _Nothing, after: Value | _Nothing) -> Line:
    start = 0
    if isinstance(before, str) and isinstance(after, str):
        start = _first_difference(before, after)
    return Line(printable(at, MAX_TEXT), _shown(before, start), _shown(after, start))


def _first_difference(before: str, after: str) -> int:
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return index
    return min(len(before), len(after))


def _shown(value: Value | _Nothing, start: int) -> str | None:
    if isinstance(value, _Nothing):
        return None
    text = value if isinstance(value, str) else rawjson.canonical(value).decode()
    skipped = start - _CONTEXT if start > _CONTEXT else 0
    return ("…" if skipped else "") + printable(text[skipped:], MAX_TEXT)
